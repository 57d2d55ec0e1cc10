"""Tokenizer families: how each kind spells bytes. One module per family behind `read`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import tokenizers

from ..errors import VocabError
from . import bytelevel, ranks, sentencepiece
from .pieces import Spec, steps
from .proof import prove
from .stops import configured_eos, stop_ids, template_tokens
from .thoughts import is_thought

__all__ = ["Spelling", "configured_eos", "describe", "read", "stop_ids"]

_FAMILIES: tuple[ModuleType, ...] = (bytelevel, sentencepiece)


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
        aliases: Ids whose bytes the tokenizer spells by another id.
    """

    token_bytes: list[bytes | None]
    stop_ids: list[int]
    preferred_stop: int | None
    encoder: tokenizers.Tokenizer
    special_tokens: dict[int, str]
    aliases: list[int]


def read(hf_tokenizer: Any, generation_config: Any = None) -> Spelling:
    """Read a tokenizer and prove that its token bytes round-trip.

    The family is the one that the tokenizer's steps suggest, if its vocabulary proves it, else any that it proves.

    Raises:
        VocabError: No family reads this tokenizer, or its bytes do not round-trip.
    """
    name = describe(hf_tokenizer)
    spec = json.loads(_backend(hf_tokenizer).to_str())
    _refuse_open_spelling(spec, name)
    stops, preferred = stop_ids(hf_tokenizer, generation_config)
    hidden = _hidden(hf_tokenizer)
    first_error: VocabError | None = None
    for family in sorted(_FAMILIES, key=lambda family: not family.suggested(spec)):
        table = family.token_bytes(spec)
        for token_id in hidden:
            if not is_thought((table[token_id] or b"").decode(errors="replace")):
                table[token_id] = None
        for stop in stops:
            if stop >= len(table):
                raise VocabError(f"{name}: stop id {stop} is none of its {len(table)} token ids")
            table[stop] = None
        encoder = tokenizers.Tokenizer.from_str(json.dumps(family.exact_spec(spec, table)))
        encoder.encode_special_tokens = True
        try:
            prove(encoder, table, name)
        except VocabError as error:
            first_error = first_error or error
            continue
        special = {t["id"]: t["content"] for t in spec.get("added_tokens") or [] if table[t["id"]] is None}
        return Spelling(table, stops, preferred, encoder, special, _aliases(encoder, table))
    assert first_error is not None
    raise first_error


def describe(hf_tokenizer: Any) -> str:
    """How an error names this tokenizer: its path or hub id where it has one."""
    name = getattr(hf_tokenizer, "name_or_path", "") or type(hf_tokenizer).__name__
    return f"tokenizer {name!r}"


def _backend(hf_tokenizer: Any) -> tokenizers.Tokenizer:
    found = hf_tokenizer if isinstance(hf_tokenizer, tokenizers.Tokenizer) else None
    found = found or getattr(hf_tokenizer, "backend_tokenizer", None)
    if isinstance(found, tokenizers.Tokenizer):
        return found
    # Tokenizers that come as code of their authors (Kimi, the first Qwen) hold a tiktoken encoding.
    holders = (hf_tokenizer, *(getattr(hf_tokenizer, name, None) for name in ("model", "tokenizer")))
    encoding = next((each for each in holders if ranks.is_encoding(each)), None)
    if encoding is None:
        raise VocabError(
            f"{describe(hf_tokenizer)} is not a fast tokenizer; load it with AutoTokenizer.from_pretrained(..., "
            "use_fast=True), or convert it to a tokenizer.json"
        )
    return ranks.from_encoding(encoding)


def _refuse_open_spelling(spec: Spec, name: str) -> None:
    """Raise for vocabularies in which the bytes of a token depend on its neighbours."""
    model = spec["model"]
    mark = model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")
    decoders = [step["type"] for step in steps(spec.get("decoder"))]
    if mark or any(kind in ("WordPiece", "BPEDecoder", "CTC") for kind in decoders):
        told = f"marks parts of words with {mark!r}" if mark else f"is decoded by {decoders[0]}"
        raise VocabError(
            f"{name} is a {model.get('type')} tokenizer that {told}: spaces and line ends lie between its tokens and "
            "get lost, so its tokens have no bytes of their own; take a model with a byte-level or SentencePiece "
            "tokenizer"
        )


def _hidden(hf_tokenizer: Any) -> set[int]:
    """Added tokens that are no content although they may not be flagged special."""
    added = getattr(hf_tokenizer, "added_tokens_decoder", {})
    return {i for i in getattr(hf_tokenizer, "all_special_ids", []) if i in added} | template_tokens(hf_tokenizer)


def _aliases(encoder: tokenizers.Tokenizer, table: list[bytes | None]) -> list[int]:
    """Of tokens with equal bytes (a letter and its byte token, say) those that the tokenizer does not produce."""
    same: dict[bytes, list[int]] = {}
    for i, data in enumerate(table):
        if data:
            same.setdefault(data, []).append(i)
    found: list[int] = []
    for data, ids in same.items():
        if len(ids) > 1:
            produced = encoder.encode(data.decode(errors="replace"), add_special_tokens=False).ids
            kept = produced[0] if len(produced) == 1 and produced[0] in ids else ids[0]
            found += [i for i in ids if i != kept]
    return found
