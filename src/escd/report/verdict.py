"""What a run amounts to, in a sentence with numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..evaluation.scores import Score
from .reading import Run, number, text
from .samples import Outcomes
from .words import NOTHING, duration, figure, percent, plural


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
        headline = f"Accuracy {_change(before, after)}: {_overlap(before, after)}."
        details.append(outcomes.sentence)
    elif before or after:
        when, score = ("before", before) if before else ("after", after)
        headline = f"Accuracy {when} training is {_ends(score)}."
        details.append(
            f"The {'trained' if before else 'untrained'} student was not evaluated: nothing to compare with."
        )
    else:
        headline = _loss(run)
        details.append("No evaluation was run, so whether answers got better is not known.")
    if before or after:
        details.append(_task(run))
        if len(run.series("loss").finite):
            details.append(_loss(run))
    return Verdict(headline, tuple(detail for detail in details if detail))


def _change(before: Score, after: Score) -> str:
    if percent(before.accuracy) == percent(after.accuracy):
        return f"stayed at {_ends(after)}, before training {_ends(before)}"
    return f"{'rose' if after.accuracy > before.accuracy else 'fell'} from {_ends(before)} to {_ends(after)}"


def _overlap(before: Score, after: Score) -> str:
    if math.isnan(before.low + before.high + after.low + after.high):
        return "without intervals, chance cannot be ruled out"
    return "the 95% intervals overlap" if before.overlaps(after) else "the 95% intervals do not overlap"


def _ends(score: Score | None) -> str:
    """Accuracy with its interval."""
    if score is None:
        return NOTHING
    if math.isnan(score.low + score.high):
        return percent(score.accuracy)
    return f"{percent(score.accuracy)} [{100 * score.low:.1f},\u00a0{100 * score.high:.1f}]"


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
    """Wall-clock time of the training, which its closing row tells."""
    if not math.isnan(run.seconds):
        return duration(run.seconds)
    return "not finished" if run.rows else "not known"
