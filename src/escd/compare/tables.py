"""The results as text: a Markdown table, a CSV row per task and arm, and a CSV row per figure of a run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..files import write_whole
from ..report.words import NOTHING, points
from .results import Result, Results, Row
from .statistics import Estimate


def write_tables(results: Results) -> None:
    """Write `comparison.md`, `table.csv` and `comparison.csv` into the output folder."""
    folder = results.plan.folder
    write_whole(folder / "comparison.md", markdown(results))
    write_whole(folder / "table.csv", _csv(_TABLE, (_row(results, row) for row in results.rows)))
    write_whole(folder / "comparison.csv", _csv(_TIDY, tidy(results)))


def share(estimate: Estimate) -> str:
    """A share in percent with its interval.

    >>> share(Estimate(0.901, 0.876, 0.925, 5, 200)), share(Estimate(0.5, math.nan, math.nan, 1, 1))
    ('90.1% [87.6, 92.5]', '50.0%')
    """
    if math.isnan(estimate.mean):
        return NOTHING
    ends = "" if math.isnan(estimate.low) else f" [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
    return f"{100 * estimate.mean:.1f}%{ends}"


def gap(estimate: Estimate | None) -> str:
    """A difference in percentage points with its interval.

    >>> gap(Estimate(-0.031, -0.052, -0.01, 5, 200))
    '−3.1 [−5.2, −1.0]'
    """
    if estimate is None or math.isnan(estimate.mean):
        return NOTHING
    ends = "" if math.isnan(estimate.low) else f" [{signed(estimate.low)}, {signed(estimate.high)}]"
    return signed(estimate.mean) + ends


def signed(difference: float) -> str:
    """A difference in percentage points, with a sign unless it is rounded to 0.

    >>> signed(0.0321), signed(-0.0001)
    ('+3.2', '0.0')
    """
    text = points(difference)
    return text[1:] if text[1:] == "0.0" else text


def verdict(results: Results, row: Row) -> str:
    """The plain word for a row: better, worse, no certain difference, or that it is the reference."""
    if row.arm == results.plan.reference:
        return "reference"
    return row.difference.verdict if row.difference and row.difference.seeds else "not compared"


def basis(results: Results) -> str:
    """What the intervals rest on, in a sentence."""
    seeds = max((row.accuracy.seeds for row in results.rows), default=0)
    if seeds == 1:
        return "One seed: the intervals (bootstrap) tell what other problems would do, not what another seed would."
    if seeds == 2:
        return (
            "Two seeds: they tell so little about their spread that the intervals are very wide; take three or more."
        )
    return "95% intervals over seeds and problems (t); differences are paired by seed and problem."


def markdown(results: Results) -> str:
    """The table, with the failed runs below it."""
    reference = results.plan.reference
    lines = [
        f"| task | arm | accuracy | difference to {reference}, points | | seeds | problems |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results.rows:
        cells = (row.task, row.arm, share(row.accuracy), gap(row.difference), verdict(results, row),
                 row.accuracy.seeds, row.accuracy.problems)  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", basis(results), ""]
    lines += [f"- failed: {r.run.arm}, seed {r.run.seed}: {r.failure} (log: {r.run.log})" for r in results.failures]
    return "\n".join(lines).rstrip() + "\n"


_TABLE = (
    "task", "arm", "reference", "accuracy", "low", "high", "difference", "difference_low", "difference_high",
    "verdict", "seeds", "paired_seeds", "problems",
)  # fmt: skip
_TIDY = ("arm", "task", "seed", "metric", "value")


def _row(results: Results, row: Row) -> Sequence[Any]:
    a, d = row.accuracy, row.difference
    paired = (d.mean, d.low, d.high) if d else (math.nan,) * 3
    return (row.task, row.arm, results.plan.reference, a.mean, a.low, a.high, *paired, verdict(results, row), a.seeds,
            d.seeds if d else "", a.problems)  # fmt: skip


def tidy(results: Results) -> Iterator[Sequence[Any]]:
    """Rows (arm, task, seed, metric, value): seconds, bytes, tokens, shares; what a run costs has no task."""
    for result in results.results:
        run = result.run
        before = results.before.get(run.seed, {})
        for when, of in (("before", before), ("after", result.after)):
            for task, problems in of.items():
                rows = [row for samples in problems.values() for row in samples]
                for metric, key in (("accuracy", "correct"), ("finished", "finished"), ("length", "tokens")):
                    yield run.arm, task, run.seed, f"{metric}_{when}", np.mean([float(row[key]) for row in rows])
        for metric, value in costs(result):
            yield run.arm, "", run.seed, metric, value


def costs(result: Result) -> list[tuple[str, float]]:
    """What a run took, and whether it failed."""
    return [
        ("failed", float(bool(result.failure))), ("steps", float(result.log.steps)),
        ("seconds", result.seconds), ("step_seconds", result.step_seconds), ("tokens", result.tokens),
        ("peak_memory", result.peak_memory),
    ]  # fmt: skip


def _csv(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        # A figure that is not known is an empty cell.
        writer.writerow(["" if isinstance(v, float) and math.isnan(v) else _plain(v) for v in row])
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value
