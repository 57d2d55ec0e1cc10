"""One conversation as two models see it: each by its own chat template, the response by its exact bytes (paper A.2).

Template tokens are never translated. The bytes of the response are what both models share.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ConfigError, VocabError
from .families import configured_eos, describe
from .vocab import ByteVocab

# `surrogateescape` turns a byte that is no UTF-8 into one of these code points.
_NOT_UTF8 = re.compile("([\udc80-\udcff]+)")

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
class TeacherResponse:
    """A student's response in teacher tokens.

    Attributes:
        ids: Teacher ids, with the teacher's stop if the response ended normally.
        ended: Whether the student stopped by itself; False if the length limit cut the response.
        lost: Bytes at the end that the teacher's vocabulary cannot express; 0 nearly always.
    """

    ids: list[int]
    ended: bool
    lost: int


class Bridge:
    """Turns student responses into teacher ids of the same bytes.

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
        self.student, self.teacher, self._encoder = student, teacher, teacher.encoder

    def to_teacher(self, student_ids: Sequence[int]) -> TeacherResponse:
        """The response's bytes in teacher ids, its stop replaced by the teacher's (paper A.2)."""
        ended = bool(len(student_ids)) and int(student_ids[-1]) in self.student.stop_ids
        data = self.student.decode(student_ids)
        ids, lost = self.retokenise(data)
        if ended and not lost and self.teacher.preferred_stop is not None:
            ids.append(self.teacher.preferred_stop)
        return TeacherResponse(ids, ended, lost)

    def retokenise(self, data: bytes) -> tuple[list[int], int]:
        """Teacher ids of exactly these bytes, and how many bytes at the end they leave out.

        Valid UTF-8 is encoded as the teacher would, without normalising it. Bytes that are no UTF-8 (a lone byte
        token, a character cut by the length limit) become byte tokens, so the text around them is untouched.
        """
        ids: list[int] = []
        pieces = _NOT_UTF8.split(data.decode("utf-8", "surrogateescape"))
        done = 0
        for number, piece in enumerate(pieces):
            raw = piece.encode("utf-8", "surrogateescape")
            single = number % 2 == 1
            found = (
                [self.teacher.id_of.get(raw[i : i + 1], -1) for i in range(len(raw))]
                if single
                else self._encode(piece)
            )
            if not single and self.teacher.decode(found) != raw:
                found = self._greedy(raw)
            if -1 in found:
                found = found[: found.index(-1)]
                ids += found
                return ids, len(data) - done - len(self.teacher.decode(found))
            ids += found
            done += len(raw)
        return ids, 0

    def _encode(self, text: str) -> list[int]:
        return list(self._encoder.encode(text, add_special_tokens=False).ids) if text else []

    def _greedy(self, raw: bytes) -> list[int]:
        """Longest match, for text that the tokenizer itself does not keep; -1 where no token fits."""
        ids: list[int] = []
        at = 0
        while at < len(raw):
            found = self.teacher.longest_prefix(raw[at : at + self.teacher.max_length])
            ids.append(found)
            if found < 0:
                break
            at += int(self.teacher.byte_lengths[found])
        return ids


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
