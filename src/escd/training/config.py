"""`ESCDConfig`: every field of `trl.DistillationConfig` (hence of `TrainingArguments`) and those of the objective."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from trl import DistillationConfig

from ..errors import ConfigError
from ..objectives import objective_names
from ..objectives.base import suggest


@dataclass
class ESCDConfig(DistillationConfig):
    """Arguments of an `ESCDTrainer`.

    Beyond `trl.DistillationConfig`. Two of its fields mean less here: `temperature` is that of sampling only, losses
    are taken at temperature 1 (method section 1); `beta` must stay as it is, the divergence is part of the objective.

    Args:
        objective: Name of the objective.
        child_weight: Weight of the child loss (paper eq. 10).
        mask_whitespace_roots: Rows whose sampled token is only spaces or tabs carry no root loss.
        completion: Which student tokens complete a teacher token: set, none, single, exact or minimal.
        teacher_tokenizer_name_or_path: Tokenizer of the teacher, if it does not lie with the teacher's weights.
        teacher_chat_template_kwargs: Like `chat_template_kwargs`, for the teacher's template.
        tile_megabytes: Memory for the logits of one tile of rows, in MiB.
        pair_cache_dir: Folder of cached tokenizer pairs; `$ESCD_CACHE`, else ~/.cache/escd.

    Raises:
        ConfigError: An option value that no objective knows.
    """

    _VALID_DICT_FIELDS: ClassVar = [*DistillationConfig._VALID_DICT_FIELDS, "teacher_chat_template_kwargs"]

    objective: str = field(default="escd", metadata={"help": "Name of the objective."})
    child_weight: float = field(default=1.0, metadata={"help": "Weight of the child loss (paper eq. 10)."})
    mask_whitespace_roots: bool = field(
        default=True,
        metadata={"help": "Whether rows whose sampled token is only spaces or tabs carry no root loss."},
    )
    completion: str = field(
        default="set",
        metadata={"help": "Which student tokens complete a teacher token: set, none, single, exact or minimal."},
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
        super().__post_init__()
        if self.objective not in objective_names():
            raise ConfigError(f"objective={self.objective!r} is unknown{suggest(self.objective, objective_names())}")
        if self.beta != 1.0:
            raise ConfigError(f"beta={self.beta} has no effect: objective {self.objective!r} has one divergence")
        if self.tile_megabytes < 1:
            raise ConfigError(f"tile_megabytes={self.tile_megabytes} must be at least 1")

    def objective_options(self) -> dict[str, Any]:
        """Keyword options for `escd.objective`."""
        return {
            "child_weight": self.child_weight,
            "mask_whitespace_roots": self.mask_whitespace_roots,
            "completion": self.completion,
        }


def as_dict(value: dict[str, Any] | str | None) -> dict[str, Any]:
    """A dictionary option after `TrainingArguments` has parsed its JSON form; empty if not given.

    Raises:
        ConfigError: It is text that is no JSON dictionary.
    """
    if isinstance(value, str):
        raise ConfigError(f"{value!r} must be a JSON dictionary, e.g. '{{\"key\": 1}}'")
    return value or {}
