"""What all kinds of `tokenizer.json` have in common: a vocabulary of strings, added tokens, chains of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .thoughts import is_thought

Spec = dict[str, Any]


def steps(node: Spec | None) -> list[Spec]:
    """A normaliser, pre-tokenizer or decoder as a flat list, whether it is none, one or nested sequences."""
    if not node:
        return []
    inner = next((node[k] for k in ("normalizers", "pretokenizers", "decoders") if k in node), None)
    return [node] if inner is None else [step for each in inner for step in steps(each)]


def chain(found: list[Spec], key: str) -> Spec | None:
    """The inverse of `steps`; `key` is what a sequence calls its list."""
    return found[0] if len(found) == 1 else {"type": "Sequence", key: found} if found else None


def vocabulary(spec: Spec) -> dict[str, int]:
    """Token strings and their ids: a dictionary in most models, a list of scored pieces in Unigram."""
    vocab = spec["model"]["vocab"]
    return vocab if isinstance(vocab, dict) else {piece: i for i, (piece, _) in enumerate(vocab)}


def table(
    spec: Spec, spelled: Callable[[str], bytes], added_spelled: Callable[[str], bytes] = str.encode
) -> list[bytes | None]:
    """Bytes of each id; `None` for special tokens, for the unknown token and for ids that no token has.

    Args:
        spec: The `tokenizer.json`.
        spelled: The bytes that a token string of the model stands for.
        added_spelled: The same of an added token, which usually stands for its own characters.
    """
    known = vocabulary(spec)
    added = spec.get("added_tokens") or []
    size = 1 + max(max(known.values(), default=-1), max((t["id"] for t in added), default=-1))
    found: list[bytes | None] = [None] * size
    for text, token_id in known.items():
        found[token_id] = spelled(text)
    for token in added:
        hidden = token["special"] and not is_thought(token["content"])
        found[token["id"]] = None if hidden else added_spelled(token["content"])
    model = spec["model"]
    unknown = known.get(model.get("unk_token"), model.get("unk_id"))
    if unknown is not None:
        found[unknown] = None
    return found


def exact_spec(spec: Spec, found: list[bytes | None], normalizers: list[Spec], pre_tokenizers: list[Spec]) -> Spec:
    """The `tokenizer.json` of an encoder that keeps its input: only the given steps, nothing added or cut off.

    Special tokens are spelled out, content is matched: a typed stop is text, a thought marker is one token.
    """
    added = [
        dict(t, special=found[t["id"]] is None, lstrip=False, rstrip=False) for t in spec.get("added_tokens") or []
    ]
    return {
        **spec,
        "added_tokens": added,
        "normalizer": chain(normalizers, "normalizers"),
        "pre_tokenizer": chain(pre_tokenizers, "pretokenizers"),
        "post_processor": None,
        "truncation": None,
        "padding": None,
        "model": {**spec["model"], "dropout": None},
    }
