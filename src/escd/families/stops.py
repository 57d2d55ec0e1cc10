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
    found = [*configured_eos(hf_tokenizer), *configured_eos(generation_config)]
    unique = list(dict.fromkeys(found if turn_end is None else [turn_end, *found]))
    return unique, (unique[0] if unique else None)


def configured_eos(holder: Any) -> list[int]:
    """Every EOS id of a generation config or a tokenizer, which hold none, one or a list."""
    configured = getattr(holder, "eos_token_id", None)
    if configured is None:
        return []
    return [int(i) for i in configured] if isinstance(configured, (list, tuple)) else [int(configured)]


def end_of_turn(hf_tokenizer: Any) -> int | None:
    """Id of the added token that the chat template writes right after an assistant's text, if it writes one.

    The last turn of a conversation tells it: in gpt-oss an earlier turn ends with another token, which does not end a
    response. In some templates (GLM) nothing ends the last turn and the marker of the next one does, so then a user
    turn follows.
    """
    last, followed = _rendered(hf_tokenizer, answered=True), _rendered(hf_tokenizer)
    for text in filter(None, (last, followed)):
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


def _rendered(hf_tokenizer: Any, answered: bool = False) -> str | None:
    """A rendered conversation that ends with an answer (`_FIRST`), or goes on with a user turn (`_SECOND`) and the
    start of a response. None if there is no template, or if it does not show such turns."""
    if not getattr(hf_tokenizer, "chat_template", None):
        return None
    turns = [("user", "hello"), ("assistant", _FIRST), ("user", _SECOND)][: 2 if answered else 3]
    for wrap in (str, parts):
        messages = [{"role": role, "content": wrap(content)} for role, content in turns]
        try:
            text = hf_tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=not answered)
        except Exception:  # templates are programs of their authors; one that rejects plain turns has no answer here
            continue
        if _FIRST in text and (answered or _SECOND in text):
            return text
    return None


def parts(text: str) -> list[dict[str, str]]:
    """A message's text as templates of models that see images want it."""
    return [{"type": "text", "text": text}]
