"""Responses that are given as text, from files or standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..chat import Prompt
from ..errors import ConfigError
from ..training.data import check_prompt


@dataclass(frozen=True)
class Given:
    """A response: its exact bytes, where it stands, whether it ended with a stop, and the prompt, if it has one."""

    data: bytes
    title: str
    finished: bool = True
    prompt: Prompt | None = None


def read_given(names: Sequence[str], most: int) -> list[Given]:
    """The first `most` responses of some files.

    Args:
        names: Paths; `-` for standard input.
        most: Number of responses.

    Raises:
        ConfigError: A file that is missing, unreadable or empty, or a line that holds no response.
    """
    found: list[Given] = []
    for name in names:
        if len(found) < most:
            found += _read(name, most - len(found))
    return found


def _read(name: str, most: int) -> list[Given]:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"--text {name!r} cannot be read: {error.strerror or error}") from error
    if not data.strip():
        raise ConfigError(f"--text {name!r} is empty; give a file that holds a response")
    title = "standard input" if name == "-" else os.path.basename(name)
    if not name.endswith(".jsonl"):
        return [Given(data, title)]
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    return [_line(line, f"--text {name!r}, line {number}", f"{title}:{number}") for number, line in lines[:most]]


def _line(line: bytes, where: str, title: str) -> Given:
    try:
        row = json.loads(line)
    except ValueError:
        raise ConfigError(f"{where}: not JSON; a .jsonl file holds one response a line") from None
    response = _response(row if isinstance(row, dict) else {})
    if response is None:
        told = f"its keys are {', '.join(row)}" if isinstance(row, dict) and row else "it is no JSON object"
        raise ConfigError(f"{where}: no text under 'response' or 'completion'; {told}")
    if (prompt := row.get("prompt")) is not None:
        check_prompt(prompt, where)
    # Half of a surrogate pair, which only an escape can spell, is shown as the bytes that it would be.
    return Given(response.encode("utf-8", "surrogatepass"), title, row.get("finished") is not False, prompt)


def _response(row: dict[str, Any]) -> str | None:
    """Text, or that of the assistant's message, as in training."""
    for key in ("response", "completion"):
        value = row.get(key)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            value = value[0].get("content")
        if isinstance(value, str):
            return value
    return None
