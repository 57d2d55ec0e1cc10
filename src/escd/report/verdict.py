"""What a run amounts to, in a sentence with numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..evaluation.scores import Score
from .reading import Evaluated, Run, number, text
from .samples import Outcomes
from .words import NOTHING, duration, figure, percent, plural


@dataclass(frozen=True)
class Verdict:
    """A headline, and sentences that qualify it. Plain text."""

    headline: str
    details: tuple[str, ...]


def verdict(run: Run, outcomes: Sequence[Outcomes]) -> Verdict:
    """Accuracy before and after if both were measured, else how the loss went.

    Args:
        run: The run.
        outcomes: What changed from problem to problem, for each of its tasks.
    """
    measured = [(t, o) for t, o in zip(run.tasks, outcomes, strict=True) if t.score("before") or t.score("after")]
    if not measured:
        unknown = "No evaluation was run, so whether answers got better is not known."
        return Verdict(_loss(run), (unknown,))
    if len(measured) == 1:
        headline, *details = _sentences(*measured[0])
    else:
        headline, details = _headline([task for task, _ in measured]), []
        for task, outcome in measured:
            first, *rest = _sentences(task, outcome)
            details += [f"{text(task.name)}: {first[0].lower()}{first[1:]}", *rest]
    if len(run.series("loss").finite):
        details.append(_loss(run))
    return Verdict(headline, tuple(detail for detail in details if detail))


def _sentences(task: Evaluated, outcomes: Outcomes) -> list[str]:
    """What came of one task: the change first."""
    before, after = task.score("before"), task.score("after")
    if before and after:
        return [f"Accuracy {_change(before, after)}: {_overlap(before, after)}.", outcomes.sentence, _about(task)]
    when, score = ("before", before) if before else ("after", after)
    alone = f"The {'trained' if before else 'untrained'} student was not evaluated: nothing to compare with."
    return [f"Accuracy {when} training is {_ends(score)}.", alone, _about(task)]


def _headline(tasks: Sequence[Evaluated]) -> str:
    """On how many tasks accuracy changed by more than chance would explain."""
    pairs = [(b, a) for t in tasks if (b := t.score("before")) and (a := t.score("after"))]
    if not pairs:
        return f"Accuracy was measured on {plural(len(tasks), 'task')}, but not before and after."
    apart = [(b, a) for b, a in pairs if not b.overlaps(a)]  # without an interval nothing overlaps
    apart = [(b, a) for b, a in apart if not math.isnan(b.low + b.high + a.low + a.high)]
    rose = sum(a.accuracy > b.accuracy for b, a in apart)
    fell = len(apart) - rose
    parts = [f"rose on {rose}", f"fell on {fell}"] if fell else [f"rose on {rose}"]
    unsure = len(pairs) - len(apart)
    told = f"Accuracy {' and '.join(parts)} of {plural(len(pairs), 'task')}"
    return f"{told}; on {unsure} the 95% intervals overlap or are not known." if unsure else f"{told}."


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


def _about(task: Evaluated) -> str:
    about = task.about
    parts = [text(task.name) + (f" ({text(about['description'])})" if about.get("description") else "")]
    problems, samples, temperature = (number(about.get(k)) for k in ("problems", "samples", "temperature"))
    if not math.isnan(problems):
        parts.append(plural(int(problems), "problem"))
    if not math.isnan(samples):
        parts.append(f"{plural(int(samples), 'sample')} each")
    if not math.isnan(temperature):
        parts.append(f"temperature {temperature:g}")
    return f"Measured on: {', '.join(parts)}."


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
