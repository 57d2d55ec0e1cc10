"""The trainer: `trl.DistillationTrainer` with a teacher of another tokenizer."""

from .config import ESCDConfig
from .trainer import ESCDTrainer

__all__ = ["ESCDConfig", "ESCDTrainer"]
