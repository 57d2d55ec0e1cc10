"""The lm_head of a checkpoint, without the rest of the model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from ...errors import ConfigError, first_line
from ...objectives.tiles import Head
from ..local import logit_rules

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_FETCH = "if the hub cannot be reached from here, fetch it first with 'hf download {name}'"


def read_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """The configuration of a model.

    Raises:
        ConfigError: There is none.
    """
    try:
        return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ConfigError(
            f"cannot load the configuration of the teacher from {name!r}: {first_line(error)}"
        ) from error


def read_generation_config(name: str, config: Any, revision: str | None = None) -> GenerationConfig:
    """The generation configuration that the model would have if it were loaded."""
    try:
        return GenerationConfig.from_pretrained(name, revision=revision or "main")
    except OSError:
        return GenerationConfig.from_model_config(config)


def read_head(name: str, config: Any, revision: str | None = None, trust_remote_code: bool = False) -> Head:
    """The lm_head of a checkpoint; of a sharded one only the shard that holds it is read.

    Args:
        name: Folder or hub id, with safetensors.
        config: Its configuration.
        revision: Of the hub id.
        trust_remote_code: Whether code of the checkpoint may run.

    Raises:
        ConfigError: No lm_head, no safetensors, or a head that is stored quantised.
    """
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
    except (ValueError, KeyError, ImportError, OSError, TypeError) as error:
        raise ConfigError(f"teacher {name!r} is no causal language model: {first_line(error)}") from error
    module = model.get_output_embeddings()
    if module is None or not isinstance(getattr(module, "weight", None), Tensor):
        raise ConfigError(f"teacher {name!r}: {type(model).__name__} has no lm_head; give a causal language model")
    modules = {part: key for key, part in model.named_modules()}
    wanted = [f"{modules[module]}.weight"]
    if config.get_text_config().tie_word_embeddings:
        wanted.insert(0, f"{modules[model.get_input_embeddings()]}.weight")
    weight = _tensor(name, wanted, model.base_model_prefix, revision)
    bias = None
    if getattr(module, "bias", None) is not None:
        bias = _tensor(name, [f"{modules[module]}.bias"], model.base_model_prefix, revision)
    if weight.shape != module.weight.shape:
        raise ConfigError(
            f"teacher {name!r}: its lm_head has shape {list(weight.shape)}, its config.json says "
            f"{list(module.weight.shape)}"
        )
    return Head(weight, bias, *logit_rules(config))


def _tensor(name: str, keys: list[str], prefix: str, revision: str | None) -> Tensor:
    """The first of some tensors that the checkpoint has; older ones leave out the prefix of the base model."""
    keys = [form for key in keys for form in dict.fromkeys((key, key.removeprefix(f"{prefix}.")))]
    file = _SINGLE
    if index := _file(name, _INDEX, revision):
        places = json.loads(index.read_bytes())["weight_map"]
        file = next((places[key] for key in keys if key in places), None)
    if file is None:
        raise _missing(name, keys)
    path = _file(name, file, revision)
    if path is None:
        raise ConfigError(
            f"teacher {name!r} has no {file}, from which its lm_head is read; "
            + ("convert it with save_pretrained" if os.path.isdir(name) else _FETCH.format(name=name))
        )
    try:
        with safe_open(path, framework="pt") as weights:
            held = set(weights.keys())
            key = next((key for key in keys if key in held), None)
            if key is None:
                raise _missing(name, keys)
            tensor = weights.get_tensor(key)
    except (SafetensorError, OSError) as error:
        raise ConfigError(f"teacher {name!r}: {file} is damaged: {first_line(error)}") from error
    if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        raise ConfigError(
            f"teacher {name!r}: its lm_head is stored as {str(tensor.dtype)[6:]}; name a checkpoint "
            "of the same model that is not quantised, the server may serve the other"
        )
    return tensor


def _missing(name: str, keys: list[str]) -> ConfigError:
    return ConfigError(f"teacher {name!r}: its checkpoint has no tensor {' or '.join(keys)}")


def _file(name: str, file: str, revision: str | None) -> Path | None:
    """A file of a model: in its folder, or fetched from the hub. None if it is not to be had."""
    if os.path.isdir(name):
        path = Path(name, file)
        return path if path.is_file() else None
    try:
        return Path(hf_hub_download(name, file, revision=revision))
    except EntryNotFoundError:  # the model has none, or the hub is out of reach and the cache has none
        return None
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise ConfigError(f"teacher {name!r}: cannot fetch {file}: {first_line(error)}") from error
