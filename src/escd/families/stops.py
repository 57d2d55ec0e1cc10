"""Which ids end a response (paper A.2), and which tokens only a chat template writes."""

from __future__ import annotations

from typing import Any

from .thoughts import is_thought

_ANSWER, _NEXT = "escdfirst", "escdsecond"
_TURNS = (("user", "hello"), ("assistant", _ANSWER), ("user", _NEXT))


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
    for text in filter(None, (_rendered(hf_tokenizer, 2), _rendered(hf_tokenizer))):
        after = text.partition(_ANSWER)[2].partition(_NEXT)[0]
        for token_id in hf_tokenizer(after.lstrip(), add_special_tokens=False)["input_ids"][:1]:
            if token_id in hf_tokenizer.added_tokens_decoder:
                return int(token_id)
    return None


def template_tokens(hf_tokenizer: Any) -> set[int]:
    """Ids of the added tokens that a chat template writes around turns, flagged special or not.

    Whitespace is no marker: Gemma has line ends and runs of `▁` as added tokens.
    """
    text = _rendered(hf_tokenizer)
    if text is None:
        return set()
    added = hf_tokenizer.added_tokens_decoder
    ids = set(hf_tokenizer(text, add_special_tokens=False)["input_ids"]) & added.keys()
    return {int(i) for i in ids if str(added[i]).strip(" \t\r\n▁")}


def answer_opening(hf_tokenizer: Any, template_kwargs: dict[str, Any] | None = None) -> str:
    """What a template writes before an answer beyond where it asks for one, if that ends in a control token.

    gpt-oss asks with `<|start|>assistant` and writes the channel (`<|channel|>final<|message|>`) itself before it
    answers. A model that only scores an answer must find that channel open. "" for nearly all templates.
    """
    asked = _rendered(hf_tokenizer, 1, template_kwargs)
    answered = _rendered(hf_tokenizer, 2, template_kwargs)
    if not asked or not answered or not answered.startswith(asked):
        return ""
    opening = answered[len(asked) :].partition(_ANSWER)[0]
    last = hf_tokenizer(opening, add_special_tokens=False)["input_ids"][-1:]
    token = hf_tokenizer.added_tokens_decoder.get(last[0]) if last else None
    return opening if token is not None and not is_thought(token.content) else ""


def _rendered(hf_tokenizer: Any, turns: int = 3, template_kwargs: dict[str, Any] | None = None) -> str | None:
    """A rendered conversation of a question, its answer (`_ANSWER`) and another question (`_NEXT`), cut to `turns`.

    Behind a question follows the start of a response. None if there is no template, or if it does not show the turns.
    """
    if not getattr(hf_tokenizer, "chat_template", None):
        return None
    for wrap in (str, parts):
        messages = [{"role": role, "content": wrap(content)} for role, content in _TURNS[:turns]]
        try:
            text = hf_tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=turns % 2 == 1, **(template_kwargs or {})
            )
        except Exception:  # templates are programs of their authors; one that rejects plain turns has no answer here
            continue
        if all(content in text for _, content in _TURNS[:turns]):
            return text
    return None


def parts(text: str) -> list[dict[str, str]]:
    """A message's text as templates of models that see images want it."""
    return [{"type": "text", "text": text}]
