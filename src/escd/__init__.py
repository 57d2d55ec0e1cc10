"""escd: on-policy distillation between language models with different tokenizers.

Event-Set Completion Distillation (arXiv 2609.34738). The core (`ByteVocab`, `TokenizerPair`, `align`, `objective`)
needs numpy, torch and tokenizers only; the trainer (`ESCDTrainer`, `ESCDConfig`) needs `pip install escd[train]`.
"""

from typing import TYPE_CHECKING, Any

from .align import Alignment, Span, align, align_spans
from .errors import AlignError, ConfigError, EscdError, StudentError, TeacherError, VocabError
from .objectives import objective, objective_names
from .pair import TokenizerPair
from .vocab import ByteVocab

if TYPE_CHECKING:
    from .training import ESCDConfig, ESCDTrainer

__version__ = "0.1.0.dev0"

__all__ = [
    "AlignError",
    "Alignment",
    "ByteVocab",
    "ConfigError",
    "ESCDConfig",
    "ESCDTrainer",
    "EscdError",
    "Span",
    "StudentError",
    "TeacherError",
    "TokenizerPair",
    "VocabError",
    "align",
    "align_spans",
    "objective",
    "objective_names",
]


def __getattr__(name: str) -> Any:
    # The trainer pulls in transformers and TRL: only for those who use it.
    if name in ("ESCDConfig", "ESCDTrainer"):
        from . import training

        return getattr(training, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
