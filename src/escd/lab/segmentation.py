"""From responses to token ids: a tokenizer's own segmentation, and others of the same bytes.

A large model copes with text that is cut up in other ways than its tokenizer would cut it. A small
one learns that only if it is shown such text. It must not learn to write it, though: of another
segmentation only those tokens are learned that the tokenizer itself would write for the rest of
the word. After a lone ``"."`` that is ``"\\n\\n"``, after ``" 1"`` it is the second digit.

Texts are ASCII, so that characters are bytes.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from tokenizers import Tokenizer

from .mistakes import Pieces

IGNORED = -100
"""Label of a token that is read but not learned."""

Split = Callable[[str], list[int]]
"""From a word (one match of the tokenizer's pre-tokenizer) to token ids."""


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
    wrong = _mistaken(pieces)
    labels = [
        IGNORED if any(wrong[start:end]) else token
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True)
    ]
    return Encoded(encoding.ids, labels)


def recut(tokenizer: Tokenizer, pieces: Pieces, split: Split) -> Encoded:
    """Every word as `split` cuts it. Mistakes are not learned."""
    text = "".join(part for part, _ in pieces)
    wrong = _mistaken(pieces)

    @cache
    def first(rest: str) -> int:
        return tokenizer.encode(rest, add_special_tokens=False).ids[0]

    found = Encoded([], [])
    for _, (start, end) in tokenizer.pre_tokenizer.pre_tokenize_str(text):
        at = start
        for token in split(text[start:end]):
            after = at + len(tokenizer.id_to_token(token) or "")
            learned = token == first(text[at:end]) and not any(wrong[at:after])
            found.ids.append(token)
            found.labels.append(token if learned else IGNORED)
            at = after
    return found


def _mistaken(pieces: Pieces) -> list[bool]:
    return [not sound for text, sound in pieces for _ in text]


def dropout_split(tokenizer: Tokenizer, rate: float, rng: random.Random) -> Split:
    """BPE dropout (Provilkov et al. 2020): each merge is passed over with probability `rate`.

    Done here, as the dropout of `tokenizers` cannot be seeded. Rate 0 is the tokenizer's own
    segmentation, rate 1 leaves single bytes.
    """
    model = json.loads(tokenizer.to_str())["model"]
    rank = {tuple(pair): i for i, pair in enumerate(model["merges"])}

    def split(word: str) -> list[int]:
        parts = [symbol for run, _ in tokenizer.pre_tokenizer.pre_tokenize_str(word) for symbol in run]
        while True:
            found = [
                (rank[pair], i) for i, pair in enumerate(pairwise(parts)) if pair in rank and rng.random() >= rate
            ]
            if not found:
                return [model["vocab"][part] for part in parts]
            _, i = min(found)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]

    return split


def piecewise_split(tokenizer: Tokenizer, pieces_of: Tokenizer) -> Split:
    """The pieces that `pieces_of` would make of a word, each encoded by `tokenizer` by itself."""

    @cache
    def split(word: str) -> list[int]:
        offsets = pieces_of.encode(word, add_special_tokens=False).offsets
        encoded = tokenizer.encode_batch([word[start:end] for start, end in offsets], add_special_tokens=False)
        return [token for encoding in encoded for token in encoding.ids]

    return split


def sometimes(split: Split, own_split: Split, share: float, rng: random.Random) -> Split:
    """`split` for a share of the words, `own_split` for the others."""
    return lambda word: (split if rng.random() < share else own_split)(word)
