"""Byte-level BPE (GPT-2, Llama 3, Qwen, DeepSeek, SmolLM2): every byte is spelled as one printable character."""

from __future__ import annotations

from typing import Any

import tokenizers

from ..errors import VocabError
from .thoughts import is_thought

_PROBES = (
    "The quick brown fox, don't!  1234567 + 89 = 1234656.\n\n\tdef f(x):\r\n    return x**2  # ok\n",
    "naïve café — “quotes” … €5 £6 ½ ² ﬁ Å Å é",
    "漢字かな交じり文。 한국어 텍스트 Русский текст عربى עברית हिन्दी ไทย",
    '👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 \u200b\u200d\ufeff \u00a0 \u2028 𝒳 \\frac{a}{b} {"k": [1, null]} <b>&amp;</b>',
    " leading and trailing   \n \n\n\n x\ty ",
)


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


def recognises(spec: dict[str, Any]) -> bool:
    """Whether a `tokenizer.json` is byte-level BPE: a BPE model whose decoder ends in ByteLevel."""
    decoder = spec.get("decoder") or {}
    decoders = decoder.get("decoders", [decoder])
    return spec["model"].get("type") == "BPE" and any(d.get("type") == "ByteLevel" for d in decoders)


def token_bytes(spec: dict[str, Any]) -> list[bytes | None]:
    """Bytes of each id; `None` for special tokens and for ids that no token has."""
    vocabulary: dict[str, int] = spec["model"]["vocab"]
    added = spec.get("added_tokens") or []
    size = 1 + max(max(vocabulary.values(), default=-1), max((t["id"] for t in added), default=-1))
    table: list[bytes | None] = [None] * size
    for text, token_id in vocabulary.items():
        table[token_id] = spelled(text)
    for token in added:
        # An added token stands for its characters, not for the bytes that they would spell.
        hidden = token["special"] and not is_thought(token["content"])
        table[token["id"]] = None if hidden else token["content"].encode()
    return table


def spelled(text: str) -> bytes:
    """The bytes that a token string spells; like the decoder, a string outside the alphabet is taken as UTF-8."""
    try:
        return bytes([_ALPHABET[c] for c in text])
    except KeyError:
        return text.encode()


def exact_spec(spec: dict[str, Any], table: Any) -> dict[str, Any]:
    """The `tokenizer.json` of an encoder that keeps every byte of its input."""
    # Special tokens are spelled out, content is matched: a typed stop is text, a thought marker is one token.
    added = [
        dict(t, special=table[t["id"]] is None, lstrip=False, rstrip=False, normalized=False)
        for t in spec.get("added_tokens") or []
    ]
    return {
        **spec,
        "added_tokens": added,
        "normalizer": None,
        "post_processor": None,
        "truncation": None,
        "padding": None,
        "pre_tokenizer": _without_prefix_space(spec.get("pre_tokenizer")),
        "model": {**spec["model"], "dropout": None},
    }


def _without_prefix_space(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: False if k == "add_prefix_space" else _without_prefix_space(v) for k, v in node.items()}
    return [_without_prefix_space(v) for v in node] if isinstance(node, list) else node


def prove(encoder: tokenizers.Tokenizer, table: list[bytes | None], name: str) -> None:
    """Check on texts of many scripts that the bytes of the ids are the bytes of the text.

    Raises:
        VocabError: They are not; the message names the first character that differs.
    """
    single = {b[0] for b in table if b is not None and len(b) == 1}
    if not single:
        raise VocabError(f"{name} has no single-byte token, so it cannot spell arbitrary bytes")
    for probe in _PROBES:
        # Vocabularies may lack rare bytes (SmolLM2 lacks 21); what they cannot spell is no proof against them.
        text = "".join(c for c in probe if single.issuperset(c.encode()))
        got = b"".join(table[i] or b"" for i in encoder.encode(text, add_special_tokens=False).ids)
        if got != text.encode():
            at = next((i for i, (x, y) in enumerate(zip(got, text.encode(), strict=False)) if x != y), len(got))
            raise VocabError(
                f"{name}: its token bytes do not add up to the text it encodes (first difference at byte {at} of "
                f"{text[:40]!r}...)"
            )
