"""A task file: which dataset, how a prompt is made of a row, what the grader compares with."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ConfigError
from ...flags import read_mapping
from ...objectives.options import suggest
from ..graders import GRADERS, grader
from .templates import Expression, Template

_TEXTS = ("dataset_name", "dataset_config", "split", "description")
_EXPRESSIONS = ("where", "id", "choices", "correct_choice", "incorrect_choices")
_RECORD = tuple(dict.fromkeys(name for g in GRADERS.values() for name in (*g.needs, *g.takes) if name != "choices"))
KEYS = (*_TEXTS, "grader", *_EXPRESSIONS, *_RECORD, "system_prompt", "prompt", "max_new_tokens")


@dataclass(frozen=True)
class Recipe:
    """A task file as it was read.

    Attributes:
        path: The file.
        dataset_name: Hub id, or a local file: its path from where the task file is.
        grader: Name of the grader.
        prompt: Role and text of each message.
        record: What the grader gets, by name.
        dataset_config, split: Of a hub dataset.
        where: Which rows count; all, if it is not given.
        id: What names a problem; its row number, if it is not given.
        choices: Texts of the choices in the order of the set.
        shuffled: In their place the right text and the list of wrong ones.
        max_new_tokens: Length that a response may need.
        description: What it is.
    """

    path: Path
    dataset_name: str
    grader: str
    prompt: tuple[tuple[str, Template], ...]
    record: Mapping[str, Expression]
    dataset_config: str | None = None
    split: str = "test"
    where: Expression | None = None
    id: Expression | None = None
    choices: Expression | None = None
    shuffled: tuple[Expression, Expression] | None = None
    max_new_tokens: int = 512
    description: str = ""
    columns: frozenset[str] = field(default=frozenset())
    """Columns that it reads."""


def read_recipe(path: Path) -> Recipe:
    """Read a task file.

    Raises:
        ConfigError: Not YAML, an unknown key, a missing one, a value of the wrong kind, an unknown grader.
    """
    content = read_mapping(path, "a task is a YAML mapping; see the files of the built-in tasks")
    for key in content:
        if key not in KEYS:
            raise ConfigError(f"{path}: unknown key {key!r}{suggest(str(key), KEYS, full=False)}")
    for key in ("dataset_name", "prompt", "grader"):
        if content.get(key) is None:
            raise ConfigError(f"{path}: {key!r} is missing")
    for key in (*_TEXTS, "grader", *_EXPRESSIONS, *_RECORD, "system_prompt"):
        value = content.get(key)
        number = key in _RECORD and isinstance(value, int | float) and math.isfinite(value)
        if key in content and not isinstance(value, str) and not number:
            raise ConfigError(f"{path}: {key} must be text, not {value!r}")
    tokens = content.get("max_new_tokens", 512)
    if type(tokens) is not int or tokens < 1:
        raise ConfigError(f"{path}: max_new_tokens must be a whole number of at least 1, not {tokens!r}")
    try:
        chosen = grader(content["grader"])
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    expressions = {key: Expression(content[key], f"{path}: {key}") for key in _EXPRESSIONS if key in content}
    record = {key: Expression(str(content[key]), f"{path}: {key}") for key in _RECORD if key in content}
    _require(path, content, chosen.needs, chosen.takes)
    prompt = _prompt(path, content)
    read = [*(template for _, template in prompt), *expressions.values(), *record.values()]
    shuffled = "correct_choice" in content
    made = {"lettered_choices"} if shuffled or "choices" in content else set()
    return Recipe(
        path=path, prompt=prompt, record=record, max_new_tokens=tokens,
        columns=frozenset().union(*(t.columns for t in read)) - made, grader=content["grader"],
        where=expressions.get("where"), id=expressions.get("id"), choices=expressions.get("choices"),
        shuffled=(expressions["correct_choice"], expressions["incorrect_choices"]) if shuffled else None,
        **{key: content[key] for key in _TEXTS if key in content},
    )  # fmt: skip


def _require(path: Path, content: Mapping[str, Any], needs: tuple[str, ...], takes: tuple[str, ...]) -> None:
    """Raise unless the file says all that its grader needs, and nothing that it does not know."""
    name = content["grader"]
    choosing = [key for key in ("choices", "correct_choice", "incorrect_choices") if key in content]
    if choosing and name != "choice":
        raise ConfigError(f"{path}: {choosing[0]} is for the grader 'choice', not {name!r}")
    shuffled = "correct_choice" in content or "incorrect_choices" in content
    for key in ("correct_choice", "incorrect_choices") if shuffled else needs:
        if key not in content:
            raise ConfigError(f"{path}: {key!r} is missing")
    if shuffled and ("choices" in content or "answer" in content):
        raise ConfigError(f"{path}: give correct_choice and incorrect_choices, or choices and answer")
    for key in _RECORD:
        if key in content and key not in (*needs, *takes):
            raise ConfigError(f"{path}: the grader {name!r} makes no use of {key!r}")


def _prompt(path: Path, content: Mapping[str, Any]) -> tuple[tuple[str, Template], ...]:
    prompt = content["prompt"]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    fine = isinstance(messages, list) and messages and all(
        isinstance(m, dict) and m.keys() == {"role", "content"} and all(isinstance(v, str) for v in m.values())
        for m in messages
    )  # fmt: skip
    if not fine or messages[-1]["role"] == "assistant":
        raise ConfigError(f"{path}: prompt is text, or a list of messages with role and content, the last of the user")
    if system := content.get("system_prompt"):
        messages = [{"role": "system", "content": system}, *messages]
    return tuple((m["role"], Template(m["content"], f"{path}: prompt")) for m in messages)
