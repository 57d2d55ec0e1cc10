"""One conversation as two models see it: each by its own chat template, the response by its exact bytes (paper A.2).

Template tokens are never translated. The bytes of the response are what both models share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError, VocabError
from .families import configured_eos, describe
from .vocab import ByteVocab

Prompt = str | list[dict[str, Any]]


def render_prompt(hf_tokenizer: Any, prompt: Prompt, template_kwargs: dict[str, Any] | None = None) -> list[int]:
    """Ids of a prompt up to where the response starts.

    Args:
        hf_tokenizer: The model's own tokenizer.
        prompt: Plain text, or messages for the model's own chat template.
        template_kwargs: Passed on to `apply_chat_template`, e.g. `enable_thinking`.

    Raises:
        ConfigError: Messages for a tokenizer without a chat template, a template that rejects them, or a prompt that
            renders to nothing.
    """
    if isinstance(prompt, str):
        ids = _plain(hf_tokenizer, prompt)
    elif not getattr(hf_tokenizer, "chat_template", None):
        raise ConfigError(
            f"{describe(hf_tokenizer)} has no chat template, but the prompts are messages; give prompts as plain "
            "text, or set the tokenizer's chat_template"
        )
    else:
        # A dataset fills keys that only some messages have with None.
        messages = [{k: v for k, v in message.items() if v is not None} for message in prompt]
        try:
            encoded = hf_tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=True, **(template_kwargs or {})
            )
        except Exception as error:  # a template is a program of its author and raises what it likes
            raise ConfigError(
                f"the chat template of {describe(hf_tokenizer)} rejects a prompt with roles "
                f"{[m.get('role') for m in prompt]}: {error}"
            ) from error
        ids = list(encoded["input_ids"])
    if not ids:
        raise ConfigError(f"{describe(hf_tokenizer)} renders the prompt {prompt!r} to no tokens at all")
    return ids


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
    eos = getattr(hf_tokenizer, "eos_token_id", None)
    sets = {
        "tokenizer": {eos} - {None},
        "generation config": set(configured_eos(generation_config)),
    }
    union = set(vocab.stop_ids)
    if all(s == union for s in sets.values() if s):
        return None
    told = ", ".join(f"{name} {sorted(ids)}" for name, ids in sets.items() if ids)
    return f"the {who}'s stop ids differ ({told}); all of {sorted(union)} end a response"
