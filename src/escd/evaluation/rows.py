"""The file of one evaluation: a JSON line per sample, kept when an evaluation is broken off and continued.

Beside `name.jsonl` lies `name.settings.json`: what its rows were sampled from and how. Other rows are never mixed in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..files import write_whole

Row = dict[str, Any]
SAMPLE = ("problem", "sample")
"""What names a row."""
_TYPES = {
    "problem": (int, str), "sample": (int,), "prompt": (str,), "response": (str,), "answer": (str,),
    "correct": (bool,), "reason": (str,), "tokens": (int,), "finished": (bool,),
}  # fmt: skip
_MEND = "use the same settings, another folder, or --overwrite"


class RowFile:
    """Rows of one evaluation on disk and in memory.

    Args:
        path: The JSONL file.
        settings: What the rows depend on. `model`, a name, is told but not compared: `weights` says which it is.
        keep: Whether to keep the rows of the same evaluation that are there; else the first new ones replace them.

    Raises:
        ConfigError: The file holds rows of another evaluation, something else, or cannot be written.

    Attributes:
        rows: Complete rows by (problem, sample).
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], keep: bool):
        self.path, self.rows = path, {}
        self._settings = path.with_suffix(".settings.json")
        self._told = settings
        if keep and os.path.isfile(path):
            with self._writing():
                self._read(settings)

    def _read(self, settings: Mapping[str, Any]) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole:
            self._require_same(settings)
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = json.loads(line)
                damaged = next((name for name, kinds in _TYPES.items() if type(row[name]) not in kinds), None)
            except (ValueError, KeyError, TypeError, RecursionError):
                raise ConfigError(f"{self.path}, line {number}: not a sample of an evaluation; {_MEND}") from None
            if damaged:
                raise ConfigError(f"{self.path}, line {number}: {damaged} is {_short(row[damaged])}; {_MEND}")
            key = tuple(row[name] for name in SAMPLE)
            if key in self.rows:
                raise ConfigError(f"{self.path}, line {number}: problem and sample are there twice; {_MEND}")
            self.rows[key] = row
        if len(whole) < len(content):  # a line that was cut off while it was written
            os.truncate(self.path, len(whole))

    def _require_same(self, settings: Mapping[str, Any]) -> None:
        try:
            before = dict(json.loads(self._settings.read_bytes()))
        except (OSError, ValueError, TypeError, RecursionError):
            raise ConfigError(
                f"{self.path} holds samples, but {self._settings.name} cannot be read; {_MEND}"
            ) from None
        for name, value in settings.items():
            if name == "model" or before.get(name) == value:
                continue
            told = [f"{name} {_short(s.get(name))}" for s in (before, settings)]
            if name == "weights":
                told = [f"model {s.get('model')} ({t})" for s, t in zip((before, settings), told, strict=True)]
            raise ConfigError(f"{self.path} holds samples with {told[0]}, not {told[1]}; {_MEND}")

    def append(self, rows: Iterable[Row]) -> None:
        """Write rows behind those that are there; if that fails, none of them is left in the file.

        Raises:
            ConfigError: The file cannot be written.
        """
        rows = list(rows)
        text = "".join(map(_line, rows))
        with self._writing():
            if not self.rows:
                self._start()
            # Without a buffer: closing one would write what is left of it behind a file that was cut back.
            with open(self.path, "ab", buffering=0) as file:
                size, left = file.tell(), memoryview(text.encode())
                try:
                    while left:
                        left = left[file.write(left) :]
                    os.fsync(file.fileno())
                except OSError:
                    os.truncate(self.path, size)
                    raise
        self.rows.update({tuple(row[name] for name in SAMPLE): row for row in rows})

    def _start(self) -> None:
        """Settings in the place of what was there; nothing is written before there are rows."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        write_whole(self._settings, json.dumps(self._told, indent=1, ensure_ascii=False) + "\n")

    def finish(self, order: Iterable[tuple[Any, Any]]) -> list[Row]:
        """All rows in this order, in the file too.

        Raises:
            ConfigError: The file cannot be written.
        """
        rows = [self.rows[key] for key in order]
        if rows != list(self.rows.values()):
            with self._writing():
                write_whole(self.path, "".join(map(_line, rows)))
        return rows

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror or error}") from error


def _line(row: Row) -> str:
    text = json.dumps(row, ensure_ascii=False) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can spell
        return json.dumps(row) + "\n"
    return text


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
