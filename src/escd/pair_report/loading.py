"""What `escd pair` reads of a model: tokenizer, generation config and configuration, never its weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from transformers import AutoConfig, GenerationConfig

from ..errors import ConfigError, first_line
from ..models import check_path, load_tokenizer, path_of
from ..tokenizer_files import SUFFIXES
from ..vocab import ByteVocab


@dataclass(frozen=True)
class Side:
    """A teacher or a student without its weights.

    Attributes:
        name: As the user named it.
        vocab: Its vocabulary.
        tokenizer: Its transformers tokenizer.
        generation_config: None if the tokenizer comes without a configuration.
        head_rows: Rows of its lm_head by its configuration, None without one.
    """

    name: str
    vocab: ByteVocab
    tokenizer: Any
    generation_config: Any
    head_rows: int | None


def load_side(name: str, who: str, **kwargs: Any) -> Side:
    """Read a model's tokenizer and configuration.

    Args:
        name: Folder (one with nothing but a tokenizer will do), file of a tokenizer, hub id, or name in the lab.
        who: "teacher" or "student", for messages.
        **kwargs: For `from_pretrained`: `revision`, `trust_remote_code`.

    Raises:
        ConfigError: There is no tokenizer, or a configuration that cannot be read.
        VocabError: The tokenizer is of a kind that is not supported.
    """
    path = path_of(name)
    single = path.endswith(SUFFIXES) and not os.path.isdir(path)
    if os.path.isfile(path) and not single:
        raise ConfigError(
            f"{who} {name!r}: a tokenizer in a single file ends in {', '.join(SUFFIXES)}; or name a folder"
        )
    if not (single or os.path.isdir(path)):
        check_path(path, who)
    tokenizer = load_tokenizer(path, who, **kwargs)
    config = generation = None
    if not single:
        config = _optional(AutoConfig, path, "config.json", who, **kwargs)
        generation = _optional(GenerationConfig, path, "generation_config.json", who, **kwargs)
    if generation is None and config is not None:
        # As a model does that is loaded without one.
        generation = GenerationConfig.from_model_config(config)
    rows = getattr(config.get_text_config(), "vocab_size", None) if config is not None else None
    return Side(name, ByteVocab.from_tokenizer(tokenizer, generation), tokenizer, generation, rows)


def _optional(kind: Any, path: str, file: str, who: str, **kwargs: Any) -> Any:
    """A configuration of a model, None if it has none.

    Raises:
        ConfigError: It is there and cannot be read.
    """
    if os.path.isdir(path) and not os.path.isfile(os.path.join(path, file)):
        return None
    try:
        return kind.from_pretrained(path, **kwargs)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        if os.path.isdir(path):
            raise ConfigError(f"{who} {path!r}: {file} cannot be read: {first_line(error)}") from error
        return None
