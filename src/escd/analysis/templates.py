"""What a chat template does, found out by rendering small conversations with it."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import Any

from ..families.thoughts import is_thought

_USER, _ANSWER, _SYSTEM, _TOOL = "escduser", "escdanswer", "escdsystem", "escdtool"
_MARKED = re.compile(r"<\|?/?\w+\|?>|\[/?\w+\]|◁/?\w+▷")
_CALL: dict[str, Any] = {
    "type": "function",
    "id": "call00001",
    "function": {"name": "look", "arguments": {"at": "sky"}},
}
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

    def rendered(*turns: dict[str, Any], wanted: str, ask: bool = True, **more: Any) -> str | None:
        """The first rendering that shows the wanted text, of the forms of messages that templates ask for."""
        found = None
        for text, call in itertools.product((str, _parts), (dict, _json_arguments)):
            messages = [dict(call(turn), content=text(turn["content"])) for turn in turns]
            try:
                found = hf_tokenizer.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=ask, **more, **(template_kwargs or {})
                )
            except Exception:  # a template is a program of its author and raises what it likes
                continue
            if wanted in found:
                break
        return found

    system, user, answer = (
        {"role": role, "content": text}
        for role, text in (("system", _SYSTEM), ("user", _USER), ("assistant", _ANSWER))
    )
    call = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
    result = {"role": "tool", "content": _TOOL, "name": "look", "tool_call_id": _CALL["id"]}
    plain = rendered(user, wanted=_USER)
    starts = _after(plain, _USER)
    return TemplateFacts(
        plain=_outcome(plain, _USER),
        system=_outcome(rendered(system, user, wanted=_SYSTEM), _SYSTEM),
        tools=_outcome(rendered(user, call, result, wanted=_TOOL, tools=[_LOOK]), _TOOL),
        response_starts=starts,
        thought=_thought(starts),
        turn_ends=_after(rendered(user, answer, wanted=_ANSWER, ask=False), _ANSWER),
    )


def _parts(text: str) -> list[dict[str, str]]:
    """A text as multimodal templates want it."""
    return [{"type": "text", "text": text}]


def _json_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """A message with the arguments of its call as JSON text."""
    if "tool_calls" not in message:
        return message
    function = dict(_CALL["function"], arguments=json.dumps(_CALL["function"]["arguments"]))
    return dict(message, tool_calls=[dict(_CALL, function=function)])


def _outcome(text: str | None, wanted: str) -> str:
    return "rejected" if text is None else "yes" if wanted in text else "ignored"


def _after(text: str | None, mark: str) -> str:
    return (text or "").rpartition(mark)[2] if mark in (text or "") else ""


def _thought(text: str) -> str:
    markers = [m for m in _MARKED.findall(text) if is_thought(m)]
    if not markers:
        return "no"
    return "closed" if "/" in markers[-1] or "end_of" in markers[-1] else "open"
