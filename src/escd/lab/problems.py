"""Lab problems: generated arithmetic word problems with a final ``Answer:`` line."""

import random
from dataclasses import dataclass
from typing import Literal

from .stories import draw


@dataclass(frozen=True)
class Problem:
    """A question, a worked solution and the number it ends with (in decimal digits)."""

    question: str
    solution: str
    answer: str

    @property
    def prompt(self) -> list[dict[str, str]]:
        """The question as a conversation of one user turn."""
        return [{"role": "user", "content": self.question}]


def problems(n: int, seed: int = 0, split: Literal["train", "test"] = "train") -> list[Problem]:
    """`n` different problems; the same arguments always give the same ones.

    A problem belongs to one split by a hash of its numbers and operations, so no test problem
    occurs in training, not even with other names or objects.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be 'train' or 'test', not {split!r}")
    rng = random.Random(f"{split}-{seed}")
    found: dict[str, Problem] = {}
    while len(found) < n:
        story = draw(rng)
        if story.is_test == (split == "test"):
            question = story.question()
            found.setdefault(question, Problem(question, story.solution(), str(story.answer)))
    return list(found.values())
