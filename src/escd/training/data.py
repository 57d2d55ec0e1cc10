"""Prompts to train on: a local file, a hub dataset, or the lab's generator."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from datasets import Dataset, IterableDataset

from .. import lab
from ..datasets_by_name import load
from ..errors import ConfigError, EscdError, first_line
from ..objectives.options import suggest
from .arguments import DistillArguments

LAB = ("lab", *(f"lab/{task}" for task in lab.TASKS))


def load_prompts(script: DistillArguments, seed: int, completions: bool = False) -> Dataset | IterableDataset:
    """The training prompts, with a checked column `prompt`, and `tools` if the dataset has it.

    Args:
        script: Names the dataset and its split.
        seed: Of the lab's generator.
        completions: Whether responses (a column `completion`, or the answers in `messages`) are needed too.

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
    data = split_conversations(data, completions)
    columns = data.column_names
    wanted = ["prompt", "completion"] if completions else ["prompt"]
    for column in wanted:
        if columns is not None and column not in columns:
            raise ConfigError(f"dataset {name!r} has no column {column!r}; its columns are {', '.join(columns)}")
    checked = 0
    try:
        data = data.select_columns([*wanted, *(["tools"] if "tools" in (columns or []) else [])])
        rows: Iterable[Any] = data if isinstance(data, Dataset) else islice(data, 1)
        for number, row in enumerate(rows):
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


def split_conversations(data: Any, completions: bool) -> Any:
    """A dataset with a column `messages` of whole conversations as one of prompts, one for each answer.

    An answer is learnt behind what the model would see before it: templates write an earlier turn otherwise than the
    last one (Qwen3 leaves out its thought), so a conversation is not one sequence.

    Args:
        data: A dataset, or a dictionary of them; anything else is returned as it is.
        completions: Whether the answers are needed too, as a column `completion`. Then a `completion` of several
            messages is taken apart as well.

    Raises:
        ConfigError: A conversation is not one of messages with roles, or none of them has an answer.
    """
    if isinstance(data, dict):
        return type(data)({name: split_conversations(part, completions) for name, part in data.items()})
    columns = set((data.column_names if isinstance(data, (Dataset, IterableDataset)) else None) or [])
    whole = "messages" in columns and "prompt" not in columns
    if not whole and not (completions and {"prompt", "completion"} <= columns and _is_long(next(iter(data), None))):
        return data
    found = data.map(_split, batched=True, fn_kwargs={"completions": completions}, remove_columns=list(columns))
    if isinstance(found, Dataset) and not len(found):
        raise ConfigError("the conversations of the dataset are empty: not one has a turn of the assistant to learn")
    return found


def _is_long(row: Any) -> bool:
    """Whether the completions of a dataset are messages of which there may be several, judged by its first row."""
    return bool(row) and all(isinstance(row[column], list) for column in ("prompt", "completion"))


def _split(batch: dict[str, list[Any]], completions: bool) -> dict[str, list[Any]]:
    rows: list[dict[str, Any]] = []
    for number, first in enumerate(batch.get("prompt") or batch["messages"]):
        whole = [*first, *batch["completion"][number]] if "prompt" in batch else first
        where = f"conversation {str(whole)[:60]!r}"
        _check_messages(whole, where)
        if "prompt" in batch:
            _check_completion(batch["completion"][number], where)
        known = len(first) if "prompt" in batch else 1
        answers = [i for i in range(known, len(whole)) if _is_answer(whole, i)]
        if not completions and whole[-1]["role"] != "assistant":
            answers.append(len(whole))
        tools = {"tools": batch["tools"][number]} if "tools" in batch else {}
        rows += [
            {"prompt": whole[:i], **({"completion": whole[i : i + 1]} if completions else {}), **tools}
            for i in answers
        ]
    columns = ["prompt", *(["completion"] if completions else []), *(["tools"] if "tools" in batch else [])]
    return {column: [row[column] for row in rows] for column in columns}


def _is_answer(messages: list[dict[str, Any]], at: int) -> bool:
    """Whether a message is a turn of the assistant that answers another role and is not empty."""
    message = messages[at]
    fine = message["role"] == "assistant" and messages[at - 1]["role"] != "assistant"
    return fine and bool(message.get("content") or message.get("tool_calls"))


def check_prompt(prompt: Any, where: str) -> None:
    """Raise `ConfigError` unless a prompt is text or messages that end before an answer; `where` names it."""
    if isinstance(prompt, str):
        if not prompt.strip():
            raise ConfigError(f"{where}: the prompt is empty")
        return
    _check_messages(prompt, where)
    if prompt[-1]["role"] == "assistant":
        raise ConfigError(f"{where}: the prompt ends with an assistant message, so there is nothing to answer")


def _check_messages(messages: Any, where: str) -> None:
    fine = [_is_message(m) for m in messages] if isinstance(messages, list) else []
    if not fine or not all(fine):
        raise ConfigError(
            f"{where}: a prompt is text or messages with role and text content, not {str(messages)[:80]}"
        )


def _is_message(message: Any) -> bool:
    """Whether it has a role and text; a message that calls tools needs no text."""
    if not isinstance(message, dict) or not message.get("role"):
        return False
    content = message.get("content")
    return isinstance(content, str) or (content is None and bool(message.get("tool_calls")))


def _check_completion(completion: Any, where: str) -> None:
    messages = completion if isinstance(completion, list) else [{"role": "assistant", "content": completion}]
    first = messages[0] if messages else {}
    said = _is_message(first) and (first.get("content") or first.get("tool_calls"))
    if not said or first["role"] != "assistant":
        raise ConfigError(f"{where}: a completion is text or a message of the assistant, not {str(completion)[:80]}")
