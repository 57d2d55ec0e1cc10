"""What came out: per task and arm a mean, its interval and the paired difference; per run its costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..metrics_file import read_metrics
from ..report import reading
from .processes import ATTEMPTS, Failure
from .recipe import Plan
from .runs import Answers, Run, answers, base, runs
from .statistics import Estimate, Values, difference, estimate

BASE_NAME = "base student"


@dataclass(frozen=True)
class Result:
    """One run.

    Attributes:
        run: Which.
        failure: Why it has no result, "" if it has one.
        log: Its folder as the report reads it: metrics and settings.
        after: Its answers after training, {} if there are none.
        seconds: Wall-clock time of its processes, loading and evaluation included, NaN if not known.
        peak_memory: Largest resident memory of its processes in bytes, NaN if not known.
    """

    run: Run
    failure: str
    log: reading.Run
    after: Answers
    seconds: float
    peak_memory: float

    @property
    def tokens(self) -> float:
        """Tokens of prompts and responses that it trained on, NaN if not known."""
        logged = self.log.series("num_tokens").finite
        return float(logged[-1]) if len(logged) else math.nan

    @property
    def step_seconds(self) -> float:
        """Mean time of a step, NaN if not known."""
        logged = self.log.series("step_time").finite
        return float(logged.mean()) if len(logged) else math.nan

    def accuracy(self, task: str) -> float:
        """Share of right answers of a task, NaN if it was not evaluated."""
        shares = list(right(self.after.get(task, {})).values())
        return float(np.mean(shares)) if shares else math.nan


@dataclass(frozen=True)
class Row:
    """One arm, or the base student, on one task; no difference for the reference itself."""

    task: str
    arm: str
    accuracy: Estimate
    difference: Estimate | None


@dataclass(frozen=True)
class Results:
    """Everything that tables, curves and page show."""

    plan: Plan
    results: list[Result]
    before: dict[int, Answers]  # seed -> answers of the untrained student

    @cached_property
    def tasks(self) -> list[str]:
        """Tasks that anything was evaluated on, in the order of the evaluations."""
        found = [*self.before.values(), *(result.after for result in self.results)]
        return list(dict.fromkeys(task for of in found for task in of))

    @property
    def failures(self) -> list[Result]:
        """Runs without a result."""
        return [result for result in self.results if result.failure]

    def of(self, arm: str) -> list[Result]:
        """The runs of an arm that have a result."""
        return [result for result in self.results if result.run.arm == arm and not result.failure]

    @cached_property
    def rows(self) -> list[Row]:
        """For each task the base student, then the arms in the order of the recipe."""
        found = []
        for task in self.tasks:
            reference = self._values(self.plan.reference, task)
            base_values = {seed: right(of.get(task, {})) for seed, of in self.before.items()}
            values = {BASE_NAME: base_values, **{arm: self._values(arm, task) for arm in self.plan.arms}}
            for arm, of in values.items():
                compared = None if arm == self.plan.reference else difference(of, reference)
                found.append(Row(task, arm, estimate(of), compared))
        return found

    def of_task(self, task: str) -> list[Row]:
        """The rows of one task."""
        return [row for row in self.rows if row.task == task]

    def _values(self, arm: str, task: str) -> Values:
        return {result.run.seed: right(result.after.get(task, {})) for result in self.of(arm)}


def right(problems: dict) -> dict:
    """The share of right samples of each problem."""
    return {name: float(np.mean([bool(row["correct"]) for row in rows])) for name, rows in problems.items()}


def gather(plan: Plan, failures: list[Failure]) -> Results:
    """Read what the runs have left.

    Args:
        plan: The comparison.
        failures: Runs that ended without a result.
    """
    reasons = {failure.run: failure.reason for failure in failures}
    costs: dict[tuple[str, int], list[dict]] = {}
    for row in read_metrics(plan.folder / ATTEMPTS):
        costs.setdefault((row["arm"], row["seed"]), []).append(row)
    found = []
    for run in runs(plan):
        attempts = costs.get((run.arm, run.seed), [])
        found.append(
            Result(
                run, reasons.get(run, ""), _log(run.folder), {} if run in reasons else answers(run.folder, "after"),
                sum(row["seconds"] for row in attempts) if attempts else math.nan,
                max((row["peak_memory"] for row in attempts), default=math.nan),
            )
        )  # fmt: skip
    kept = {seed: base(plan, seed) for seed in plan.seeds}
    return Results(plan, found, {seed: answers(f, "before") for seed, f in kept.items() if f.is_dir()})


def _log(folder: Path) -> reading.Run:
    return reading.read_run(folder) if folder.is_dir() else reading.Run(folder)
