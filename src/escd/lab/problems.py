"""Lab problems: generated questions with worked solutions, in three tasks."""

import random
from dataclasses import dataclass
from typing import Literal

from . import functions, quantities, stories
from .tasks import TASKS, Draw, TaskName, solution

DRAW: dict[TaskName, Draw] = {"math": stories.draw, "code": functions.draw, "science": quantities.draw}


@dataclass(frozen=True)
class Problem:
    """A question, a worked solution and what a response to it is judged by.

    Args:
        task: ``math``, ``code`` or ``science``.
        question: What the user says.
        solution: A right response.
        answer: Math: the number that the solution ends with, in decimal digits. Science: number and
            unit, as in ``"3500 m"``. Code: the name of the function to write.
        tests: Code: lines like ``"assert double(3) == 6"``. Empty otherwise.
    """

    task: TaskName
    question: str
    solution: str
    answer: str
    tests: tuple[str, ...] = ()

    @property
    def prompt(self) -> list[dict[str, str]]:
        """The question as a conversation of one user turn."""
        return [{"role": "user", "content": self.question}]


def problems(
    n: int, seed: int = 0, split: Literal["train", "test"] = "train", task: TaskName = "math"
) -> list[Problem]:
    """`n` different problems; the same arguments always give the same ones.

    A problem belongs to one split by a hash of its skeleton (numbers and operations; rule and
    constants of a function; formula and values), so no test problem occurs in training, not even in
    other words or under another name.

    Raises:
        ValueError: Unknown split or task.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}, not {task!r}")
    rng = random.Random(f"{split}-{seed}" if task == "math" else f"{task}-{split}-{seed}")
    found: dict[str, Problem] = {}
    while len(found) < n:
        draft = DRAW[task](rng)
        if draft.is_test == (split == "test"):
            question = draft.question()
            if question not in found:
                found[question] = Problem(task, question, solution(draft), draft.answer, draft.tests)
    return list(found.values())
