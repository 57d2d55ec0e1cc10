"""What a task is, once its problems are loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Question:
    """One problem.

    Attributes:
        id: Names it within its task.
        prompt: Messages.
        record: What the grader compares a response with.
    """

    id: str | int
    prompt: list[dict[str, str]]
    record: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The prompt as plain text, for a reader or a model without a chat template."""
        return "\n\n".join(message["content"] for message in self.prompt)

    @property
    def answer(self) -> str:
        """The reference answer, as far as it is a text."""
        return str(self.record.get("answer") or "")


def file_name(task: str) -> str:
    """The name of a task in names of files: without slashes."""
    return task.replace("/", "-")


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
        name: As the user calls it.
        grader: Name of its grader.
        questions: Its problems.
        max_new_tokens: Length that a response may need.
        description: What it is, for reports.
    """

    name: str
    grader: str
    questions: tuple[Question, ...] = field(repr=False)
    max_new_tokens: int = 512
    description: str = ""

    @property
    def file_name(self) -> str:
        """The name of a task in names of files: without slashes."""
        return file_name(self.name)

    @cached_property
    def content(self) -> str:
        """A hash of everything that scores depend on: ids, prompts, references, grader."""
        told = [self.grader, [[q.id, q.prompt, dict(q.record)] for q in self.questions]]
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]
