"""The tasks of the lab and what a problem of any of them can say of itself."""

import hashlib
import random
from collections.abc import Callable
from typing import Literal, Protocol, get_args

from .mistakes import Mistakes, Pieces

TaskName = Literal["math", "code", "science"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)

HELD_OUT = 8
"""One in this many skeletons (a problem without its wording) is held out for testing."""


class Draft(Protocol):
    """One problem before it is worded."""

    @property
    def is_test(self) -> bool:
        """Decided by a hash of the skeleton alone, so that no held-out one is trained on in other words."""
        ...

    @property
    def answer(self) -> str:
        """What the response is judged by: a number, a number with its unit, or the name of a function."""
        ...

    @property
    def tests(self) -> tuple[str, ...]:
        """Assertions that a right function fulfils; none outside the task `code`."""
        ...

    def question(self) -> str:
        """The problem as the user states it."""
        ...

    def attempt(self, mistakes: Mistakes, rng: random.Random) -> Pieces | None:
        """A worked solution, or None if its mistakes lead to numbers that the lab does not use."""
        ...


Draw = Callable[[random.Random], Draft]


def held_out(skeleton: str) -> bool:
    """Whether a skeleton belongs to the split `test`."""
    return int.from_bytes(hashlib.sha256(skeleton.encode()).digest()[:4], "big") % HELD_OUT == 0


def solution(draft: Draft) -> str:
    """The right solution."""
    pieces = draft.attempt(Mistakes(), random.Random(0))
    assert pieces is not None
    return "".join(text for text, _ in pieces)
