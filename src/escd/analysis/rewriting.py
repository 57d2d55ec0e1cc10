"""What a tokenizer does to a text before it cuts it. escd's own encoder does none of it (method section 6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tokenizers

# How SentencePiece writes a space.
_SPACE = "▁"


@dataclass(frozen=True)
class Rewriting:
    """How a tokenizer changes text that it is given.

    Attributes:
        normalizers: Types of its normalisers, those left out that only write spaces differently.
        prefix_space: Whether it puts a space before the text.
        cleans_spaces: Whether its `decode` takes away spaces (`clean_up_tokenization_spaces`).
        lines: Lines of the sample text.
        changed_lines: Those that the normalisers change.
    """

    normalizers: list[str]
    prefix_space: bool
    cleans_spaces: bool
    lines: int
    changed_lines: int


def rewriting(hf_tokenizer: Any, text: str) -> Rewriting | None:
    """Measure on a text what a transformers fast tokenizer changes; None without a fast tokenizer."""
    backend = getattr(hf_tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    normalizers = list(_parts(component_spec(backend.normalizer)))
    parts = [part for part in normalizers if not _writes_spaces(part)]
    lines = [line for line in text.splitlines() if line]
    normal = _normalizer(parts)
    changed = sum(normal.normalize_str(line) != line for line in lines) if parts else 0
    return Rewriting(
        normalizers=[part["type"] for part in parts],
        prefix_space=any(map(_adds_space, [*normalizers, *_parts(component_spec(backend.pre_tokenizer))])),
        cleans_spaces=bool(getattr(hf_tokenizer, "clean_up_tokenization_spaces", False)),
        lines=len(lines),
        changed_lines=changed,
    )


def component_spec(component: Any) -> dict[str, Any] | None:
    """A part of a tokenizer as `tokenizer.json` has it, without writing out the vocabulary; None for no part."""
    return None if component is None else json.loads(component.__getstate__())


def _parts(node: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The steps of a normaliser or pre-tokeniser, sequences unfolded."""
    if node is None:
        return
    if node["type"] != "Sequence":
        yield node
    for part in (*node.get("normalizers", ()), *node.get("pretokenizers", ())):
        yield from _parts(part)


def _writes_spaces(part: dict[str, Any]) -> bool:
    """Whether a normaliser only says how spaces are written."""
    if part["type"] == "Prepend":
        return part.get("prepend") == _SPACE
    return part["type"] == "ByteLevel" or (
        part["type"] == "Replace" and part.get("pattern") == {"String": " "} and part.get("content") == _SPACE
    )


def _adds_space(part: dict[str, Any]) -> bool:
    if part["type"] == "Metaspace":
        return part.get("prepend_scheme", "always") != "never"
    return part["type"] == "Prepend" or bool(part["type"] == "ByteLevel" and part.get("add_prefix_space"))


def _normalizer(parts: list[dict[str, Any]]) -> Any:
    """These normalisers, one after the other; they are made only as a part of a tokenizer."""
    model = {"type": "BPE", "vocab": {}, "merges": []}
    empty = dict.fromkeys(("truncation", "padding", "pre_tokenizer", "post_processor", "decoder"))
    chain = {"type": "Sequence", "normalizers": parts}
    spec = {"version": "1.0", **empty, "added_tokens": [], "normalizer": chain, "model": model}
    return tokenizers.Tokenizer.from_str(json.dumps(spec)).normalizer
