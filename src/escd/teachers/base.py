"""What a teacher is to the trainer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from ..objectives.tiles import Head, SparseHead


@dataclass(frozen=True)
class Conversation:
    """A prompt and a response in one model's ids; row i of the response predicts `response[i]`."""

    prompt: list[int]
    response: list[int]


class GenerationArguments(Protocol):
    """What of a configuration the teacher generates by."""

    max_completion_length: int | None
    temperature: float
    top_p: float
    top_k: int


class Teacher(ABC):
    """Scores responses. Only hidden states of the rows that are asked for leave it; logits never do.

    Attributes:
        name: How errors name it.
        rows: Where its rows come from, for a model card.
    """

    name: str
    rows: str

    @abstractmethod
    def hidden_rows(self, conversations: Sequence[Conversation], rows: Sequence[np.ndarray]) -> Tensor:
        """Last hidden states, before the lm_head.

        Args:
            conversations: A batch of B.
            rows: For each, int64 response rows that are wanted.

        Returns:
            [total number of rows, H], conversation by conversation.
        """

    @abstractmethod
    def generate(
        self, prompts: Sequence[list[int]], stops: Sequence[int], args: GenerationArguments
    ) -> list[list[int]]:
        """Responses of the teacher itself, each up to its first stop id, which it keeps.

        Args:
            prompts: Ids of each prompt.
            stops: Ids that end a response.
            args: Length limit and sampling, named as in `trl.DistillationConfig`.
        """

    @abstractmethod
    def head(self) -> Head | SparseHead:
        """The lm_head that turns those hidden states into logits."""

    def figures(self, steps: int) -> dict[str, float]:
        """What it cost per step over the last `steps`, for the metrics; by default nothing of its own."""
        return {}
