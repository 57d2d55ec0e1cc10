"""Objectives that compare minimal aligned units: GOLD, ULD, X-Token's P-KL and ALM."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..align import Alignment
from ..pair import TokenizerPair
from .base import Objective, register
from .maths import FLOOR, divergence, segment_sum
from .options import check_choice, check_number, check_whole
from .rows import Rows, Units
from .units import unit_rows


class Spans:
    """Log-probabilities of units.

    Args:
        student_logits, teacher_logits: [A, C_S], [R, C_T].
        units: Which rows are one unit.

    Attributes:
        units: As given.
        log_p, log_q: [A, C_S], [R, C_T], log-probabilities of every row.
        first: int64 [U], first student row of each unit.
        sizes: Two times int64 [U], tokens of the student and of the teacher.
        student, teacher: [U, C_S], [U, C_T], log-probabilities at the first row of each unit.
        student_sum, teacher_sum: [U], log-probability of all tokens of the unit.
        student_rest, teacher_rest: [U], of all but the first.
    """

    def __init__(self, student_logits: Tensor, teacher_logits: Tensor, units: Units):
        self.units, self.log_p, self.log_q = units, student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        self.first = torch.from_numpy(units.first_student).to(student_logits.device)
        count = len(self.first)
        self.sizes = tuple(np.bincount(u, minlength=count) for u in (units.student, units.teacher))
        self.student, self.student_sum, self.student_rest = _merged(
            self.log_p, units.student, units.student_id, units.first_student
        )
        self.teacher, self.teacher_sum, self.teacher_rest = _merged(
            self.log_q, units.teacher, units.teacher_id, units.first_teacher
        )

    def spread(self, per_unit: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        """Losses of units [U] at their first rows: root and child losses [A]."""
        nothing = per_unit.new_zeros(rows)
        return nothing.index_add(0, self.first, per_unit), nothing


def _merged(log_p: Tensor, unit: np.ndarray, ids: np.ndarray, first: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    device = log_p.device
    of_unit, token, head = (torch.from_numpy(a).to(device) for a in (unit, ids, first))
    taken = log_p.gather(1, token[:, None]).squeeze(1)
    total = segment_sum(taken, of_unit, len(head))
    later = torch.ones(len(taken), dtype=torch.bool, device=device)
    later[head] = False
    return log_p[head], total, segment_sum(taken[later], of_unit[later], len(head))


def _averaged(log_p: Tensor, unit: np.ndarray) -> Tensor:
    """[U, C], log-probabilities [A, C] averaged over the rows of each unit, normalised."""
    of_unit = torch.from_numpy(unit).to(log_p.device)
    size = torch.bincount(of_unit)
    # A column that one row excludes keeps a number, so that rows without a common column stay defined.
    total = log_p.new_zeros(len(size), log_p.shape[1]).index_add(0, of_unit, log_p.clamp_min(FLOOR))
    return (total / size[:, None]).log_softmax(-1)


class UnitObjective(Objective):
    """Rows are those of all whole units."""

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`."""
        return unit_rows(self.pair, alignment)

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        assert rows.units is not None
        spans = Spans(student_logits, teacher_logits, rows.units)
        return spans.spread(self.unit_losses(spans), len(student_logits))

    @abstractmethod
    def unit_losses(self, spans: Spans) -> Tensor:
        """[U], the loss of each unit in nats."""


@register
class GOLD(UnitObjective):
    """General on-policy logit distillation, the hybrid loss of TRL's `experimental.gold`.

    A unit's distribution is that at its first row times the probability of its later tokens. Shared tokens are
    compared by a generalised JSD, the others by the L1 distance of their sorted probabilities.

    Args:
        pair: The two vocabularies.
        beta: 0 forward KL, 1 reverse KL, between them JSD.
        matched_weight: Weight of the shared tokens; the others get 1 minus it. By default the share of the teacher's
            columns that are shared.

    Raises:
        ConfigError: A number outside [0, 1].
    """

    name = "gold"
    title = "General On-Policy Logit Distillation (GOLD)"
    paper = "2306.13649"

    def __init__(self, pair: TokenizerPair, *, beta: float = 0.5, matched_weight: float | None = None):
        super().__init__(pair)
        self.beta = check_number("beta", beta, high=1)
        given = matched_weight is not None
        self.matched_weight = check_number("matched_weight", matched_weight, high=1) if given else None

    def unit_losses(self, spans: Spans) -> Tensor:
        """See `UnitObjective.unit_losses`."""
        log_p = spans.student + spans.student_rest[:, None]
        log_q = spans.teacher + spans.teacher_rest[:, None]
        shared = self.shared(log_p.device)
        weight = shared.shape[1] / log_q.shape[1] if self.matched_weight is None else self.matched_weight
        matched = divergence(log_q[:, shared[0]], log_p[:, shared[1]], self.beta).sum(-1)
        p, q = (_without(x, ids).exp() for x, ids in ((log_p, shared[1]), (log_q, shared[0])))
        # As in TRL, one side without such tokens leaves nothing to compare.
        unmatched = sorted_l1(q, p) if p.shape[1] and q.shape[1] else 0.0
        return weight * matched + (1 - weight) * unmatched


@register
class ULD(UnitObjective):
    """Universal logit distillation (arXiv 2402.12030): L1 distance of sorted probability vectors, zero padded.

    Compared at every row where both models start a token.
    """

    name = "uld"
    title = "Universal Logit Distillation"
    paper = "2402.12030"

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`."""
        return unit_rows(self.pair, alignment, first_only=True)

    def unit_losses(self, spans: Spans) -> Tensor:
        """See `UnitObjective.unit_losses`."""
        return sorted_l1(spans.teacher.exp(), spans.student.exp())


@register
class XToken(UnitObjective):
    """P-KL of X-Token (arXiv 2605.21699): KL(q || W^T p) over the teacher's columns on merged units.

    W maps a student token to the teacher token of equal bytes with weight 1, else to the i-th token of its bytes in
    the teacher's tokenisation with weight 0.9 * 0.1^i, the first `top` of them, each row normalised.

    Args:
        pair: The two vocabularies.
        top: Teacher tokens that one student token maps to at most.
        merge: How the rows of a unit become one: `product`, the first row's distribution times the probability of
            the later tokens (chain rule, not normalised); or `mean`, as in the authors' code: log-probabilities
            averaged over the rows and normalised.

    Raises:
        ConfigError: `top` is no whole number or under 1, or `merge` is neither.
    """

    name = "xtoken"
    title = "X-Token, P-KL"
    paper = "2605.21699"

    def __init__(self, pair: TokenizerPair, *, top: int = 4, merge: str = "product"):
        super().__init__(pair)
        self.top = check_whole("top", top)
        self.merge = check_choice("merge", merge, ("product", "mean"))

    def unit_losses(self, spans: Spans) -> Tensor:
        """See `UnitObjective.unit_losses`."""
        if self.merge == "mean":
            log_q, first = _averaged(spans.log_q, spans.units.teacher), _averaged(spans.log_p, spans.units.student)
            rest = log_q.new_zeros(len(first))
        else:
            log_q, first, rest = spans.teacher + spans.teacher_rest[:, None], spans.student, spans.student_rest
        source, target, weight = self._projection
        device = log_q.device
        u = self.tables("source", device, lambda: source)
        v = self.tables("target", device, lambda: target)
        w = self.tables("weight", device, lambda: weight).to(log_q.dtype)
        p = log_q.new_zeros(log_q.shape).index_add(1, v, first[:, u].exp() * w)
        # What no student token maps to costs a constant, as in the authors' code.
        log_p = torch.log(p + 1e-10) + rest[:, None]
        return divergence(log_q, log_p, 0.0).sum(-1)

    @cached_property
    def _projection(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """W in coordinates: student token, teacher token, weight."""
        exact = dict(self.pair.shared[:, ::-1].tolist())
        entries: list[tuple[int, int, float]] = []
        for u, data in enumerate(self.pair.student.token_bytes):
            if u in exact:
                entries.append((u, exact[u], 1.0))
            elif data:
                pieces = self.pair.teacher.encode(data)[0][: self.top]
                weights = [0.9 * 0.1**i for i in range(len(pieces))]
                entries += [(u, v, w / sum(weights)) for v, w in zip(pieces, weights, strict=True)]
        u, v, w = zip(*entries, strict=True) if entries else ((), (), ())
        return np.array(u, np.int64), np.array(v, np.int64), np.array(w, np.float64)


@register
class ALM(UnitObjective):
    """Approximate likelihood matching (arXiv 2503.20083): binary cross-entropy of unit likelihoods to a power.

    Args:
        pair: The two vocabularies.
        power: What likelihoods are raised to; the paper's 1/100.

    Raises:
        ConfigError: `power` outside (0, 1].
    """

    name = "alm"
    title = "Approximate Likelihood Matching"
    paper = "2503.20083"

    def __init__(self, pair: TokenizerPair, *, power: float = 0.01):
        super().__init__(pair)
        self.power = check_number("power", power, high=1, over=True)

    def unit_losses(self, spans: Spans) -> Tensor:
        """See `UnitObjective.unit_losses`."""
        log_p, log_q = self.power * spans.student_sum, self.power * spans.teacher_sum
        missed = -torch.expm1(log_q)
        # A certain student leaves no probability for the complement: kept away from log 0.
        log_not = torch.log((-torch.expm1(log_p)).clamp_min(torch.finfo(log_p.dtype).eps))
        return -(log_q.exp() * log_p + missed * log_not)


def sorted_l1(q: Tensor, p: Tensor) -> Tensor:
    """[N], L1 distance of the rows of [N, C_T] and [N, C_S], each sorted, the shorter padded with zeros."""
    width = max(q.shape[1], p.shape[1])
    q, p = (torch.nn.functional.pad(x.sort(-1, descending=True).values, (0, width - x.shape[1])) for x in (q, p))
    return (q - p).abs().sum(-1)


def _without(log_values: Tensor, columns: Tensor) -> Tensor:
    kept = torch.ones(log_values.shape[1], dtype=torch.bool, device=log_values.device)
    kept[columns] = False
    return log_values[:, kept]
