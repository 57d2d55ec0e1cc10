"""`ESCDConfig`: every field of `trl.DistillationConfig` (hence of `TrainingArguments`) and those of the objective."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from trl import DistillationConfig

from ..errors import ConfigError
from ..objectives import objective, objective_names
from ..objectives.base import check_options, option_names
from ..objectives.completion import COMPLETIONS
from ..objectives.options import check_number, check_whole, told
from ..pair import TokenizerPair
from ..vocab import ByteVocab
from .serving import ServingArguments

# Options of objectives that are flags of their own.
_OPTIONS = ("child_weight", "mask_whitespace_roots", "completion", "completion_weight", "rest_bin", "beta")
# Dictionaries that may be the path of a file instead.
_FILES = ("accelerator_config", "fsdp_config", "deepspeed")
# Without these checks a run would break off after its models were loaded, or go on and mean nothing. Name -> range, of
# which the lowest value is outside where `over` says so.
_NUMBERS: dict[str, dict[str, Any]] = {
    "learning_rate": {}, "weight_decay": {}, "adam_epsilon": {}, "warmup_steps": {}, "adam_beta1": {"high": 1},
    "adam_beta2": {"high": 1}, "temperature": {"over": True}, "top_p": {"high": 1, "over": True},
    "min_p": {"high": 1}, "repetition_penalty": {"over": True},
}  # fmt: skip
_WHOLE: dict[str, dict[str, Any]] = {
    "per_device_train_batch_size": {}, "gradient_accumulation_steps": {}, "max_completion_length": {},
    "tile_megabytes": {}, "dataloader_prefetch_factor": {}, "dataloader_num_workers": {"low": 0}, "top_k": {"low": 0},
    "seed": {"low": 0, "high": 2**32 - 1}, "data_seed": {"low": 0, "high": 2**32 - 1},
}  # fmt: skip


@dataclass
class ESCDConfig(ServingArguments, DistillationConfig):
    """Arguments of an `ESCDTrainer`.

    Beyond `trl.DistillationConfig`, and `ServingArguments` for a served teacher. Two of TRL's fields mean less here:
    `temperature` is that of sampling only, losses are taken at temperature 1 (method section 1); `beta` belongs to
    objectives that have a choice of divergence.

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
        ConfigError: An option value that no objective knows, a number out of its range, a dictionary that is none.
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
        self._check_dictionaries()
        self._check_numbers()
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
        self.check_serving()
        # Values are judged now, before any model is loaded.
        any_vocab = ByteVocab([b"a", None], stop_ids=[1])
        objective(self.objective, TokenizerPair(student=any_vocab, teacher=any_vocab), **self.objective_options())

    def _check_dictionaries(self) -> None:
        for name in self._VALID_DICT_FIELDS:
            value = getattr(self, name)
            if isinstance(value, str) and value.startswith("{"):
                try:
                    json.loads(value)
                except ValueError as error:
                    raise ConfigError(f"{name}={told(value)} is no JSON: {error}") from error
            elif name not in _FILES and value is not None and not isinstance(value, dict):
                raise ConfigError(f"{name}={told(value)} must be a JSON dictionary, e.g. '{{\"key\": 1}}'")

    def _check_numbers(self) -> None:
        for check, ranges in ((check_number, _NUMBERS), (check_whole, _WHOLE)):
            for name, of in ranges.items():
                if getattr(self, name) is not None:
                    check(name, getattr(self, name), **of)
        if self.max_steps != -1:
            check_whole("max_steps", self.max_steps)
        else:
            check_number("num_train_epochs", self.num_train_epochs, over=True)
        for what in ("logging", "save"):
            if getattr(self, f"{what}_strategy") == "steps":
                check_number(f"{what}_steps", getattr(self, f"{what}_steps"), over=True)

    def objective_options(self) -> dict[str, Any]:
        """Keyword options for `escd.objective`.

        Raises:
            ConfigError: An option that was changed, but that this objective does not have; one in `objective_kwargs`
                that is a flag of its own.
        """
        known = option_names(self.objective)
        options = as_dict(self.objective_kwargs)
        check_options(self.objective, options)
        for name in _OPTIONS:
            value = getattr(self, name)
            if name in options:
                raise ConfigError(
                    f"objective_kwargs: {name} is a flag of its own; give --{name} {told(options[name])}"
                )
            if name in known and value is not None:
                options = {name: value, **options}
            elif name not in known and value != ESCDConfig.__dataclass_fields__[name].default:
                raise ConfigError(f"{name}={value!r} has no effect: objective {self.objective!r} has no such option")
        return options


def as_dict(value: dict[str, Any] | str | None) -> dict[str, Any]:
    """A dictionary option of a checked configuration, which has parsed its JSON form; empty if not given."""
    return value if isinstance(value, dict) else {}
