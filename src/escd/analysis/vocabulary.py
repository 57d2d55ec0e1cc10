"""One vocabulary in figures: its size, what it can spell, what ends a response."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..families.thoughts import is_thought
from ..vocab import ByteVocab
from .rewriting import component_spec

# Bytes that no valid UTF-8 text holds.
_NEVER_IN_TEXT = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})


@dataclass(frozen=True)
class Token:
    """A token for people and for machines.

    Attributes:
        id: Its id.
        text: Its bytes as UTF-8, others as `\\xNN`; the spelling of a token that is not content.
        hex: Its bytes in hex; empty for a token that is not content.
    """

    id: int
    text: str
    hex: str

    @classmethod
    def of(cls, vocab: ByteVocab, token_id: int) -> Token:
        """The token of an id."""
        data = vocab.token_bytes[token_id] or b""
        text = data.decode("utf-8", "backslashreplace") or vocab.special_tokens.get(token_id, "")
        return cls(int(token_id), text, data.hex())


@dataclass(frozen=True)
class VocabFacts:
    """What one vocabulary is (method section 1).

    Attributes:
        scheme: Kind of the tokenizer, None if the vocabulary has no encoder.
        size: Token ids, V.
        content: Tokens that render as response text.
        silent: Tokens without bytes: stops, control tokens, holes in the ids.
        missing_bytes: Values of the single bytes that are no token, so that arbitrary bytes cannot be spelled.
        missing_in_text: Those of them that valid UTF-8 text can hold.
        longest: The longest content token, the lowest id on ties.
        mean_bytes: Mean bytes of the content tokens.
        stops: Tokens that end a response.
        preferred_stop: Id of the one that the model is expected to write.
        thoughts: Content tokens like `<think>`.
    """

    scheme: str | None
    size: int
    content: int
    silent: int
    missing_bytes: list[int]
    missing_in_text: list[int]
    longest: Token | None
    mean_bytes: float
    stops: list[Token]
    preferred_stop: int | None
    thoughts: list[Token]


def vocab_facts(vocab: ByteVocab) -> VocabFacts:
    """Measure one vocabulary."""
    lengths = vocab.byte_lengths
    content = int((lengths > 0).sum())
    missing = sorted(set(range(256)) - set(vocab.blob[vocab.byte_starts[lengths == 1]].tolist()))
    # No thought marker is shorter than [think] nor longer than <|end_of_reasoning|> and the like.
    likely = np.flatnonzero((lengths >= 7) & (lengths <= 32))
    thoughts = [v for v in likely.tolist() if is_thought((vocab.token_bytes[v] or b"").decode("utf-8", "replace"))]
    return VocabFacts(
        scheme=_scheme(vocab),
        size=len(vocab),
        content=content,
        silent=len(vocab) - content,
        missing_bytes=missing,
        missing_in_text=[b for b in missing if b not in _NEVER_IN_TEXT],
        longest=Token.of(vocab, int(lengths.argmax())) if content else None,
        mean_bytes=float(lengths.sum() / max(content, 1)),
        stops=[Token.of(vocab, stop) for stop in vocab.stop_ids],
        preferred_stop=vocab.preferred_stop,
        thoughts=[Token.of(vocab, v) for v in thoughts],
    )


def _scheme(vocab: ByteVocab) -> str | None:
    """Kind of the tokenizer that encodes for a vocabulary."""
    if vocab.encoder is None:
        return None
    model = type(vocab.encoder.model).__name__
    if "ByteLevel" in repr(component_spec(vocab.encoder.decoder)):
        return f"byte-level {model}"
    # What is not byte-level and has bytes at all writes a space as SentencePiece does.
    return f"SentencePiece-like {model}"
