"""What a run amounts to, in a sentence with numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .reading import Run, Score, number, text
from .samples import Outcomes
from .words import duration, figure, percent, plural


@dataclass(frozen=True)
class Verdict:
    """A headline, and sentences that qualify it. Plain text."""

    headline: str
    details: tuple[str, ...]


def verdict(run: Run, outcomes: Outcomes) -> Verdict:
    """Accuracy before and after if both were measured, else how the loss went."""
    before, after = run.score("before"), run.score("after")
    details = []
    if before and after:
        change = "stayed at" if f"{before.accuracy:.1%}" == f"{after.accuracy:.1%}" else (
            "rose" if after.accuracy > before.accuracy else "fell")  # fmt: skip
        if change == "stayed at":
            headline = f"Accuracy stayed at {percent(after.accuracy)}."
        else:
            headline = f"Accuracy {change} from {percent(before.accuracy)} to {percent(after.accuracy)}."
        details.append(_intervals(before, after))
        if outcomes.interval:
            details.append(outcomes.sentence)
    elif before or after:
        when, score = ("before", before) if before else ("after", after)
        assert score is not None
        headline = f"Accuracy {when} training: {percent(score.accuracy)}{_range(score)}."
        details.append(
            f"The {'trained' if before else 'untrained'} student was not evaluated, so there is no comparison."
        )
    else:
        headline = _loss(run)
        details.append("No evaluation was run: whether answers got better is not known.")
    if before or after:
        details.append(_task(run))
        if len(run.series("loss").finite):
            details.append(_loss(run))
    return Verdict(headline, tuple(d for d in details if d))


def overlap(before: Score, after: Score) -> bool | None:
    """Whether the intervals share a point; None if one of them was not given."""
    if math.isnan(before.low + before.high + after.low + after.high):
        return None
    return before.low <= after.high and after.low <= before.high


def _intervals(before: Score, after: Score) -> str:
    shared = overlap(before, after)
    if shared is None:
        return "There are no intervals, so chance cannot be ruled out."
    ends = f"The 95% intervals{_range(before)} before and{_range(after)} after"
    if shared:
        return f"{ends} overlap: on their own they do not show a change. More problems or samples would narrow them."
    return f"{ends} do not overlap: this is more than chance in sampling."


def _range(score: Score) -> str:
    if math.isnan(score.low + score.high):
        return ""
    return f" [{percent(score.low)}, {percent(score.high)}]"


def _task(run: Run) -> str:
    about = run.evaluation
    parts = [text(about["task"])] if about.get("task") else []
    problems, samples, temperature = (number(about.get(k)) for k in ("problems", "samples", "temperature"))
    if not math.isnan(problems):
        parts.append(plural(int(problems), "problem"))
    if not math.isnan(samples):
        parts.append(f"{plural(int(samples), 'sample')} each")
    if not math.isnan(temperature):
        parts.append(f"temperature {temperature:g}")
    return f"Measured on: {', '.join(parts)}." if parts else ""


def _loss(run: Run) -> str:
    loss = run.series("loss")
    if not len(loss.finite):
        return "Nothing has been logged yet." if not run.rows else "No loss has been logged yet."
    if len(loss.finite) == 1:
        return f"Loss {figure(loss.first)} nats per response token; one log so far."
    mean = f" (means of the first and last {loss.window} logs)" if loss.window > 1 else ""
    steps = plural(run.steps, "step")
    return f"Loss went from {figure(loss.first)} to {figure(loss.last)} nats per response token in {steps}{mean}."


def run_time(run: Run) -> str:
    """Wall-clock time of the training, or why it is not known."""
    if not math.isnan(run.seconds):
        return duration(run.seconds)
    return "not known: the log has no closing row, so the run goes on or was stopped" if run.rows else "not known"
