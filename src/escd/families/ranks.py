"""tiktoken encodings: byte strings with ranks, as a `tokenizers` BPE that merges the same pairs in the same order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import tokenizers

from .bytelevel import byte_alphabet


def is_encoding(value: Any) -> bool:
    """Whether a value is a `tiktoken.Encoding`."""
    return isinstance(getattr(value, "_mergeable_ranks", None), Mapping) and hasattr(value, "_pat_str")


def from_encoding(encoding: Any) -> tokenizers.Tokenizer:
    """The tokenizer of a `tiktoken.Encoding`."""
    return from_ranks(encoding._mergeable_ranks, encoding._pat_str, encoding._special_tokens)


def from_ranks(ranks: Mapping[bytes, int], pattern: str, special: Mapping[str, int]) -> tokenizers.Tokenizer:
    """A byte-level BPE with the same tokens.

    tiktoken merges the two neighbours whose joint bytes have the lowest rank, so every way to cut a token into two
    tokens is a merge, in the order of the ranks.

    Args:
        ranks: Byte strings and their ids; ids may have holes.
        pattern: The regular expression that cuts text into words.
        special: Special tokens and their ids.
    """
    letters = {b: c for c, b in byte_alphabet().items()}
    spelled = {data: "".join(letters[b] for b in data) for data in ranks}
    merges = [
        (spelled[data[:cut]], spelled[data[cut:]])
        for data, _ in sorted(ranks.items(), key=lambda item: item[1])
        for cut in sorted(
            (c for c in range(1, len(data)) if data[:c] in ranks and data[c:] in ranks),
            key=lambda c: (ranks[data[:c]], ranks[data[c:]]),
        )
    ]
    # What is possessive in tiktoken would be a repetition of the repetition here.
    pattern = re.sub(r"(\{\d+(?:,\d*)?\})\+", r"\1", pattern)
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    alphabet = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    added = [
        {"id": i, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for text, i in sorted(special.items(), key=lambda item: item[1])
    ]  # fmt: skip
    spec = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, alphabet]}, "post_processor": None,
        "decoder": alphabet,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
            # Special tokens too: one that only the list of added tokens has would get the next free id.
            "vocab": {**{spelled[data]: i for data, i in ranks.items()}, **special}, "merges": merges,
        },
    }  # fmt: skip
    return tokenizers.Tokenizer.from_str(json.dumps(spec))
