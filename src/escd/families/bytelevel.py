"""Byte-level vocabularies (GPT-2, Llama 3, Qwen, DeepSeek, SmolLM2): every byte is one printable character."""

from __future__ import annotations

from . import pieces
from .pieces import Spec

NAME = "byte-level"


def byte_alphabet() -> dict[str, int]:
    """GPT-2's table from printable characters to bytes.

    >>> byte_alphabet()["Ġ"], byte_alphabet()["A"]
    (32, 65)
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    table = {chr(b): b for b in printable}
    table.update({chr(256 + n): b for n, b in enumerate(b for b in range(256) if b not in set(printable))})
    return table


_ALPHABET = byte_alphabet()


def suggested(spec: Spec) -> bool:
    """Whether a `tokenizer.json` says that it is byte-level: by its decoder, or by its other steps if it has none."""
    kinds = [step["type"] for step in pieces.steps(spec.get("decoder"))]
    return "ByteLevel" in kinds or (not kinds and bool(_byte_steps(spec)))


def token_bytes(spec: Spec) -> list[bytes | None]:
    """See `pieces.table`."""
    return pieces.table(spec, spelled)


def spelled(text: str) -> bytes:
    """The bytes that a token string spells; like the decoder, a string outside the alphabet is taken as UTF-8."""
    try:
        return bytes([_ALPHABET[c] for c in text])
    except KeyError:
        return text.encode()


def exact_spec(spec: Spec, table: list[bytes | None]) -> Spec:
    """See `pieces.exact_spec`."""
    splits = [
        {**step, "add_prefix_space": False} if step["type"] == "ByteLevel" else step
        for step in pieces.steps(spec.get("pre_tokenizer"))
    ]
    # In some tokenizers it is a normaliser that turns bytes into the alphabet.
    alphabet = [step for step in _byte_steps(spec) if step not in pieces.steps(spec.get("pre_tokenizer"))]
    return pieces.exact_spec(spec, table, alphabet, splits)


def _byte_steps(spec: Spec) -> list[Spec]:
    both = (*pieces.steps(spec.get("normalizer")), *pieces.steps(spec.get("pre_tokenizer")))
    return [step for step in both if step["type"] == "ByteLevel"]
