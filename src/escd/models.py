"""Models and tokenizers by path, hub id or name in the lab, with errors that name the path and the mend."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from . import lab
from .errors import ConfigError, first_line
from .objectives.options import suggest
from .tokenizer_files import SUFFIXES, from_file

_LAB = {"lab/teacher": lab.TEACHER_PATH, "lab/student": lab.STUDENT_PATH}


def path_of(name: str) -> str:
    """Where a model lies: the folder of one of the lab, a path with `~` resolved, or a hub id as it is.

    Raises:
        ConfigError: It begins like a name in the lab, but is none.
    """
    if name.startswith("lab/") and name not in _LAB and not os.path.exists(name):
        raise ConfigError(f"model {name!r} is unknown{suggest(name, list(_LAB))}")
    return _LAB.get(name, os.path.expanduser(name))


def check_path(name: str, who: str, adapters: bool = False) -> None:
    """Raise `ConfigError` for something that can only be a folder on this machine and is none.

    Args:
        name: Path or hub id.
        who: "teacher", "student" or "model", for the message.
        adapters: Whether a folder of PEFT adapters will do.
    """
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1
    if looks_local and not os.path.isdir(os.path.expanduser(name)):
        raise ConfigError(f"{who} {name!r}: there is no such folder")
    configs = ("config.json", *(["adapter_config.json"] if adapters else []))
    if os.path.isdir(name) and not any(os.path.isfile(os.path.join(name, c)) for c in configs):
        raise ConfigError(f"{who} {name!r}: the folder holds no config.json, so it is no model")


def load_tokenizer(name: str, who: str, **kwargs: Any) -> PreTrainedTokenizerBase:
    """The tokenizer at a path or hub id, or in a single file; of PEFT adapters without one that of their base model.

    Raises:
        ConfigError: There is none.
    """
    if name.endswith(SUFFIXES) and not os.path.isdir(name):
        return from_file(name, who)
    check = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model")
    if os.path.isdir(name) and not any(os.path.isfile(os.path.join(name, f)) for f in check):
        adapters = Path(name, "adapter_config.json")
        if adapters.is_file() and (base := json.loads(adapters.read_bytes()).get("base_model_name_or_path")):
            return load_tokenizer(base, who, **kwargs)
        raise ConfigError(
            f"{who} {name!r} has no tokenizer (no tokenizer.json in the folder); save one there with "
            "tokenizer.save_pretrained(...)"
        )
    try:
        return AutoTokenizer.from_pretrained(name, **kwargs)
    except TypeError as error:
        raise ConfigError(
            f"cannot load a tokenizer for the {who} from {name!r}: {first_line(error)}; tokenizer_config.json takes "
            "one token of each kind, list further stops as eos_token_id in generation_config.json"
        ) from error
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ConfigError(f"cannot load a tokenizer for the {who} from {name!r}: {first_line(error)}") from error


def load_configs(name: str, who: str, **kwargs: Any) -> tuple[Any, Any]:
    """Configuration and generation configuration at a path or hub id, None for what is not there (or in one file).

    Raises:
        ConfigError: One is there and cannot be read.
    """
    if os.path.isfile(name):
        return None, None
    config = _optional(AutoConfig, name, "config.json", who, **kwargs)
    generation = _optional(GenerationConfig, name, "generation_config.json", who, **kwargs)
    if generation is None and config is not None:
        # As a model does that is loaded without one.
        generation = GenerationConfig.from_model_config(config)
    return config, generation


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


def load_model(name: str, who: str, **kwargs: Any) -> PreTrainedModel:
    """The causal LM at a path or hub id; a folder of PEFT adapters is loaded onto its base model.

    Args:
        name: Path or hub id.
        who: "teacher" or "model", for the message.
        **kwargs: For `from_pretrained`; those that are None are left out.

    Raises:
        ConfigError: It cannot be loaded.
    """
    given = {key: value for key, value in kwargs.items() if value is not None}
    try:
        return AutoModelForCausalLM.from_pretrained(name, **given)
    # Weights that are cut off or do not fit, options that the class does not know, modules that are not installed.
    except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"cannot load the {who} from {name!r}: {first_line(error)}") from error
