"""A run folder as it lies on disk: every file may be missing, cut off or only half filled."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..evaluation.scores import Score
from ..metrics_file import read_metrics

WHENS = ("before", "after")
# Control characters except tab and line feed: HTML has no place for them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def number(value: Any) -> float:
    """A finite number as a float; NaN for everything else (null, text, true, infinity)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:
        return math.nan


def text(value: Any) -> str:
    r"""Text that a page can hold: control characters become visible, lone surrogates the replacement character.

    >>> text("a\x00b\tc")
    'a␀b\tc'
    """
    if not isinstance(value, str):
        value = "" if value is None else str(value)
    return _CONTROL.sub(lambda m: chr(0x2400 + ord(m[0])) if ord(m[0]) < 0x20 else "\ufffd", value)


@dataclass(frozen=True)
class Series:
    """One metric over a run: steps int64 [n], ascending; values float64 [n], NaN where none was finite."""

    steps: np.ndarray
    values: np.ndarray

    @property
    def finite(self) -> np.ndarray:
        """The values that are numbers."""
        return self.values[np.isfinite(self.values)]

    @property
    def window(self) -> int:
        """How many logs make up the beginning and the end of the run: a tenth of them, at least one."""
        return max(1, len(self.finite) // 10)

    @property
    def first(self) -> float:
        """Mean over the beginning, NaN if there is none."""
        return float(self.finite[: self.window].mean()) if len(self.finite) else math.nan

    @property
    def last(self) -> float:
        """Mean over the end, NaN if there is none."""
        return float(self.finite[-self.window :].mean()) if len(self.finite) else math.nan


@dataclass(frozen=True)
class Evaluated:
    """A task that a run was evaluated on.

    Attributes:
        name: Name of the task.
        about: What `run.json` says of it, or {}.
        answers: Rows of `evaluation/before/<task>.jsonl` and `evaluation/after/<task>.jsonl`, by "before" and "after".
    """

    name: str
    about: dict[str, Any]
    answers: dict[str, list[dict[str, Any]]]

    def score(self, when: str) -> Score | None:
        """Accuracy "before" or "after", None if it was not measured; an end of its interval is NaN if not given."""
        found = mapping(self.about.get(when))
        accuracy = number(found.get("accuracy"))
        if math.isnan(accuracy):
            return None
        return Score(accuracy, number(found.get("low")), number(found.get("high")))


@dataclass(frozen=True)
class Run:
    """A run folder.

    Attributes:
        folder: Where it lies.
        info: `run.json`, or {}.
        rows: Rows of `metrics.jsonl`.
        tasks: Tasks that it was evaluated on.
        missing: Names of the files that are not there or cannot be read.
    """

    folder: Path
    info: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    tasks: list[Evaluated] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return text(self.folder.resolve().name)

    @cached_property
    def _columns(self) -> dict[str, dict[int, float]]:
        columns: dict[str, dict[int, float]] = {}
        for row in self.rows:
            step = number(row.get("step"))
            if math.isnan(step):
                continue
            for name, value in row.items():
                if name != "step":
                    columns.setdefault(name, {})[int(step)] = number(value)
        return columns

    @property
    def metrics(self) -> list[str]:
        """Names of all logged metrics, in the order in which they first came."""
        return list(self._columns)

    def series(self, name: str) -> Series:
        """One metric; empty if it was never logged. Of two logs of one step the later counts."""
        column = self._columns.get(name, {})
        steps = sorted(column)
        return Series(np.array(steps, np.int64), np.array([column[s] for s in steps], np.float64))

    def table(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Steps [n] at which any of the metrics was logged, and values [len(names), n], NaN where one was not."""
        columns = [self._columns.get(name, {}) for name in names]
        steps = sorted(set().union(*columns))
        values = [[column.get(s, math.nan) for s in steps] for column in columns]
        return np.array(steps, np.int64), np.array(values, np.float64).reshape(len(names), len(steps))

    @property
    def _steps(self) -> list[int]:
        return [step for column in self._columns.values() for step in (min(column), max(column))]

    @property
    def first_step(self) -> int:
        """First step that was logged, 0 if none was."""
        return min(self._steps, default=0)

    @property
    def steps(self) -> int:
        """Last step that was logged, 0 if none was."""
        return max(self._steps, default=0)

    @property
    def seconds(self) -> float:
        """Wall-clock time of the training in seconds; NaN if the run has not written its closing row."""
        return max((number(r.get("train_runtime")) for r in self.rows if "train_runtime" in r), default=math.nan)


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is a JSON object, else {}."""
    return value if isinstance(value, dict) else {}


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        ConfigError: It is no folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} is not a folder; give the output folder of a run of `escd distill`")
    run = Run(folder, rows=read_metrics(folder / "metrics.jsonl"))
    if not run.rows:
        run.missing.append("metrics.jsonl")
    try:
        run.info.update(mapping(json.loads((folder / "run.json").read_bytes())))
    except (OSError, ValueError):
        run.missing.append("run.json")
    run.tasks.extend(_tasks(folder / "evaluation", run.info.get("evaluation")))
    return run


def _tasks(folder: Path, told: Any) -> list[Evaluated]:
    """Tasks that `run.json` names, and those of which there are answers only, under the names of their files."""
    about = {
        text(each["task"]): each for each in (told if isinstance(told, list) else ()) if mapping(each).get("task")
    }
    files = {path.stem for when in WHENS for path in (folder / when).glob("*.jsonl")}
    known = {name.replace("/", "-"): name for name in about}
    names = [*about, *sorted(files - known.keys())]
    return [
        Evaluated(
            name, about.get(name, {}),
            {when: read_metrics(folder / when / f"{name.replace('/', '-')}.jsonl") for when in WHENS},
        )
        for name in names
    ]  # fmt: skip
