"""Tokenizer families: how each kind spells bytes. One module per family behind `read`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tokenizers

from ..errors import VocabError
from . import bytelevel
from .stops import configured_eos, stop_ids, template_tokens
from .thoughts import is_thought

__all__ = ["Spelling", "configured_eos", "describe", "read", "stop_ids"]

_FAMILIES: tuple[ModuleType, ...] = (bytelevel,)


@dataclass(frozen=True)
class Spelling:
    """What a tokenizer says of its tokens.

    Attributes:
        token_bytes: Bytes of each id, `None` for what is not content.
        stop_ids: Ids that end a response.
        preferred_stop: The one that the model is expected to produce.
        encoder: A copy of the tokenizer that encodes text as it stands: no normaliser, no added space, no truncation,
            special tokens spelled out instead of matched.
        special_tokens: Spelling of the tokens that are not content.
    """

    token_bytes: list[bytes | None]
    stop_ids: list[int]
    preferred_stop: int | None
    encoder: tokenizers.Tokenizer
    special_tokens: dict[int, str]


def read(hf_tokenizer: Any, generation_config: Any = None) -> Spelling:
    """Read a tokenizer and prove that its token bytes round-trip.

    Raises:
        VocabError: No family reads this tokenizer, or its bytes do not round-trip.
    """
    name = describe(hf_tokenizer)
    spec, family = _family(hf_tokenizer)
    stops, preferred = stop_ids(hf_tokenizer, generation_config)
    table = family.token_bytes(spec)
    # Some tokenizers do not flag what only a template writes as special.
    hidden = {i for i in getattr(hf_tokenizer, "all_special_ids", []) if i in hf_tokenizer.added_tokens_decoder}
    for token_id in hidden | template_tokens(hf_tokenizer):
        if not is_thought((table[token_id] or b"").decode()):
            table[token_id] = None
    for stop in stops:
        if stop >= len(table):
            raise VocabError(f"{name}: stop id {stop} is none of its {len(table)} token ids")
        table[stop] = None
    encoder = tokenizers.Tokenizer.from_str(json.dumps(family.exact_spec(spec, table)))
    encoder.encode_special_tokens = True
    family.prove(encoder, table, name)
    special = {t["id"]: t["content"] for t in spec.get("added_tokens") or [] if table[t["id"]] is None}
    return Spelling(table, stops, preferred, encoder, special)


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
