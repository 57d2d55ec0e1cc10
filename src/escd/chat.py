"""One conversation as two models see it: each by its own chat template, the response by its exact bytes (paper A.2).

Template tokens are never translated. The bytes of the response are what both models share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError, VocabError
from .families import configured_eos, describe
from .templating import Message, render_messages
from .vocab import ByteVocab

Prompt = str | list[Message]


@dataclass(frozen=True)
class Rendered:
    """A prompt as one model's template writes it, before its ids.

    Attributes:
        hf_tokenizer: The model's own tokenizer.
        text: The prompt up to where the assistant's turn starts.
        prefill: What the template puts into that turn: thought markers (`<think>\\n` in DeepSeek R1, an empty thought
            in Qwen3 with `enable_thinking=False`), "" for most.
        templated: Whether a template wrote it; plain text gets what the tokenizer puts before text.
    """

    hf_tokenizer: Any
    text: str
    prefill: str = ""
    templated: bool = True

    def ids(self, prefill: str | None = None) -> list[int]:
        """Ids up to where the response starts.

        Args:
            prefill: What the model that writes the response finds at its start, in place of this template's own. It
                belongs to the conversation that the other model must see.

        Raises:
            ConfigError: There is not one token.
        """
        text = self.text + (self.prefill if prefill is None else prefill)
        found = self.hf_tokenizer(text, add_special_tokens=False)["input_ids"] if self.templated else None
        ids = _plain(self.hf_tokenizer, text) if found is None else list(found)
        if not ids:
            raise ConfigError(f"{describe(self.hf_tokenizer)} renders the prompt {text!r} to no tokens at all")
        return ids


def render(
    hf_tokenizer: Any,
    prompt: Prompt,
    template_kwargs: dict[str, Any] | None = None,
    tools: list[dict[str, Any]] | str | None = None,
) -> Rendered:
    """A prompt by the model's own template.

    Args:
        hf_tokenizer: The model's own tokenizer.
        prompt: Plain text, or messages for the model's own chat template.
        template_kwargs: Passed on to `apply_chat_template`, e.g. `enable_thinking`.
        tools: Definitions of tools for the template, or JSON text of them.

    Raises:
        ConfigError: Messages for a tokenizer without a chat template, or a template that rejects them or leaves some
            out; tools for plain text.
    """
    if isinstance(prompt, str):
        if tools:
            raise ConfigError("tools need prompts that are messages, not plain text")
        return Rendered(hf_tokenizer, prompt, templated=False)
    return Rendered(hf_tokenizer, *render_messages(hf_tokenizer, prompt, template_kwargs, tools))


def render_prompt(
    hf_tokenizer: Any,
    prompt: Prompt,
    template_kwargs: dict[str, Any] | None = None,
    tools: list[dict[str, Any]] | str | None = None,
    prefill: str | None = None,
) -> list[int]:
    """Ids of a prompt up to where the response starts; see `render` and `Rendered.ids`."""
    return render(hf_tokenizer, prompt, template_kwargs, tools).ids(prefill)


def _plain(hf_tokenizer: Any, text: str) -> list[int]:
    """Ids of plain text with what the tokenizer puts before it, but no second bos and nothing after it."""
    bare = list(hf_tokenizer(text, add_special_tokens=False)["input_ids"])
    full = list(hf_tokenizer(text)["input_ids"])
    extra = len(full) - len(bare)
    before = next((k for k in range(extra, -1, -1) if full[k : k + len(bare)] == bare), 0)
    start = full[:before]
    return bare if start and bare[: len(start)] == start else start + bare


@dataclass(frozen=True)
class Translated:
    """A response of one model in the other's tokens.

    Attributes:
        ids: With the other model's stop if the response ended normally.
        ended: Whether the response ended with a stop; False if the length limit cut it.
        lost: Bytes at the end that the other vocabulary cannot express; 0 nearly always.
    """

    ids: list[int]
    ended: bool
    lost: int


class Bridge:
    """Turns responses of one model into ids of the other, of the same bytes.

    Args:
        student: The student's vocabulary.
        teacher: The teacher's vocabulary, read from its tokenizer.

    Raises:
        VocabError: One of the models has no stop token, or the teacher's vocabulary does not come from a tokenizer.
    """

    def __init__(self, student: ByteVocab, teacher: ByteVocab):
        for name, vocab in (("student", student), ("teacher", teacher)):
            if vocab.preferred_stop is None:
                raise VocabError(f"the {name}'s tokenizer has no stop token; set its eos_token")
        if teacher.encoder is None:
            raise VocabError("the teacher's vocabulary cannot encode text; make it with ByteVocab.from_tokenizer")
        self.student, self.teacher = student, teacher

    def to_teacher(self, student_ids: Sequence[int]) -> Translated:
        """The response's bytes in teacher ids, its stop replaced by the teacher's (paper A.2)."""
        return _translate(student_ids, self.student, self.teacher)

    def to_student(self, teacher_ids: Sequence[int]) -> Translated:
        """A response of the teacher in student ids, its stop replaced by the student's."""
        return _translate(teacher_ids, self.teacher, self.student)


def _translate(ids: Sequence[int], source: ByteVocab, target: ByteVocab) -> Translated:
    ended = bool(len(ids)) and int(ids[-1]) in source.stop_ids
    found, lost = target.encode(source.decode(ids))
    if ended and not lost and target.preferred_stop is not None:
        found.append(target.preferred_stop)
    return Translated(found, ended, lost)


def stop_warning(hf_tokenizer: Any, vocab: ByteVocab, generation_config: Any, who: str) -> str | None:
    """What to tell the user when tokenizer, generation config and chat template disagree on what ends a response."""
    sets = {
        "tokenizer": set(configured_eos(hf_tokenizer)),
        "generation config": set(configured_eos(generation_config)),
    }
    union = set(vocab.stop_ids)
    if all(s == union for s in sets.values() if s):
        return None
    told = ", ".join(f"{name} {sorted(ids)}" for name, ids in sets.items() if ids)
    return f"the {who}'s stop ids differ ({told}); all of {sorted(union)} end a response"
