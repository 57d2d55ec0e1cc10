"""What a chat template does, found out by rendering small conversations with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..families.thoughts import is_thought

_USER, _ANSWER, _SYSTEM, _TOOL = "escduser", "escdanswer", "escdsystem", "escdtool"
_MARKED = re.compile(r"<\|?/?\w+\|?>|\[/?\w+\]|◁/?\w+▷")
_CALL = {"type": "function", "id": "call00001", "function": {"name": "look", "arguments": {"at": "sky"}}}
_PARAMETERS = {"type": "object", "properties": {"at": {"type": "string", "description": "What."}}, "required": ["at"]}
_LOOK = {
    "type": "function",
    "function": {"name": "look", "description": "Look at something.", "parameters": _PARAMETERS},
}


@dataclass(frozen=True)
class TemplateFacts:
    """What a model's chat template does.

    Attributes:
        plain: What becomes of a user's turn: `yes` it is written, `ignored`, or `rejected` by an exception.
        system: The same for a system message before it.
        tools: The same for a tool's result after an assistant's call.
        response_starts: What stands between a user's text and the response.
        thought: Whether that opens a thought: `no`, `open` (`<think>`), or `closed` (an empty thought).
        turn_ends: What stands after an assistant's text at the end of a conversation.
    """

    plain: str
    system: str
    tools: str
    response_starts: str
    thought: str
    turn_ends: str


def template_facts(hf_tokenizer: Any, template_kwargs: dict[str, Any] | None = None) -> TemplateFacts | None:
    """Try the chat template of a tokenizer; None if it has none.

    Args:
        hf_tokenizer: The model's own tokenizer.
        template_kwargs: Passed on to the template, e.g. `enable_thinking`.
    """
    if not getattr(hf_tokenizer, "chat_template", None):
        return None

    def rendered(*turns: dict[str, Any], ask: bool = True, **more: Any) -> str | None:
        try:
            return hf_tokenizer.apply_chat_template(
                list(turns), tokenize=False, add_generation_prompt=ask, **more, **(template_kwargs or {})
            )
        except Exception:  # a template is a program of its author and raises what it likes
            return None

    user, answer = {"role": "user", "content": _USER}, {"role": "assistant", "content": _ANSWER}
    call = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
    result = {"role": "tool", "content": _TOOL, "name": "look", "tool_call_id": _CALL["id"]}
    plain = rendered(user)
    starts = _after(plain, _USER)
    return TemplateFacts(
        plain=_outcome(plain, _USER),
        system=_outcome(rendered({"role": "system", "content": _SYSTEM}, user), _SYSTEM),
        tools=_outcome(rendered(user, call, result, tools=[_LOOK]), _TOOL),
        response_starts=starts,
        thought=_thought(starts),
        turn_ends=_after(rendered(user, answer, ask=False), _ANSWER),
    )


def _outcome(text: str | None, wanted: str) -> str:
    return "rejected" if text is None else "yes" if wanted in text else "ignored"


def _after(text: str | None, mark: str) -> str:
    return (text or "").rpartition(mark)[2] if mark in (text or "") else ""


def _thought(text: str) -> str:
    markers = [m for m in _MARKED.findall(text) if is_thought(m)]
    if not markers:
        return "no"
    return "closed" if "/" in markers[-1] or "end_of" in markers[-1] else "open"
