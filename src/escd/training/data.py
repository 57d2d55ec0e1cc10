"""Prompts to train on: a local file, a hub dataset, or the lab's generator."""

from __future__ import annotations

from itertools import islice
from typing import Any

from datasets import Dataset, IterableDataset

from .. import lab
from ..datasets_by_name import load
from ..errors import ConfigError, EscdError, first_line
from .arguments import DistillArguments


def load_prompts(script: DistillArguments, seed: int) -> Dataset | IterableDataset:
    """The training prompts, with a checked column `prompt`.

    Args:
        script: Names the dataset and its split.
        seed: Of the lab's generator.

    Raises:
        ConfigError: The dataset is missing, unreadable or empty, or its prompts are not text or messages.
    """
    name = str(script.dataset_name)
    if name == "lab":
        return Dataset.from_list([{"prompt": p.prompt} for p in lab.problems(script.lab_prompts, seed, "train")])
    data = load(
        name, script.dataset_config, script.dataset_train_split, split_flag="--dataset_train_split",
        streaming=script.dataset_streaming,
    )  # fmt: skip
    columns = data.column_names
    if columns is not None and "prompt" not in columns:
        raise ConfigError(f"dataset {name!r} has no column 'prompt'; its columns are {', '.join(columns)}")
    checked = 0
    try:
        data = data.select_columns(["prompt"])
        for number, row in enumerate(data if isinstance(data, Dataset) else islice(data, 1)):
            _check_prompt(row["prompt"], f"dataset {name!r}, row {number}")
            checked += 1
    except EscdError:
        raise
    except Exception as error:  # a stream is only read now
        raise ConfigError(f"dataset {name!r} cannot be read: {first_line(error)}") from error
    if not checked:
        raise ConfigError(f"dataset {name!r} is empty")
    return data


def _check_prompt(prompt: Any, where: str) -> None:
    if isinstance(prompt, str):
        if not prompt.strip():
            raise ConfigError(f"{where}: the prompt is empty")
        return
    messages = prompt if isinstance(prompt, list) else []
    fine = [isinstance(m, dict) and bool(m.get("role")) and isinstance(m.get("content"), str) for m in messages]
    if not fine or not all(fine):
        raise ConfigError(f"{where}: a prompt is text or messages with role and text content, not {str(prompt)[:80]}")
    if messages[-1]["role"] == "assistant":
        raise ConfigError(f"{where}: the prompt ends with an assistant message, so there is nothing to answer")
