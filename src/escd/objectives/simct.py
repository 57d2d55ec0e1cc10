"""SimCT (arXiv 2605.07711): reverse KL over shared tokens and units, scored by mean log-probability."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..pair import TokenizerPair
from .base import register
from .maths import divergence, possible_only, segment_logsumexp, segment_sum
from .options import check_choice
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
        self.units = check_choice("units", units, ("visited", "realised"))
        self._continuations = lru_cache(maxsize=512)(self._find_continuations)

    def unit_losses(self, spans: Spans) -> Tensor:
        """See `UnitObjective.unit_losses`."""
        shared = self.shared(spans.student.device)
        log_q, log_p = possible_only(spans.teacher[:, shared[0]], spans.student[:, shared[1]])
        of_unit, *extra = self._extra(spans)
        extra_q, extra_p = possible_only(*extra)
        count = len(log_p)

        def normalised(scores: Tensor, extra: Tensor) -> tuple[Tensor, Tensor]:
            log_z = torch.logaddexp(scores.logsumexp(1), segment_logsumexp(extra, of_unit, count))
            return scores - log_z[:, None], extra - log_z[of_unit]

        (log_q, extra_q), (log_p, extra_p) = normalised(log_q, extra_q), normalised(log_p, extra_p)
        loss = divergence(log_q, log_p, 1.0).sum(-1)
        return loss + segment_sum(divergence(extra_q, extra_p, 1.0), of_unit, count)

    def _extra(self, spans: Spans) -> tuple[Tensor, Tensor, Tensor]:
        """Candidates beyond the shared tokens: unit, teacher's score and student's score of each, all [X]."""
        units, device = spans.units, spans.log_p.device
        sizes_s, sizes_t = spans.sizes
        heads_s, heads_t = units.first_student, units.first_teacher
        none = np.zeros(0, np.int64)
        unit, token, follower, realised = [none], [none], [none], []
        for k in np.flatnonzero((sizes_s > 1) | (sizes_t > 1)).tolist():
            first_s, first_t = heads_s[k], heads_t[k]
            v, u = none, none
            if self.units == "visited" and sizes_s[k] > 1:
                v, u = self._continuations(int(units.student_id[first_s]))
            unit.append(np.full(len(v), k))
            token.append(v)
            follower.append(u)
            known = sizes_t[k] == 1 and sizes_s[k] == 2
            if not (known and ((v == units.teacher_id[first_t]) & (u == units.student_id[first_s + 1])).any()):
                realised.append(k)

        at, v, u = (torch.from_numpy(np.concatenate(parts)).to(device) for parts in (unit, token, follower))
        whole = torch.tensor(realised, dtype=torch.int64, device=device)
        row = spans.first[at]
        action = torch.from_numpy(units.student_id).to(device)[row]
        score_p = (spans.student[at, action] + spans.log_p[row + 1, u]) / 2
        mean_p, mean_q = (
            (total / torch.from_numpy(size).to(device))[whole]
            for total, size in ((spans.student_sum, sizes_s), (spans.teacher_sum, sizes_t))
        )
        return torch.cat([at, whole]), torch.cat([spans.teacher[at, v], mean_q]), torch.cat([score_p, mean_p])

    def _find_continuations(self, action: int) -> tuple[np.ndarray, np.ndarray]:
        """Teacher tokens that are no student token and that `action` and one more student token spell; that token."""
        pair = self.pair
        data = pair.student.token_bytes[action] or b""
        _, low, high = pair.starting_with(data) if data else (0, 0, 0)
        tokens = pair.teacher_order[low:high]
        tokens = tokens[pair.group_of[tokens] >= 0]
        rest = ((pair.teacher.token_bytes[v] or b"")[len(data) :] for v in tokens)
        follower = np.array([pair.student.id_of.get(b, -1) for b in rest], np.int64)
        return tokens[follower >= 0], follower[follower >= 0]
