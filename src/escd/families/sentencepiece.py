"""SentencePiece-like vocabularies (Llama 2, Mistral, Gemma; BPE and Unigram): `▁` is a space, `<0xHH>` a byte."""

from __future__ import annotations

import re

from . import pieces
from .pieces import Spec

NAME = "SentencePiece"
_SPACE = "▁"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Pre-tokenizers that throw whitespace away, as in T5.
_LOSSY = ("WhitespaceSplit", "Whitespace")


def suggested(spec: Spec) -> bool:
    """Whether a `tokenizer.json` says that `▁` is a space: by its decoder, or by its other steps if it has none."""
    decoders = pieces.steps(spec.get("decoder"))
    if any(_from_space(step) for step in decoders):
        return True
    before = (*pieces.steps(spec.get("normalizer")), *pieces.steps(spec.get("pre_tokenizer")))
    telling = [step for step in decoders if step["type"] not in ("ByteFallback", "Fuse", "Strip")]
    return not telling and any(_to_space(step) for step in before)


def token_bytes(spec: Spec) -> list[bytes | None]:
    """See `pieces.table`. A piece like `<0x0A>` is a byte only if the model or the decoder says so."""
    fallback = spec["model"].get("byte_fallback") or any(
        step["type"] == "ByteFallback" for step in pieces.steps(spec.get("decoder"))
    )

    def spelled(text: str) -> bytes:
        byte = _BYTE.fullmatch(text) if fallback else None
        return bytes.fromhex(byte[1]) if byte else text.replace(_SPACE, " ").encode()

    # Gemma lists runs of `▁` as added tokens: they are spaces too.
    return pieces.table(spec, spelled, spelled)


def exact_spec(spec: Spec, table: list[bytes | None]) -> Spec:
    """See `pieces.exact_spec`. What turns spaces into `▁` stays; what puts one before the text goes."""
    kept = [step for step in pieces.steps(spec.get("normalizer")) if _to_space(step)]
    splits = [
        {**step, "prepend_scheme": "never", "add_prefix_space": False} if step["type"] == "Metaspace" else step
        for step in pieces.steps(spec.get("pre_tokenizer"))
        if step["type"] not in _LOSSY
    ]
    if not any(_to_space(step) for step in (*kept, *splits)):
        kept = [{"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}]
    return pieces.exact_spec(spec, table, kept, splits)


def _to_space(step: Spec) -> bool:
    replaced = step["type"] == "Replace" and step["content"] == _SPACE and step["pattern"].get("String") == " "
    return replaced or step["type"] == "Metaspace"


def _from_space(step: Spec) -> bool:
    replaced = step["type"] == "Replace" and step["content"] == " " and step["pattern"].get("String") == _SPACE
    return replaced or step["type"] == "Metaspace"
