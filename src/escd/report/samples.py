"""Sample answers of one problem before and after training, side by side, and what changed from problem to problem."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from .reading import WHENS, Evaluated, number, text
from .words import plural, points

_SHOWN, _SAMPLES, _LONGEST = 12, 8, 20_000
_ENOUGH = 10  # problems; below, a normal interval says little


@dataclass(frozen=True)
class Response:
    """One response.

    Attributes:
        text: What the student wrote, whitespace as it was.
        right: Whether it was graded right, None if it was not graded.
        reason: Why it is wrong, in a line.
        tokens: Its length, NaN if not known.
        finished: False if the length limit cut it.
        left_out: Characters that were cut from the middle of `text` to keep the page small.
    """

    text: str
    right: bool | None
    tokens: float
    finished: bool
    left_out: int = 0
    reason: str = ""


@dataclass(frozen=True)
class Case:
    """One problem of a task: its text, the right answer, responses before and after training, by sample."""

    task: str
    problem: str
    prompt: str
    answer: str
    before: list[Response]
    after: list[Response]

    @property
    def kind(self) -> str:
        """ "better", "worse" or "same" by the share of right responses; "one" if only one side has any."""
        before, after = share(self.before), share(self.after)
        if math.isnan(before + after):
            return "one"
        return "better" if after > before else "worse" if after < before else "same"

    def rights(self, when: str) -> str:
        """How many of its responses are right, in words."""
        responses = getattr(self, when)
        graded = [r for r in responses if r.right is not None]
        return f"{sum(bool(r.right) for r in graded)} of {len(graded)} right" if graded else "not graded"


@dataclass(frozen=True)
class Outcomes:
    """What changed from problem to problem.

    Attributes:
        better, worse, same: Numbers of problems by share of right responses after against before.
        difference: Mean change of that share, NaN if there is no problem with both.
        interval: Ends of its 95 % interval (normal, over problems), None with fewer than 10 problems.
    """

    better: int
    worse: int
    same: int
    difference: float
    interval: tuple[float, float] | None

    @property
    def sentence(self) -> str:
        """The paired comparison in words."""
        if self.interval is None:
            return ""
        low, high = self.interval
        total = self.better + self.worse + self.same
        zero = "includes" if low <= 0 <= high else "does not include"
        return (
            f"Compared problem by problem: {points(self.difference)} points "
            f"(95% interval {points(low)} to {points(high)}, which {zero} 0) over {plural(total, 'problem')}; "
            f"{self.better} better, {self.worse} worse, {self.same} the same."
        )


def share(responses: list[Response]) -> float:
    """Share of right ones among graded responses, NaN if there is none."""
    graded = [bool(r.right) for r in responses if r.right is not None]
    return sum(graded) / len(graded) if graded else math.nan


def cases(task: Evaluated) -> list[Case]:
    """Every problem of a task that has a response, in the order of the files."""
    responses: dict[str, dict[str, list[tuple[float, Response]]]] = {w: defaultdict(list) for w in WHENS}
    about: dict[str, dict[str, Any]] = {}
    for when, rows in task.answers.items():
        for row in rows:
            name = str(row.get("problem"))
            about.setdefault(name, row)
            sample = number(row.get("sample"))
            responses[when][name].append((0 if math.isnan(sample) else sample, _response(row)))
    return [
        Case(
            text(task.name), text(name), text(row.get("prompt")), text(row.get("answer")),
            *([r for _, r in sorted(responses[w][name], key=lambda pair: pair[0])] for w in WHENS),
        )
        for name, row in about.items()
    ]  # fmt: skip


def outcomes(every: list[Case]) -> Outcomes:
    """Compare before and after over all problems that have both."""
    kinds = [case.kind for case in every]
    changes = [share(c.after) - share(c.before) for c, kind in zip(every, kinds, strict=True) if kind != "one"]
    n = len(changes)
    mean = sum(changes) / n if n else math.nan
    interval = None
    if n >= _ENOUGH:
        error = math.sqrt(sum((c - mean) ** 2 for c in changes) / (n - 1) / n)
        interval = (mean - 1.96 * error, mean + 1.96 * error)
    return Outcomes(kinds.count("better"), kinds.count("worse"), kinds.count("same"), mean, interval)


def choose(every: list[Case]) -> list[Case]:
    """At most 12 problems, the first of each kind and task in turn, so that a page never shows successes only."""
    tasks = dict.fromkeys(case.task for case in every)
    queues = [
        [case for case in every if (case.kind, case.task) == (kind, task)]
        for kind in ("better", "worse", "same", "one")
        for task in tasks
    ]
    chosen: list[Case] = []
    while len(chosen) < _SHOWN and any(queues):
        chosen += [queue.pop(0) for queue in queues if queue]
    return [replace(c, before=c.before[:_SAMPLES], after=c.after[:_SAMPLES]) for c in chosen[:_SHOWN]]


def _response(row: dict[str, Any]) -> Response:
    written = text(row.get("response"))
    left_out = max(0, len(written) - _LONGEST)
    if left_out:
        half = _LONGEST // 2
        written = f"{written[:half]}\n\n[… {left_out:,} characters left out …]\n\n{written[-half:]}"
    right = row.get("correct")
    return Response(
        written, right if isinstance(right, bool) else None, number(row.get("tokens")),
        row.get("finished") is not False, left_out, "" if right is True else text(row.get("reason")),
    )  # fmt: skip
