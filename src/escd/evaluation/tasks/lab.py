"""The tasks of the embedded pair: generated problems that no training set of the lab holds."""

from __future__ import annotations

from typing import Any

from ... import lab
from ...lab.tasks import TaskName
from .base import Question, Task

PROBLEMS = 200
_GRADERS = {"math": "math", "code": "code", "science": "science"}
_DESCRIPTIONS = {
    "math": "arithmetic word problems, held out", "code": "short Python functions, held out",
    "science": "quantities with units, held out",
}  # fmt: skip
_LENGTH = 96  # the longest solutions have about 80 tokens
_TOLERANCE = 1e-6  # values of the lab are exact

NAMES = tuple(f"lab/{task}" for task in lab.TASKS)


def lab_task(name: str, limit: int | None, seed: int) -> Task:
    """A task of the lab.

    Args:
        name: `lab/math`, `lab/code` or `lab/science`.
        limit: Number of problems, 200 by default.
        seed: Of their generator.
    """
    task: TaskName = next(t for t in lab.TASKS if name == f"lab/{t}")
    questions = []
    for number, problem in enumerate(lab.problems(limit or PROBLEMS, seed=seed, split="test", task=task)):
        record: dict[str, Any] = {"answer": problem.answer}
        if task == "code":
            record |= {"tests": list(problem.tests), "entry_point": problem.answer}
        if task == "science":
            record |= {"relative_tolerance": _TOLERANCE}
        questions.append(Question(number, problem.prompt, record))
    return Task(name, _GRADERS[task], tuple(questions), _LENGTH, _DESCRIPTIONS[task])
