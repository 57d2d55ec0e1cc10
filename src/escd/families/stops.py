"""Which ids end a response (paper A.2): EOS of the tokenizer, of the generation config, and of the chat template."""

from __future__ import annotations

from typing import Any

_SENTINEL = "escdsentinel"


def stop_ids(hf_tokenizer: Any, generation_config: Any = None) -> tuple[list[int], int | None]:
    """The stop ids of a model and the one it is expected to produce.

    The token that the chat template puts after an assistant turn is preferred, else the tokenizer's EOS, else the
    first EOS of the generation config.
    """
    turn_end = end_of_turn(hf_tokenizer)
    eos = getattr(hf_tokenizer, "eos_token_id", None)
    configured = getattr(generation_config, "eos_token_id", None)
    if configured is None:
        configured = []
    elif not isinstance(configured, (list, tuple)):
        configured = [configured]
    found = [int(i) for i in (turn_end, eos, *configured) if i is not None]
    unique = list(dict.fromkeys(found))
    return unique, (unique[0] if unique else None)


def end_of_turn(hf_tokenizer: Any) -> int | None:
    """Id of the special token that the chat template writes right after an assistant's text, if it writes one."""
    if not getattr(hf_tokenizer, "chat_template", None):
        return None
    turns = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": _SENTINEL}]
    try:
        text = hf_tokenizer.apply_chat_template(turns, tokenize=False)
    except Exception:  # templates are programs of their authors; one that rejects a plain turn has no answer here
        return None
    _, found, tail = text.rpartition(_SENTINEL)
    if not found:
        return None
    added = getattr(hf_tokenizer, "added_tokens_decoder", {})
    for token_id in hf_tokenizer(tail, add_special_tokens=False)["input_ids"]:
        if token_id in added and added[token_id].special:
            return int(token_id)
    return None
