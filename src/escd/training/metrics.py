"""What a step reports: sums over rows that add up across micro-batches and processes, and the shares they give."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ..files import write_whole
from ..metrics_file import read_metrics

REASONS = ("interior", "blank", "no_teacher_row", "diverged")
_ROWS = ("rows", "root_rows", "child_rows", *REASONS)
_VALUES = ("root", "child", "mass", "completed", "responses", "differ")
NAMES = (*_ROWS, *_VALUES)


def shares(sums: Counter[str]) -> dict[str, float]:
    """The figures that are logged, from sums over a logging window.

    `root` and `child` are nats per response token, so `loss = root + child_weight * child`. `mass` is the teacher mass
    that a child row supervises (compatible mass), `completion_probability` the student's probability of completing,
    averaged over that mass. `rows/*` are shares of all response rows; a row can be root and child.
    """
    rows = max(sums["rows"], 1)
    idle = sum(sums[reason] for reason in REASONS)
    return {
        "root": sums["root"] / rows,
        "child": sums["child"] / rows,
        "rows/root": sums["root_rows"] / rows,
        "rows/child": sums["child_rows"] / rows,
        "rows/none": idle / rows,
        **{f"rows/none/{reason}": sums[reason] / rows for reason in REASONS},
        "mass": sums["mass"] / max(sums["child_rows"], 1),
        "completion_probability": sums["completed"] / sums["mass"] if sums["mass"] else float("nan"),
        "bytes_differ": sums["differ"] / max(sums["responses"], 1),
    }


class Clock:
    """Seconds spent in each part of a step, in this process."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time of a `with` block to a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start


class MetricsFile(TrainerCallback):
    """Appends every log to `metrics.jsonl` in the output folder: one JSON object per line, with its step.

    A resumed run first drops what an interrupted one wrote after the checkpoint, so no step is there twice.
    """

    def __init__(self, output_dir: str):
        self.path = Path(output_dir) / "metrics.jsonl"

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Keep the rows of steps that the run stands behind."""
        if not state.is_world_process_zero:
            return
        kept = [row for row in read_metrics(self.path) if row.get("step", 0) <= state.global_step]
        if state.global_step == 0:
            kept = []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in kept)
        write_whole(self.path, text)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Append one row."""
        if state.is_world_process_zero and logs:
            with self.path.open("a") as file:
                file.write(json.dumps({"step": state.global_step, **logs}) + "\n")
