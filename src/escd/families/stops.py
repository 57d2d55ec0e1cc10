"""Which ids end a response (paper A.2), and which tokens only a chat template writes."""

from __future__ import annotations

from typing import Any

_FIRST, _SECOND = "escdfirst", "escdsecond"


def stop_ids(hf_tokenizer: Any, generation_config: Any = None) -> tuple[list[int], int | None]:
    """The stop ids of a model and the one it is expected to produce.

    EOS of the tokenizer, every EOS of the generation config, and the token that the chat template puts after an
    assistant turn. That last one is preferred, else the tokenizer's EOS, else the generation config's first.
    """
    turn_end = end_of_turn(hf_tokenizer)
    eos = getattr(hf_tokenizer, "eos_token_id", None)
    found = [int(i) for i in (turn_end, eos, *configured_eos(generation_config)) if i is not None]
    unique = list(dict.fromkeys(found))
    return unique, (unique[0] if unique else None)


def configured_eos(generation_config: Any) -> list[int]:
    """Every EOS id of a generation config, which holds none, one or a list."""
    configured = getattr(generation_config, "eos_token_id", None)
    if configured is None:
        return []
    return list(configured) if isinstance(configured, (list, tuple)) else [configured]


def end_of_turn(hf_tokenizer: Any) -> int | None:
    """Id of the added token that the chat template writes right after an assistant's text, if it writes one.

    In some templates (GLM) the marker of the next turn is what ends this one, so a user turn follows.
    """
    text = _rendered(hf_tokenizer)
    if text is None:
        return None
    after = text.partition(_FIRST)[2].partition(_SECOND)[0]
    for token_id in hf_tokenizer(after.lstrip(), add_special_tokens=False)["input_ids"][:1]:
        if token_id in hf_tokenizer.added_tokens_decoder:
            return int(token_id)
    return None


def template_tokens(hf_tokenizer: Any) -> set[int]:
    """Ids of the added tokens that a chat template writes around turns, flagged special or not."""
    text = _rendered(hf_tokenizer)
    if text is None:
        return set()
    ids = hf_tokenizer(text, add_special_tokens=False)["input_ids"]
    return {int(i) for i in ids if i in hf_tokenizer.added_tokens_decoder}


def _rendered(hf_tokenizer: Any) -> str | None:
    """A rendered conversation: user, assistant (`_FIRST`), user (`_SECOND`), and the start of a response."""
    if not getattr(hf_tokenizer, "chat_template", None):
        return None
    turns = [("user", "hello"), ("assistant", _FIRST), ("user", _SECOND)]
    messages = [{"role": role, "content": content} for role, content in turns]
    try:
        text = hf_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception:  # templates are programs of their authors; one that rejects plain turns has no answer here
        return None
    return text if _FIRST in text and _SECOND in text else None
