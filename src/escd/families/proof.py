"""The proof that a vocabulary was read right: the bytes of the ids are the bytes of the text."""

from __future__ import annotations

import tokenizers

from ..errors import VocabError

_PROBES = (
    "The quick brown fox, don't!  1234567 + 89 = 1234656.\n\n\tdef f(x):\r\n    return x**2  # ok\n",
    "naïve café — “quotes” … €5 £6 ½ ² ﬁ Å Å é",
    "漢字かな交じり文。 한국어 텍스트 Русский текст عربى עברית हिन्दी ไทย",
    '👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 \u200b\u200d\ufeff \u00a0 \u2028 𝒳 \\frac{a}{b} {"k": [1, null]} <b>&amp;</b>',
    " leading and trailing   \n \n\n\n x\ty ",
)


def prove(encoder: tokenizers.Tokenizer, table: list[bytes | None], name: str) -> None:
    """Check on texts of many scripts that the bytes of the ids are the bytes of the text.

    Vocabularies may lack bytes (SmolLM2 lacks 21) or characters (those without byte fallback); what they cannot
    spell is no proof against them.

    Raises:
        VocabError: They are not; the message names the first character that differs.
    """
    known = {b for b in table if b}
    texts = ["".join(filter(lambda c: _spelled(c.encode(), known), probe)) for probe in _PROBES]
    if not any(texts):
        raise VocabError(f"{name} has no token of a single character or byte, so it cannot spell arbitrary text")
    for text in texts:
        got = b"".join(table[i] or b"" for i in encoder.encode(text, add_special_tokens=False).ids)
        if got != text.encode():
            at = next((i for i, (x, y) in enumerate(zip(got, text.encode(), strict=False)) if x != y), len(got))
            raise VocabError(
                f"{name}: its token bytes do not add up to the text it encodes (first difference at byte {at} of "
                f"{text[:40]!r}...)"
            )


def _spelled(raw: bytes, known: set[bytes]) -> bool:
    return raw in known or all(bytes([b]) in known for b in raw)
