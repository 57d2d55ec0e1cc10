"""Messages by one model's own chat template, so that nothing of them is lost in silence.

Templates are programs of their authors. They raise at roles that they do not know, leave messages out, want a text as
a list of parts or the arguments of a call as JSON text. Each rendering is therefore made twice: once as it is, once
with a mark behind every text. Where a mark is missing, a message was left out; what comes after the last one is the
template's own.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any
from weakref import WeakKeyDictionary

from .errors import ConfigError, first_line
from .families import describe
from .families.stops import parts
from .families.thoughts import trailing

Message = dict[str, Any]

logger = logging.getLogger(__name__)
_told: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
_SYSTEM = ("system", "developer")
_PLAIN = "the plain text"  # and writes out a list instead: this template does not want parts
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Keys under which datasets hold the thought of an answer."""


def render_messages(
    hf_tokenizer: Any,
    messages: list[Message],
    template_kwargs: dict[str, Any] | None = None,
    tools: list[dict[str, Any]] | str | None = None,
) -> tuple[str, str]:
    """A conversation up to where the assistant's turn starts, and what the template puts into that turn.

    A system text that the template rejects or drops is put in front of the next user turn, which is logged once for
    each tokenizer.

    Args:
        hf_tokenizer: The model's own tokenizer.
        messages: The conversation; the last message is not the assistant's.
        template_kwargs: For the template, e.g. `{"enable_thinking": False}`.
        tools: Definitions of tools, or JSON text of them.

    Returns:
        The text, and the thought markers that follow it (`<think>\\n`), "" for most templates.

    Raises:
        ConfigError: The template rejects the messages or leaves some of them out whatever is tried, or there is no
            template.
    """
    if not messages or messages[-1].get("role") == "assistant":
        raise ConfigError("a prompt of messages must end with a message to answer, not with the assistant's")
    text, probe = _render(hf_tokenizer, messages, template_kwargs, tools, add_generation_prompt=True)
    prefill = trailing(probe.rpartition(_mark(len(messages) - 1))[2])
    if not text.endswith(prefill):  # the mark itself has changed what the template writes
        prefill = trailing(text)
    return text[: len(text) - len(prefill)], prefill


def render_answer(
    hf_tokenizer: Any,
    prompt: list[Message],
    answer: Message,
    template_kwargs: dict[str, Any] | None = None,
    tools: list[dict[str, Any]] | str | None = None,
) -> str:
    """How a template writes an answer behind a prompt, thoughts and tool calls included, up to the end of all.

    Raises:
        ConfigError: As for `render_messages`, or it does not keep the prompt or the thought.
    """
    before, _ = render_messages(hf_tokenizer, prompt, template_kwargs, tools)
    text, _ = _render(hf_tokenizer, [*prompt, answer], template_kwargs, tools, add_generation_prompt=False)
    thought = next((answer[key] for key in THOUGHTS if answer.get(key)), "")
    if not text.startswith(before) or thought.strip() not in text[len(before) :]:
        raise ConfigError(
            f"the chat template of {describe(hf_tokenizer)} does not write thoughts or tool calls of an answer behind "
            "its prompt; give the answer as plain content"
        )
    return text[len(before) :]


def _render(
    hf_tokenizer: Any, messages: list[Message], template_kwargs: dict[str, Any] | None, tools: Any, **options: bool
) -> tuple[str, str]:
    """The text of a conversation, and the same with a mark behind the text of every message."""
    if not getattr(hf_tokenizer, "chat_template", None):
        raise ConfigError(
            f"{describe(hf_tokenizer)} has no chat template, but the prompts are messages; give prompts as plain "
            "text, or set the tokenizer's chat_template"
        )
    messages, tools = [_clean(m) for m in messages], _tools(tools)
    last = _mark(len(messages) - 1)

    marked_tools = [_with_function(t, _named(_tool_mark(i))) for i, t in enumerate(tools or [])] or None

    def render(some: list[Message], tools: Any) -> str:
        return hf_tokenizer.apply_chat_template(
            some, tools=tools, tokenize=False, **options, **(template_kwargs or {})
        )

    problems: list[tuple[tuple[int, bool], str]] = []
    for changed, note in _ways(messages):
        marks = [*(_mark(i) for i in range(len(changed) - 1)), last]
        try:
            text = render(changed, tools)
            probe = render([_marked(m, k) for m, k in zip(changed, marks, strict=True)], marked_tools)
        except Exception as error:  # a template raises what it likes
            # What the author says by intent tells more than what a form that he did not think of runs into.
            weight = 2 if type(error).__name__ == "TemplateError" else 0
            problems.append(((weight, _is_text(changed)), f"rejects {_roles(messages)}: {first_line(error)}"))
            continue
        if missing := _missing(changed, marks, len(tools or []), text, probe):
            problems.append(((int(missing != _PLAIN), True), f"leaves out {missing} of {_roles(messages)}"))
            continue
        if any(mark not in probe and _text(m) for m, mark in zip(changed, marks, strict=True)):
            note = "leaves out the text of messages that call tools"
        if note:
            _tell(hf_tokenizer, note)
        return text, probe
    problem = max(reversed(problems), key=itemgetter(0))[1]
    raise ConfigError(f"the chat template of {describe(hf_tokenizer)} {problem}; {_mend(messages, tools)}")


def _ways(messages: list[Message]) -> Iterator[tuple[list[Message], str]]:
    """The messages as they are, then in every other form that a template may want, with what to tell the user."""
    systems = [(messages, "")]
    if any(m.get("role") in _SYSTEM for m in messages):
        note = "does not take {} system text; it is put in front of the next user turn"
        if any(m.get("role") == "developer" for m in messages):
            renamed = [dict(m, role="system") if m.get("role") == "developer" else m for m in messages]
            systems.append((renamed, ""))
        for keep, which in ((1, "a later"), (0, "a")):
            folded = _folded(messages, keep)
            if folded is not None and folded not in [s for s, _ in systems]:
                systems.append((folded, note.format(which)))
    calls: list[Callable[[Message], Message]] = [dict]
    if any(m.get("tool_calls") for m in messages):
        calls = [dict, _without_text, _json_arguments, lambda m: _json_arguments(_without_text(m))]
    for wrap, (some, note), call in itertools.product((dict, _in_parts), systems, calls):
        yield [wrap(call(m)) for m in some], note


def _folded(messages: list[Message], keep: int) -> list[Message] | None:
    """Every system text but `keep` leading ones in front of the next user turn; None if there is no such turn."""
    out: list[Message] = list(messages[:keep])
    held: list[str] = []
    for message in messages[keep:]:
        if message.get("role") in _SYSTEM:
            held.append(_text(message))
            continue
        if held and message.get("role") == "user":
            message = dict(message, content="\n\n".join([*filter(None, held), _text(message)]))
            held = []
        out.append(message)
    return None if held else out


def _json_arguments(message: Message) -> Message:
    """Arguments of calls as JSON text."""
    return _with_arguments(message, lambda a: a if isinstance(a, str) else json.dumps(a, ensure_ascii=False))


def _with_arguments(message: Message, change: Callable[[Any], Any]) -> Message:
    return _with_calls(message, lambda f: dict(f, arguments=change(f["arguments"])) if "arguments" in f else f)


def _with_calls(message: Message, change: Callable[[Message], Message]) -> Message:
    calls = message.get("tool_calls")
    return dict(message, tool_calls=[_with_function(call, change) for call in calls]) if calls else message


def _with_function(entry: Message, change: Callable[[Message], Message]) -> Message:
    """A call or the definition of a tool with its function changed, which may lie inside it or be all of it."""
    inner = entry.get("function")
    return dict(entry, function=change(inner)) if isinstance(inner, dict) else change(entry)


def _named(mark: str) -> Callable[[Message], Message]:
    return lambda function: dict(function, name=f"{function.get('name')}{mark}")


def _without_text(message: Message) -> Message:
    """A message that only calls tools, without content instead of with none."""
    if not message.get("tool_calls") or _text(message):
        return message
    return {key: value for key, value in message.items() if key != "content"}


def _in_parts(message: Message) -> Message:
    return dict(message, content=parts(message["content"])) if isinstance(message.get("content"), str) else message


def _clean(message: Message) -> Message:
    """A message without the None that a dataset fills keys with, arguments of calls as a dictionary."""
    found = _with_arguments(_filled(message), _parsed)
    return dict(found, content="") if "content" not in found else found


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _filled(v) for k, v in value.items() if v is not None}
    return [_filled(v) for v in value] if isinstance(value, list) else value


def _parsed(arguments: Any) -> Any:
    try:
        found = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
    return found if isinstance(found, dict) else arguments


def _tools(tools: Any) -> list[dict[str, Any]] | None:
    """Definitions of tools as templates take them, None instead of an empty list."""
    try:
        found = json.loads(tools) if isinstance(tools, str) and tools else tools
    except ValueError as error:
        raise ConfigError(f"tools are no JSON: {first_line(error)}") from error
    if found and not (isinstance(found, list) and all(isinstance(t, dict) for t in found)):
        raise ConfigError(f"tools must be a list of definitions, not {str(tools)[:80]}")
    return _filled(found) or None


def _is_text(messages: list[Message]) -> bool:
    return not isinstance(messages[0].get("content"), list)


def _text(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(p.get("text", "") for p in content)


def _mark(number: int) -> str:
    return f"escd{number}mark"


def _call_mark(mark: str) -> str:
    return mark.replace("mark", "call")


def _tool_mark(number: int) -> str:
    return f"escd{number}tool"


def _marked(message: Message, mark: str) -> Message:
    """The message with a mark behind its text and behind the names of the tools that it calls."""
    message = _with_calls(message, _named(_call_mark(mark)))
    content = message.get("content")
    if not content and message.get("tool_calls"):
        return message
    if isinstance(content, list):
        return dict(message, content=parts(_text(message) + mark))
    return dict(message, content=f"{content}{mark}")


def _missing(messages: list[Message], marks: list[str], tools: int, text: str, probe: str) -> str:
    """What of a conversation its rendering does not show, "" if nothing is missing."""
    for message, mark in zip(messages, marks, strict=True):
        calls = message.get("tool_calls") or []
        if probe.count(_call_mark(mark)) < len(calls):
            return "the tool calls"
        arguments = [call.get("function", call).get("arguments") for call in calls]
        if any(isinstance(a, dict) and a and str(a) in text for a in arguments):
            return "the JSON of tool calls"
        if not calls and mark not in probe and _text(message):
            return f"the text of the {message.get('role')} message"
    if not _is_text(messages) and str(parts("")[0])[:8] in text:
        return _PLAIN
    if any(_tool_mark(i) not in probe for i in range(tools)):
        return "the tool definitions"
    return ""


def _roles(messages: list[Message]) -> str:
    return f"a prompt with roles {[m.get('role') for m in messages]}"


def _mend(messages: list[Message], tools: Any) -> str:
    roles = [m.get("role") for m in messages]
    spoken = [r for r in roles if r not in _SYSTEM]
    if tools or "tool" in roles or any(m.get("tool_calls") for m in messages):
        return "set a chat_template that knows tools, or leave out tools and tool messages"
    if any(a == b for a, b in itertools.pairwise(spoken)):
        return "merge neighbouring messages of one role"
    if spoken[:1] != ["user"]:
        return "let the conversation begin with a user message"
    return "change the prompts, or set the tokenizer's chat_template"


def _tell(hf_tokenizer: Any, note: str) -> None:
    told = _told.setdefault(hf_tokenizer, set())
    if note not in told:
        told.add(note)
        logger.warning("the chat template of %s %s", describe(hf_tokenizer), note)
