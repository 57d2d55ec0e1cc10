"""`ESCDConfig`: every field of `trl.DistillationConfig` (hence of `TrainingArguments`) and those of the objective."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from trl import DistillationConfig

from ..errors import ConfigError
from ..objectives import objective, objective_names
from ..objectives.base import option_names
from ..objectives.completion import COMPLETIONS
from ..pair import TokenizerPair
from ..vocab import ByteVocab

# Options of objectives that are flags of their own.
_OPTIONS = ("child_weight", "mask_whitespace_roots", "completion", "completion_weight", "rest_bin", "beta")


@dataclass
class ESCDConfig(DistillationConfig):
    """Arguments of an `ESCDTrainer`.

    Beyond `trl.DistillationConfig`. Two of its fields mean less here: `temperature` is that of sampling only, losses
    are taken at temperature 1 (method section 1); `beta` belongs to objectives that have a choice of divergence.

    Args:
        objective: Name of the objective.
        child_weight: Weight of the child loss (paper eq. 10).
        mask_whitespace_roots: Rows whose sampled token is only spaces or tabs carry no root loss.
        completion: Which student tokens complete a teacher token: set, none, single, exact, minimal or deep.
        completion_weight: What a completion set is weighted by: mass or posterior.
        rest_bin: Whether completion sets and all other tokens are compared by KL.
        beta: 0 forward KL, 1 reverse KL, between them JSD; the objective's own default if not given.
        objective_kwargs: Further options of the objective, e.g. `{"power": 0.01}` of `alm`.
        teacher_tokenizer_name_or_path: Tokenizer of the teacher, if it does not lie with the teacher's weights.
        teacher_chat_template_kwargs: Like `chat_template_kwargs`, for the teacher's template.
        tile_megabytes: Memory for the logits of one tile of rows, in MiB.
        pair_cache_dir: Folder of cached tokenizer pairs; `$ESCD_CACHE`, else ~/.cache/escd.

    Raises:
        ConfigError: An option value that no objective knows.
    """

    _VALID_DICT_FIELDS: ClassVar = [
        *DistillationConfig._VALID_DICT_FIELDS, "teacher_chat_template_kwargs", "objective_kwargs",
    ]  # fmt: skip

    objective: str = field(
        default="escd", metadata={"help": f"Name of the objective: {', '.join(objective_names())}."}
    )
    child_weight: float = field(default=1.0, metadata={"help": "Weight of the child loss (paper eq. 10)."})
    mask_whitespace_roots: bool = field(
        default=True,
        metadata={"help": "Whether rows whose sampled token is only spaces or tabs carry no root loss."},
    )
    completion: str = field(
        default="set",
        metadata={"help": f"Which student tokens complete a teacher token: {', '.join(COMPLETIONS)}."},
    )
    completion_weight: str = field(
        default="mass", metadata={"help": "What a completion set is weighted by: mass (the paper's) or posterior."}
    )
    rest_bin: bool = field(
        default=False, metadata={"help": "Whether completion sets and all other tokens are compared by KL."}
    )
    beta: float | None = field(  # type: ignore[assignment]
        default=None,
        metadata={
            "help": "Divergence of objectives that have a choice: 0 forward KL, 1 reverse KL, between them JSD. "
            "Defaults to the objective's own."
        },
    )
    objective_kwargs: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "Further options of the objective, e.g. '{\"power\": 0.01}' for alm."}
    )
    teacher_tokenizer_name_or_path: str | None = field(
        default=None,
        metadata={"help": "Tokenizer of the teacher, if it does not lie with the teacher's weights."},
    )
    teacher_chat_template_kwargs: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Keyword arguments for the teacher's chat template, e.g. '{\"enable_thinking\": false}'."},
    )
    tile_megabytes: int = field(default=256, metadata={"help": "Memory in MiB for the logits of one tile of rows."})
    pair_cache_dir: str | None = field(
        default=None,
        metadata={"help": "Folder of cached tokenizer pairs. Defaults to $ESCD_CACHE, else ~/.cache/escd."},
    )

    def __post_init__(self):
        if not torch.accelerator.is_available():
            # Half precision is an accelerator's trade; a CPU trains in the precision of the weights.
            self.use_cpu = True
            self.bf16 = bool(self.bf16)
        # Newer transformers renamed these; TRL still sets the old names, which would warn every user.
        for old, new in (
            ("gradient_checkpointing", "activation_checkpointing"),
            ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
        ):
            if getattr(self, new, 0) is None:
                setattr(self, new, getattr(self, old))
        # TRL's own loss, which is not used here, would insist on a number.
        beta, self.beta = self.beta, 1.0
        super().__post_init__()
        self.beta = beta
        if self.tile_megabytes < 1:
            raise ConfigError(f"tile_megabytes={self.tile_megabytes} must be at least 1")
        # Values are judged now, before any model is loaded.
        any_vocab = ByteVocab([b"a", None], stop_ids=[1])
        objective(self.objective, TokenizerPair(student=any_vocab, teacher=any_vocab), **self.objective_options())

    def objective_options(self) -> dict[str, Any]:
        """Keyword options for `escd.objective`.

        Raises:
            ConfigError: An option that was changed, but that this objective does not have.
        """
        known = option_names(self.objective)
        options = as_dict(self.objective_kwargs)
        for name in _OPTIONS:
            value = getattr(self, name)
            if name in known and value is not None:
                options = {name: value, **options}
            elif name not in known and value != ESCDConfig.__dataclass_fields__[name].default:
                raise ConfigError(f"{name}={value!r} has no effect: objective {self.objective!r} has no such option")
        return options


def as_dict(value: dict[str, Any] | str | None) -> dict[str, Any]:
    """A dictionary option after `TrainingArguments` has parsed its JSON form; empty if not given.

    Raises:
        ConfigError: It is text that is no JSON dictionary.
    """
    if isinstance(value, str):
        raise ConfigError(f"{value!r} must be a JSON dictionary, e.g. '{{\"key\": 1}}'")
    return value or {}
