"""What one row of a dataset is to a step: the prompt as both models see it, and its response where one is given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..chat import Rendered, render
from ..errors import ConfigError
from ..families.stops import answer_opening
from ..families.thoughts import closes
from ..templating import THOUGHTS, render_answer
from ..vocab import ByteVocab


@dataclass(frozen=True)
class Side:
    """A model's tokenizer and the keyword arguments of its chat template."""

    tokenizer: Any
    template_kwargs: dict[str, Any]

    @cached_property
    def opening(self) -> str:
        """Control tokens that this model writes before an answer; see `families.stops.answer_opening`."""
        return answer_opening(self.tokenizer, self.template_kwargs)

    def render(self, example: dict[str, Any]) -> Rendered:
        """The row's prompt by this model's template, with the tools of its column `tools`."""
        return render(self.tokenizer, example["prompt"], self.template_kwargs, example.get("tools"))


@dataclass(frozen=True)
class Turn:
    """A prompt in both models' ids, up to where the response starts.

    Attributes:
        student, teacher: Ids of the prompt. Both end with what the writer of the response found at its start.
        given: Ids of the response for the student, its stop included, if the dataset gives it.
    """

    student: list[int]
    teacher: list[int]
    given: list[int] | None = None


def read_turn(example: dict[str, Any], source: str, student: Side, teacher: Side, vocab: ByteVocab) -> Turn:
    """Render one row.

    Args:
        example: A row with `prompt`, and `completion` if `source` is "dataset".
        source: Who writes the response: "student", "teacher" or "dataset".
        student, teacher: The two models.
        vocab: The student's vocabulary.

    Raises:
        ConfigError: A template does not take the prompt or the response.
    """
    mine, theirs = student.render(example), teacher.render(example)
    given = None
    if source == "dataset":
        prefill, given = _given(example, student, mine.prefill, vocab)
    else:
        prefill = (mine if source == "student" else theirs).prefill
    opening = "" if source == "teacher" or isinstance(example["prompt"], str) else teacher.opening
    return Turn(mine.ids(prefill), theirs.ids(opening + prefill), given)


def _given(example: dict[str, Any], student: Side, prefill: str, vocab: ByteVocab) -> tuple[str, list[int]]:
    """What stands at the start of a dataset's response without being learnt, and the response in student ids."""
    completion = example["completion"]
    answer = {"content": completion} if isinstance(completion, str) else completion[0]
    if any(answer.get(key) for key in ("tool_calls", *THOUGHTS)):
        # Only the template knows how this model writes them.
        if isinstance(example["prompt"], str):
            raise ConfigError("a completion with tool calls or a thought of its own needs a prompt of messages")
        text = render_answer(
            student.tokenizer, example["prompt"], answer, student.template_kwargs, example.get("tools")
        )
        ids = list(student.tokenizer(text, add_special_tokens=False)["input_ids"])
        stop = next((k for k, token in enumerate(ids) if token in vocab.stop_ids), len(ids))
        return "", [*ids[:stop], int(vocab.preferred_stop)]  # type: ignore[arg-type]  # the bridge insists on a stop
    text = answer["content"]
    # A response that brings its thought, or has none, does not stand behind a thought that the template has opened.
    if text.startswith(prefill.rstrip()) or not (closes(prefill) or closes(text)):
        prefill = ""
    return prefill, [*vocab.encode(text.encode())[0], int(vocab.preferred_stop)]  # type: ignore[arg-type]
