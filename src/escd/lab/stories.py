"""Task `math`: arithmetic stories, what happens in one and how question and solution are worded."""

import random
from dataclasses import dataclass

from .mistakes import Mistakes, Pieces, slip
from .tasks import held_out

NAMES = (
    ("Tom", "he"), ("Anna", "she"), ("Ben", "he"), ("Mia", "she"), ("Paul", "he"),
    ("Lucy", "she"), ("Jack", "he"), ("Nina", "she"), ("Oscar", "he"), ("Clara", "she"),
    ("David", "he"), ("Sarah", "she"),
)  # fmt: skip
OBJECTS = (
    "apples", "marbles", "coins", "books", "cards", "stamps", "shells", "cookies",
    "stickers", "oranges", "pencils", "buttons",
)  # fmt: skip
CONTAINERS = ("bags", "boxes", "baskets", "packs")
GAINS = ("finds {n} more", "buys {n} more", "gets {n} from a friend", "picks up {n} more")
LOSSES = ("gives away {n}", "loses {n}", "sells {n}", "throws away {n}")
LINKS = ("Then", "After that", "Later", "Next")
ENDINGS = (
    "How many {objects} does {name} have now?",
    "How many {objects} does {name} have in the end?",
    "How many {objects} are left?",
)

LARGEST = 50
"""No true intermediate result of a story is larger (or smaller than 1)."""


@dataclass(frozen=True)
class Story:
    """One problem before it is worded.

    `first` is the number at the start, or `(groups, size)` when it has to be multiplied out.
    `changes` are signed and applied in order. `wording` seeds the choice of phrases.
    """

    name: str
    pronoun: str
    objects: str
    container: str
    first: tuple[int, ...]
    changes: tuple[int, ...]
    wording: int

    @property
    def is_test(self) -> bool:
        """By the numbers alone, so no held-out sum is trained on in other words."""
        return held_out(f"{self.first} {self.changes}")

    @property
    def tests(self) -> tuple[str, ...]:
        return ()

    @property
    def operands(self) -> list[tuple[str, int]]:
        """Operator and right operand of every line of the solution, in order."""
        product = [("*", size) for size in self.first[1:]]
        return product + [("+" if c > 0 else "-", abs(c)) for c in self.changes]

    @property
    def answer(self) -> str:
        value = self.first[0]
        for operator, operand in self.operands:
            value = apply(operator, value, operand)
        return str(value)

    def question(self) -> str:
        """The problem as the user states it."""
        rng = random.Random(self.wording)
        if len(self.first) == 2:
            groups, size = self.first
            parts = [f"{self.name} has {groups} {self.container} with {size} {self.objects} each."]
        else:
            parts = [f"{self.name} has {self.first[0]} {self.objects}."]
        for i, change in enumerate(self.changes):
            event = rng.choice(GAINS if change > 0 else LOSSES).format(n=abs(change))
            who = self.pronoun if rng.random() < 0.5 else self.name
            link = f"{rng.choice(LINKS)} {who}" if i else who[0].upper() + who[1:]
            parts.append(f"{link} {event}.")
        parts.append(rng.choice(ENDINGS).format(objects=self.objects, name=self.name))
        return " ".join(parts)

    def attempt(self, mistakes: Mistakes, rng: random.Random) -> Pieces | None:
        """A worked solution ending in its ``Answer:`` line; no result in it is negative or has three digits."""

        def copy(value: int) -> tuple[int, bool]:
            return (slip(value, rng), False) if rng.random() < mistakes.copy else (value, True)

        first = [copy(value) for value in self.first]
        pieces: Pieces = [(f"{self.name} starts with" if len(first) == 1 else f"{self.name} has", True)]
        pieces.append((f" {first[0][0]}", first[0][1]))
        if len(first) == 2:
            pieces += [(f" {self.container} of", True), (f" {first[1][0]}", first[1][1])]
        pieces.append((f" {self.objects}.\n\n", True))

        value = first[0][0]
        operands = self.operands
        if len(first) == 2:
            operands = [("*", first[1][0]), *operands[1:]]
        for operator, operand in operands:
            left, left_sound = copy(value)
            right, right_sound = copy(operand)
            result = apply(operator, left, right)
            if not 0 <= result <= 99:
                return None
            sound = rng.random() >= mistakes.result
            value = result if sound else slip(result, rng)
            pieces += [(f"{left}", left_sound), (f" {operator}", True), (f" {right}", right_sound)]
            pieces += [(" =", True), (f" {value}", sound), (".\n\n", True)]
        return [*pieces, ("Answer:", True), (f" {value}", True)]


def apply(operator: str, left: int, right: int) -> int:
    """`left operator right` for the operators of a story: ``+``, ``-`` and ``*``."""
    if operator == "*":
        return left * right
    return left + right if operator == "+" else left - right


def draw(rng: random.Random) -> Story:
    """A random story with 2 or 3 lines of arithmetic."""
    name, pronoun = rng.choice(NAMES)
    lines = rng.choice((2, 2, 3))
    if rng.random() < 0.3:
        first = (rng.randint(2, 6), rng.randint(2, 6))
        value, lines = first[0] * first[1], lines - 1
    else:
        first = (rng.randint(3, 30),)
        value = first[0]
    changes: list[int] = []
    while len(changes) < lines:
        change = rng.choice((-1, 1)) * rng.randint(2, 12)
        if 1 <= value + change <= LARGEST:
            changes.append(change)
            value += change
    return Story(
        name, pronoun, rng.choice(OBJECTS), rng.choice(CONTAINERS), first, tuple(changes),
        rng.getrandbits(32),
    )  # fmt: skip
