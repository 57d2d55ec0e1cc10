"""Signs of trouble that a run's own numbers show, each with the rule that it was judged by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .reading import Run
from .samples import Case
from .words import figure, percent, plural

GOOD, LOOK, UNKNOWN = "fine", "look", "not known"


@dataclass(frozen=True)
class Check:
    """A sign: what was asked, "fine", "look" or "not known", what was found, and the figure to look at."""

    question: str
    state: str
    finding: str
    link: str


def checks(run: Run, every: list[Case]) -> list[Check]:
    """All checks. Shares and lengths are means over the last tenth of the logs."""
    found = []
    for question, link, judge in _CHECKS:
        answer = judge(run, every)
        state, finding = answer or (UNKNOWN, "not logged")
        found.append(Check(question, state, finding, link))
    return found


Answer = tuple[str, str] | None


def _finished(run: Run, _: list[Case]) -> Answer:
    if not run.rows:
        return None
    if math.isnan(run.seconds):
        return LOOK, f"the log ends at step {run.steps:,} without a closing row: still running, or stopped"
    return GOOD, plural(run.steps, "step")


def _numbers(run: Run, _: list[Case]) -> Answer:
    """Loss or gradient norm that is no number."""
    bad = {name: int((~np.isfinite(run.series(name).values)).sum()) for name in ("loss", "grad_norm")}
    logs = len(run.series("loss").values)
    if not logs:
        return None
    if any(bad.values()):
        return LOOK, "; ".join(f"{name} is NaN or null in {plural(n, 'log')}" for name, n in bad.items() if n)
    return GOOD, f"in all {plural(logs, 'log')}"


def _falls(run: Run, _: list[Case]) -> Answer:
    loss = run.series("loss")
    if len(loss.finite) < 10:
        return (UNKNOWN, f"{plural(len(loss.finite), 'log')}, too few to say") if len(loss.finite) else None
    ratio = f"{figure(loss.first)} → {figure(loss.last)} nats"
    return (LOOK if loss.last > 0.98 * loss.first else GOOD), ratio


def _length(run: Run, _: list[Case]) -> Answer:
    length = run.series("completions/mean_length")
    if not len(length.finite):
        return None
    state = LOOK if length.last < 0.25 * length.first or length.last < 2 else GOOD
    return state, f"{figure(length.first)} → {figure(length.last)} tokens"


def _share(name: str, most: float, words: str) -> Callable[[Run, list[Case]], Answer]:
    def judge(run: Run, _: list[Case]) -> Answer:
        last = run.series(name).last
        return None if math.isnan(last) else (LOOK if last > most else GOOD, f"{percent(last)} {words}")

    return judge


def _entropy(run: Run, _: list[Case]) -> Answer:
    last = run.series("entropy").last
    return None if math.isnan(last) else (LOOK if last < 0.005 else GOOD, f"{figure(last)} nats per token")


def _whole(run: Run, every: list[Case]) -> Answer:
    after = [r.finished for case in every for r in case.after]
    if not after:
        return None
    cut = 1 - sum(after) / len(after)
    return LOOK if cut > 0.1 else GOOD, f"{percent(cut)} cut by the length limit"


_CHECKS: tuple[tuple[str, str, Callable[[Run, list[Case]], Answer]], ...] = (
    ("The run came to its end", "settings", _finished),
    ("Loss and gradient are numbers", "loss", _numbers),
    ("The loss falls (by 2% or more)", "loss", _falls),
    ("Responses keep their length (a quarter of it or more)", "length", _length),
    ("Responses stop by themselves (half or more)", "length", _share("completions/clipped_ratio", 0.5, "cut")),
    ("Rows are supervised (half or more)", "supervision", _share("rows/none", 0.5, "without a loss")),
    (
        "Both tokenizers spell the same bytes (99% of responses)",
        "unsupervised",
        _share("bytes_differ", 0.01, "of responses differ"),
    ),
    ("The student still explores (entropy of 0.005 nats or more)", "entropy", _entropy),
    ("Evaluated answers are whole (90% or more)", "samples", _whole),
)
