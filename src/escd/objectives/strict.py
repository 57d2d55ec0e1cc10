"""Objectives on rows that both models share: `strict` and `kl`."""

from __future__ import annotations

import torch
from torch import Tensor

from ..align import Alignment
from ..errors import ConfigError
from ..pair import TokenizerPair
from .base import Objective, register
from .maths import divergence, possible_only
from .options import check_number
from .rows import Rows
from .units import unit_rows


class _OneToOne(Objective):
    """Rows are the units of one token on both sides, so student and teacher rows match one to one."""

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`."""
        return unit_rows(self.pair, alignment, one_to_one=True)


@register
class Strict(_OneToOne):
    """Strict alignment (arXiv 2610.08448): one-to-one rows only, shared vocabulary renormalised, reverse KL."""

    name = "strict"
    title = "strict one-to-one alignment"
    paper = "2610.08448"

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        shared = self.shared(student_logits.device)
        log_q, log_p = possible_only(teacher_logits[:, shared[0]], student_logits[:, shared[1]])
        loss = divergence(log_q.log_softmax(-1), log_p.log_softmax(-1), 1.0).sum(-1)
        return loss, torch.zeros_like(loss)


@register
class KL(_OneToOne):
    """Plain distillation with one tokenizer on both sides (GKD, arXiv 2306.13649).

    Args:
        pair: The two vocabularies, equal.
        beta: 0 forward KL, 1 reverse KL, between them JSD.

    Raises:
        ConfigError: The vocabularies differ, or `beta` lies outside [0, 1].
    """

    name = "kl"
    title = "on-policy distillation with one tokenizer"
    paper = "2306.13649"

    def __init__(self, pair: TokenizerPair, *, beta: float = 0.0):
        super().__init__(pair)
        self.beta = check_number("beta", beta, high=1)
        if pair.student.token_bytes != pair.teacher.token_bytes:
            raise ConfigError("objective 'kl' needs one tokenizer on both sides, and these differ; use 'escd'")

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`. Columns beyond the vocabulary are one event, if both heads have some."""
        size, both = len(self.pair.student), (student_logits, teacher_logits)
        padded = all(z.shape[1] > size for z in both)
        log_p, log_q = (_folded(z.log_softmax(-1), size, padded) for z in both)
        loss = divergence(log_q, log_p, self.beta).sum(-1)
        return loss, torch.zeros_like(loss)


def _folded(log_values: Tensor, size: int, padded: bool) -> Tensor:
    """The first `size` columns, and all others as one more if `padded`."""
    rest = [log_values[:, size:].logsumexp(1, keepdim=True)] if padded else []
    return torch.cat([log_values[:, :size], *rest], 1)
