"""From responses to token ids: a tokenizer's own segmentation, and others of the same bytes.

A large model copes with text that is cut up in other ways than its tokenizer would cut it. A small
one learns that only if it is shown such prefixes. The part after a random cut keeps the
tokenizer's own segmentation and is what is learned.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tokenizers import Tokenizer

from .corpus import Pieces

IGNORED = -100
"""Label of a token that is read but not learned."""

Split = Callable[[str], list[int]]


@dataclass
class Encoded:
    """Token ids of one response and, for each, its id again or `IGNORED`."""

    ids: list[int]
    labels: list[int]


def own(tokenizer: Tokenizer, pieces: Pieces, learn_mistakes: bool) -> Encoded:
    """The tokenizer's own segmentation; a token that touches a mistake is learned only if told so."""
    encoding = tokenizer.encode("".join(text for text, _ in pieces), add_special_tokens=False)
    if learn_mistakes:
        return Encoded(encoding.ids, list(encoding.ids))
    wrong: list[bool] = []
    for text, sound in pieces:
        wrong += [not sound] * len(text)
    labels = [
        IGNORED if any(wrong[start:end]) else token
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
    ]
    return Encoded(encoding.ids, labels)


def recut(tokenizer: Tokenizer, pieces: Pieces, split: Split, rng: random.Random) -> Encoded:
    """`split` decides the tokens up to a random character; from there on as `own`, and learned."""
    text = "".join(part for part, _ in pieces)
    cut = rng.randrange(1, len(text))
    ids = split(text[:cut])
    rest: Pieces = []
    position = 0
    for part, sound in pieces:
        remaining = part[max(0, cut - position) :]
        position += len(part)
        if remaining:
            rest.append((remaining, sound))
    tail = own(tokenizer, rest, learn_mistakes=False)
    return Encoded(ids + tail.ids, [IGNORED] * len(ids) + tail.labels)


def dropout_split(tokenizer: Tokenizer, rate: float, rng: random.Random) -> Split:
    """BPE dropout (Provilkov et al. 2020): each merge is passed over with probability `rate`.

    Done here, as the dropout of `tokenizers` cannot be seeded. Rate 0 is the tokenizer's own
    segmentation, rate 1 leaves single bytes.
    """
    model = json.loads(tokenizer.to_str())["model"]
    rank = {tuple(pair): i for i, pair in enumerate(model["merges"])}

    def symbols(word: str) -> list[str]:
        parts = list(word)
        while True:
            found = [
                (rank[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in rank and rng.random() >= rate
            ]
            if not found:
                return parts
            _, i = min(found)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]

    def split(text: str) -> list[int]:
        words = tokenizer.pre_tokenizer.pre_tokenize_str(text)
        return [model["vocab"][part] for word, _ in words for part in symbols(word)]

    return split


def piecewise_split(tokenizer: Tokenizer, pieces_of: Tokenizer) -> Split:
    """The pieces that `pieces_of` would make of a text, each encoded by `tokenizer` by itself."""

    def split(text: str) -> list[int]:
        offsets = pieces_of.encode(text, add_special_tokens=False).offsets
        parts = [text[start:end] for start, end in offsets]
        encoded = tokenizer.encode_batch(parts, add_special_tokens=False)
        return [token for encoding in encoded for token in encoding.ids]

    return split
