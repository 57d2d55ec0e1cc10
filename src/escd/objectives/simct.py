"""SimCT (arXiv 2605.07711): reverse KL over shared tokens and units, scored by mean log-probability."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..pair import TokenizerPair
from .base import check_choice, register
from .maths import divergence, segment_logsumexp, segment_sum
from .rows import Rows, Units
from .spans import Spans, UnitObjective


@register
class SimCT(UnitObjective):
    """At the first row of each unit: softmax over the scores of shared tokens and units, reverse KL.

    The score of a unit is the mean log-probability of its tokens, in each model. Where a unit takes the student
    several tokens, its candidates are the unit itself and, with `units="visited"`, every teacher token that the
    student can spell with its first sampled token and one more (paper B.5 of ESCD, eq. 53).

    Args:
        pair: The two vocabularies.
        units: `visited`, or `realised`: only the unit that the response spells, as in the authors' code.

    Raises:
        ConfigError: `units` is neither.
    """

    name = "simct"
    title = "SimCT"
    paper = "2605.07711"

    def __init__(self, pair: TokenizerPair, *, units: str = "visited"):
        super().__init__(pair)
        check_choice("units", units, ("visited", "realised"))
        self.units = units
        self._continuations = lru_cache(maxsize=4096)(self._find_continuations)

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        assert rows.units is not None
        spans = Spans(student_logits, teacher_logits, rows.units)
        shared = self.tables("shared", spans.student.device, lambda: self.pair.shared.T.copy())
        log_q, log_p = spans.teacher[:, shared[0]], spans.student[:, shared[1]]
        of_unit, extra_q, extra_p = self._extra(spans, student_logits, rows.units)
        count = len(log_p)

        def normalised(scores: Tensor, extra: Tensor) -> tuple[Tensor, Tensor]:
            log_z = torch.logaddexp(scores.logsumexp(1), segment_logsumexp(extra, of_unit, count))
            return scores - log_z[:, None], extra - log_z[of_unit]

        (log_q, extra_q), (log_p, extra_p) = normalised(log_q, extra_q), normalised(log_p, extra_p)
        loss = divergence(log_q, log_p, 1.0).sum(-1)
        loss = loss + segment_sum(divergence(extra_q, extra_p, 1.0), of_unit, count)
        return spans.spread(loss, len(student_logits))

    def _extra(self, spans: Spans, student_logits: Tensor, units: Units) -> tuple[Tensor, Tensor, Tensor]:
        """Candidates beyond the shared tokens: unit, teacher's score and student's score of each, all [X]."""
        device = student_logits.device
        sizes_s, sizes_t = spans.sizes
        long = np.flatnonzero((sizes_s > 1) | (sizes_t > 1))
        unit, token, follower = [], [], []
        realised = []
        for k in long.tolist():
            first_s, first_t = int(units.first_student[k]), int(units.first_teacher[k])
            found = (
                self._continuations(int(units.student_id[first_s]))
                if self.units == "visited" and sizes_s[k] > 1
                else ()
            )
            here = (int(units.teacher_id[first_t]), int(units.student_id[first_s + 1])) if sizes_s[k] == 2 else None
            for v, u in found:
                unit.append(k)
                token.append(v)
                follower.append(u)
            if sizes_t[k] > 1 or here not in found:
                realised.append(k)

        def index(values: list[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        at, v, u, whole = index(unit), index(token), index(follower), index(realised)
        row = spans.first[at]
        action = torch.from_numpy(units.student_id).to(device)[row]
        log_next = student_logits[row + 1].log_softmax(-1)
        score_p = (spans.student[at, action] + log_next.gather(1, u[:, None]).squeeze(1)) / 2
        mean_p, mean_q = (
            (total / torch.from_numpy(size).to(device))[whole]
            for total, size in ((spans.student_sum, sizes_s), (spans.teacher_sum, sizes_t))
        )
        return torch.cat([at, whole]), torch.cat([spans.teacher[at, v], mean_q]), torch.cat([score_p, mean_p])

    def _find_continuations(self, action: int) -> tuple[tuple[int, int], ...]:
        """Teacher tokens that are no student token and that `action` and one more student token spell; that token."""
        pair = self.pair
        data = pair.student.token_bytes[action]
        if not data:
            return ()
        _, low, high = pair.starting_with(data)
        found = []
        for v in pair.teacher_order[low:high].tolist():
            u = pair.student.id_of.get((pair.teacher.token_bytes[v] or b"")[len(data) :])
            if pair.group_of[v] >= 0 and u is not None:
                found.append((v, u))
        return tuple(found)
