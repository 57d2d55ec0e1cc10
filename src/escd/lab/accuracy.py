"""Accuracy of a model on lab problems."""

from collections.abc import Sequence
from typing import Any

from ..evaluation.sampling import sample
from ..evaluation.scores import Score, score
from .grading import grade
from .problems import Problem


def accuracy(model: Any, tokenizer: Any, asked: Sequence[Problem], samples: int | None = None) -> Score:
    """Share of right responses: of greedy ones, or over `samples` per problem at temperature 1."""
    found = sample(
        model,
        tokenizer,
        [p.prompt for p in asked],
        samples or 1,
        temperature=1.0 if samples else 0.0,
        max_new_tokens=80,
    )
    return score([[grade(s.text, p) for s in each] for p, each in zip(asked, found, strict=True)])
