"""Training texts of the lab: conversations with worked solutions, mistakes in them where asked for."""

import random

from .mistakes import Mistakes, Pieces, misspell
from .problems import DRAW
from .quantities import drill_line
from .stories import LARGEST, apply
from .tasks import Draft, TaskName

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "Solve the problem step by step.",
    "End with a line that gives the answer.",
)


def training_draft(task: TaskName, rng: random.Random) -> Draft:
    """A random problem of the training split."""
    while True:
        draft = DRAW[task](rng)
        if not draft.is_test:
            return draft


def conversation(draft: Draft, rng: random.Random) -> list[dict[str, str]]:
    """The question as a conversation; one in twenty has a system turn."""
    messages = [{"role": "user", "content": draft.question()}]
    if rng.random() < 0.05:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEM_PROMPTS)})
    return messages


def response(draft: Draft, mistakes: Mistakes, rng: random.Random) -> Pieces:
    """A worked solution with mistakes that the lab's numbers allow."""
    while True:
        pieces = draft.attempt(mistakes, rng)
        if pieces is not None:
            break
    return misspell(pieces, mistakes.word, rng) if mistakes.word else pieces


def drill(rng: random.Random, lines: int) -> Pieces:
    """Lines of arithmetic without a story. Only their results can be known, so all else is "unsound"."""
    pieces: Pieces = []
    while len(pieces) < 3 * lines:
        if rng.random() < 0.5:
            asked, result = drill_line(rng)
            pieces += [(asked, False), (result, True), (".\n\n", True)]
            continue
        operator = rng.choice("++--*")
        left, right = rng.randint(1, LARGEST), rng.randint(2, 12)
        if operator == "*":
            left, right = rng.randint(1, 7), rng.randint(1, 7)
        result = apply(operator, left, right)
        if 0 <= result <= LARGEST + 12:
            pieces += [(f"{left} {operator} {right} =", False), (f" {result}", True), (".\n\n", True)]
    return pieces
