"""Tokenizer families: how each kind spells bytes. One module per family behind `read` and `exact_encoder`."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import tokenizers

from ..errors import VocabError
from . import bytelevel
from .stops import stop_ids

_FAMILIES: tuple[ModuleType, ...] = (bytelevel,)


def read(hf_tokenizer: Any, generation_config: Any = None) -> tuple[list[bytes | None], list[int], int | None]:
    """Token bytes, stop ids and preferred stop of a tokenizer, proved to round-trip.

    Raises:
        VocabError: No family reads this tokenizer, or its bytes do not round-trip.
    """
    spec, family = _family(hf_tokenizer)
    stops, preferred = stop_ids(hf_tokenizer, generation_config)
    token_bytes = family.token_bytes(spec)
    for stop in stops:
        if stop >= len(token_bytes):
            raise VocabError(f"{describe(hf_tokenizer)}: stop id {stop} is none of its {len(token_bytes)} token ids")
        token_bytes[stop] = None
    family.prove(exact_encoder(hf_tokenizer, token_bytes), token_bytes, describe(hf_tokenizer))
    return token_bytes, stops, preferred


def exact_encoder(hf_tokenizer: Any, token_bytes: Any) -> tokenizers.Tokenizer:
    """A copy of the tokenizer that encodes text as it stands: no normaliser, no added space, no special token.

    Args:
        hf_tokenizer: The tokenizer.
        token_bytes: Its token bytes; an added token without bytes is spelled out instead of matched.
    """
    spec, family = _family(hf_tokenizer)
    encoder = tokenizers.Tokenizer.from_str(json.dumps(family.exact_spec(spec, token_bytes)))
    encoder.encode_special_tokens = True
    return encoder


def describe(hf_tokenizer: Any) -> str:
    """How an error names this tokenizer: its path or hub id where it has one."""
    name = getattr(hf_tokenizer, "name_or_path", "") or type(hf_tokenizer).__name__
    return f"tokenizer {name!r}"


def _family(hf_tokenizer: Any) -> tuple[dict[str, Any], ModuleType]:
    backend = hf_tokenizer if isinstance(hf_tokenizer, tokenizers.Tokenizer) else None
    backend = backend or getattr(hf_tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer):
        raise VocabError(
            f"{describe(hf_tokenizer)} is not a fast tokenizer; load it with AutoTokenizer.from_pretrained(..., "
            "use_fast=True), or convert it to a tokenizer.json"
        )
    spec = json.loads(backend.to_str())
    for family in _FAMILIES:
        if family.recognises(spec):
            return spec, family
    kind = spec["model"].get("type") or "unknown"
    decoder = (spec.get("decoder") or {}).get("type", "no decoder")
    raise VocabError(
        f"{describe(hf_tokenizer)} is a {kind} tokenizer with {decoder}; only byte-level BPE "
        "(GPT-2, Llama 3, Qwen, DeepSeek, SmolLM2 and the like) is supported so far"
    )
