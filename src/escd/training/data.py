"""Prompts to train on: a local file, a hub dataset, or the lab's generator."""

from __future__ import annotations

from itertools import islice
from typing import Any

from datasets import Dataset, IterableDataset

from .. import lab
from ..datasets_by_name import load
from ..errors import ConfigError, EscdError, first_line
from ..objectives.base import suggest
from .arguments import DistillArguments

LAB = ("lab", *(f"lab/{task}" for task in lab.TASKS))


def load_prompts(script: DistillArguments, seed: int, completions: bool = False) -> Dataset | IterableDataset:
    """The training prompts, with a checked column `prompt`.

    Args:
        script: Names the dataset and its split.
        seed: Of the lab's generator.
        completions: Whether a column `completion` (text, or messages of the assistant) is needed too.

    Raises:
        ConfigError: The dataset is missing, unreadable or empty, or its prompts are not text or messages.
    """
    name = str(script.dataset_name)
    if name in LAB:
        return _lab_prompts(name, script.lab_prompts, seed)
    if name.startswith("lab/"):
        raise ConfigError(f"dataset {name!r} is unknown{suggest(name, LAB)}")
    data = load(
        name, script.dataset_config, script.dataset_train_split, split_flag="--dataset_train_split",
        streaming=script.dataset_streaming,
    )  # fmt: skip
    wanted = ["prompt", "completion"] if completions else ["prompt"]
    columns = data.column_names
    for column in wanted:
        if columns is not None and column not in columns:
            raise ConfigError(f"dataset {name!r} has no column {column!r}; its columns are {', '.join(columns)}")
    checked = 0
    try:
        data = data.select_columns(wanted)
        for number, row in enumerate(data if isinstance(data, Dataset) else islice(data, 1)):
            check_prompt(row["prompt"], f"dataset {name!r}, row {number}")
            if completions:
                _check_completion(row["completion"], f"dataset {name!r}, row {number}")
            checked += 1
    except EscdError:
        raise
    except Exception as error:  # a stream is only read now
        raise ConfigError(f"dataset {name!r} cannot be read: {first_line(error)}") from error
    if not checked:
        raise ConfigError(f"dataset {name!r} is empty")
    return data


def _lab_prompts(name: str, n: int, seed: int) -> Dataset:
    """`n` prompts of one task of the lab, or of all in turn."""
    share = -(-n // len(lab.TASKS)) if name == "lab" else n
    each = [lab.problems(share, seed, task=task) for task in lab.TASKS if name in ("lab", f"lab/{task}")]
    in_turn = [problem for problems in zip(*each, strict=True) for problem in problems]
    return Dataset.from_list([{"prompt": p.prompt, "completion": p.solution} for p in in_turn[:n]])


def check_prompt(prompt: Any, where: str) -> None:
    """Raise `ConfigError` unless a prompt is text or messages that end before an answer; `where` names it."""
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


def _check_completion(completion: Any, where: str) -> None:
    messages = completion if isinstance(completion, list) else [{"role": "assistant", "content": completion}]
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    if first.get("role") != "assistant" or not isinstance(first.get("content"), str) or not first["content"]:
        raise ConfigError(f"{where}: a completion is text or a message of the assistant, not {str(completion)[:80]}")
