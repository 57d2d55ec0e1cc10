"""Responses as pieces, and the mistakes that can be made in them.

A response is a list of pieces `(text, sound)`. A piece that is not sound is a mistake: everything
after it follows from it, as it would from the right value. Whether mistakes are learned (the
student) or only read (the teacher) is up to the caller.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

Pieces = list[tuple[str, bool]]

SLIPS = (1, -1, 2, -2, 3, -3, 10, -10)
"""By how much a wrong number is wrong."""
SLIP_WEIGHTS = (6, 6, 4, 4, 1, 1, 2, 2)


@dataclass(frozen=True)
class Mistakes:
    """Probabilities, one draw per place of a response where the mistake is possible.

    `result`: what has to be worked out or known is wrong: the result of a line of arithmetic, a
    factor, a unit, an operator. `copy`: what is copied from the question or from the line before
    is wrong: a number, a name. `word`: a word is misspelt or replaced.
    """

    result: float = 0.0
    copy: float = 0.0
    word: float = 0.0


def slip(value: int, rng: random.Random, largest: int = 99) -> int:
    """A number near `value`, never equal to it, from 0 to `largest`."""
    while True:
        wrong = value + rng.choices(SLIPS, SLIP_WEIGHTS)[0]
        if 0 <= wrong <= largest:
            return wrong


class Writer:
    """Collects the pieces of a response; each place where a mistake is possible may become one."""

    def __init__(self, mistakes: Mistakes, rng: random.Random) -> None:
        self.mistakes, self.rng = mistakes, rng
        self.pieces: Pieces = []

    def say(self, text: str) -> None:
        """Text in which no mistake is made."""
        self.pieces.append((text, True))

    def know(self, right: str, wrong: Sequence[str]) -> str:
        """What has to be worked out or known, or one of `wrong` instead."""
        return self._either(right, wrong, self.mistakes.result)

    def copy(self, right: str, wrong: Sequence[str]) -> str:
        """What is copied, or one of `wrong` instead."""
        return self._either(right, wrong, self.mistakes.copy)

    def _either(self, right: str, wrong: Sequence[str], rate: float) -> str:
        sound = not wrong or self.rng.random() >= rate
        text = right if sound else self.rng.choice(wrong)
        self.pieces.append((text, sound))
        return text


def misspell(pieces: Pieces, rate: float, rng: random.Random) -> Pieces:
    """Words (not numbers) spoilt at `rate`: a letter lost, doubled or swapped, or another word."""
    spoilt: Pieces = []
    for text, sound in pieces:
        if not sound or not any(c.isalpha() for c in text):
            spoilt.append((text, sound))
            continue
        for word in _words(text):
            if len(word.strip()) > 1 and rng.random() < rate:
                spoilt.append((spoil(word, rng), False))
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


def spoil(word: str, rng: random.Random) -> str:
    """A word of at least two characters with a letter lost, doubled or swapped, or another word."""
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
