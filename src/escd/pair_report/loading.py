"""What `escd pair` reads of a model: tokenizer, generation config and configuration, never its weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigError
from ..models import check_path, load_configs, load_tokenizer, path_of
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
    config, generation = load_configs(path, who, **kwargs)
    rows = getattr(config.get_text_config(), "vocab_size", None) if config is not None else None
    return Side(name, ByteVocab.from_tokenizer(tokenizer, generation), tokenizer, generation, rows)
