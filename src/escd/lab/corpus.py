"""Training responses of the lab: worked solutions, with mistakes in them where asked for.

A response is a list of pieces `(text, sound)`. A piece that is not sound is a mistake: everything
after it follows from it, as it would from the right value. Whether mistakes are learned (the
student) or only read (the teacher) is up to the caller.
"""

import random
from dataclasses import dataclass

from .stories import LARGEST, Story, apply, draw

Pieces = list[tuple[str, bool]]

SLIPS = (1, -1, 2, -2, 3, -3, 10, -10)
"""By how much a wrong number is wrong."""
SLIP_WEIGHTS = (6, 6, 4, 4, 1, 1, 2, 2)
SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "Solve the problem step by step.",
    "End with a line that gives the answer.",
)


@dataclass(frozen=True)
class Mistakes:
    """Probabilities, one draw per number or word of a response.

    `result`: a line of arithmetic states a wrong result. `copy`: a number is copied wrongly from
    the question or from the line before. `word`: a word is misspelt or replaced.
    """

    result: float = 0.0
    copy: float = 0.0
    word: float = 0.0


def training_story(rng: random.Random) -> Story:
    """A random story of the training split."""
    while True:
        story = draw(rng)
        if not story.is_test:
            return story


def conversation(story: Story, rng: random.Random) -> list[dict[str, str]]:
    """The story's question as a conversation; one in twenty has a system turn."""
    messages = [{"role": "user", "content": story.question()}]
    if rng.random() < 0.05:
        messages.insert(0, {"role": "system", "content": rng.choice(SYSTEM_PROMPTS)})
    return messages


def slip(value: int, rng: random.Random) -> int:
    """A number near `value`, never equal to it, from 0 to 99."""
    while True:
        wrong = value + rng.choices(SLIPS, SLIP_WEIGHTS)[0]
        if 0 <= wrong <= 99:
            return wrong


def response(story: Story, mistakes: Mistakes, rng: random.Random) -> Pieces:
    """A worked solution with mistakes; no result in it is negative or has three digits."""
    while True:
        pieces = _attempt(story, mistakes, rng)
        if pieces is not None:
            break
    return _misspell(pieces, mistakes.word, rng) if mistakes.word else pieces


def _attempt(story: Story, mistakes: Mistakes, rng: random.Random) -> Pieces | None:
    def copy(value: int) -> tuple[int, bool]:
        return (slip(value, rng), False) if rng.random() < mistakes.copy else (value, True)

    first = [copy(value) for value in story.first]
    pieces: Pieces = [(f"{story.name} starts with" if len(first) == 1 else f"{story.name} has", True)]
    pieces.append((f" {first[0][0]}", first[0][1]))
    if len(first) == 2:
        pieces += [(f" {story.container} of", True), (f" {first[1][0]}", first[1][1])]
    pieces.append((f" {story.objects}.\n\n", True))

    value = first[0][0]
    operands = story.operands
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


def _misspell(pieces: Pieces, rate: float, rng: random.Random) -> Pieces:
    """Words (not numbers) spoilt at `rate`: a letter lost, doubled or swapped, or another word."""
    spoilt: Pieces = []
    for text, sound in pieces:
        if not sound or not any(c.isalpha() for c in text):
            spoilt.append((text, sound))
            continue
        for word in _words(text):
            if len(word.strip()) > 1 and rng.random() < rate:
                spoilt.append((_spoil(word, rng), False))
            else:
                spoilt.append((word, True))
    return spoilt


def _words(text: str) -> list[str]:
    """`text` cut before every blank, line break and full stop that follows a letter."""
    words = [""]
    for before, char in zip(" " + text, text, strict=False):
        if char in " .\n:" and before.isalpha():
            words.append("")
        words[-1] += char
    return [word for word in words if word]


def _spoil(word: str, rng: random.Random) -> str:
    if not any(c.isalpha() for c in word):
        return word
    k = rng.randrange(len(word) - 1) + 1
    kind = rng.randrange(4)
    if kind == 0:
        return word[:k] + word[k + 1 :]
    if kind == 1:
        return word[:k] + word[k] + word[k:]
    if kind == 2:
        return word[: k - 1] + word[k] + word[k - 1] + word[k + 1 :]
    return rng.choice((" the", " then", " so", " uh", " some", " number"))


def drill(rng: random.Random, lines: int) -> Pieces:
    """Lines of arithmetic without a story. Only their results can be known, so all else is "unsound"."""
    pieces: Pieces = []
    while len(pieces) < 3 * lines:
        operator = rng.choice("++--*")
        left, right = rng.randint(1, LARGEST), rng.randint(2, 12)
        if operator == "*":
            left, right = rng.randint(1, 7), rng.randint(1, 7)
        result = apply(operator, left, right)
        if 0 <= result <= LARGEST + 12:
            pieces += [(f"{left} {operator} {right} =", False), (f" {result}", True), (".\n\n", True)]
    return pieces
