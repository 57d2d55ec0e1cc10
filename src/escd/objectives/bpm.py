"""Byte-prefix marginalisation (arXiv 2607.22334; paper eq. 30-32): a target for rows inside teacher tokens too."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..align import INTERIOR, ROOT, Alignment
from ..pair import TokenizerPair
from .base import Objective, register
from .escd import ESCD
from .maths import divergence, rest_logsumexp, segment_logsumexp
from .options import check_flag, check_number
from .rows import Links, Rows, Units, count
from .steps import Steps
from .units import boundaries


@register
class BPM(Objective):
    """The teacher's distribution as a target over student tokens and ⊥, at roots and inside teacher tokens.

    At a root, each teacher token gives its probability to the longest student token that it starts with. With the
    bytes c of a teacher token already sampled, teacher tokens that start with c give theirs, conditioned on c, to the
    longest student token of their remaining bytes, no longer than what remains of the token in the response. If the
    sampled token spans several teacher tokens, the probability of that path moves from the first one's cell to its.

    Args:
        pair: The two vocabularies.
        beta: 0 forward KL, 1 reverse KL, between them JSD. The stop row is always forward KL.
        mask_whitespace_roots: Rows whose sampled token is only spaces or tabs carry no root loss.

    Raises:
        ConfigError: `beta` outside [0, 1], or `mask_whitespace_roots` is neither true nor false.
    """

    name = "bpm"
    title = "Byte-Prefix Marginalization"
    paper = "2607.22334"

    def __init__(self, pair: TokenizerPair, *, beta: float = 0.0, mask_whitespace_roots: bool = True):
        super().__init__(pair)
        self.beta = check_number("beta", beta, high=1)
        self.mask_whitespace_roots = check_flag("mask_whitespace_roots", mask_whitespace_roots)
        self._inside = lru_cache(maxsize=512)(self._find_inside)

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`."""
        none = np.zeros(0, np.int64)
        return self._rows(alignment, Steps(none, none, none, none, none))

    def _rows(self, alignment: Alignment, steps: Steps) -> Rows:
        ids, status, offsets = alignment.student_ids, alignment.status, alignment.offsets
        edges, starts_t = boundaries(alignment), alignment.teacher_offsets
        row_t = np.full(len(ids), -1)
        row_t[alignment.roots[:, 0]] = alignment.roots[:, 1]
        inside = status == INTERIOR
        row_t[inside] = np.searchsorted(starts_t, offsets[inside], side="left") - 1
        blank = (status == ROOT) & self.pair.student.is_blank[ids] & self.mask_whitespace_roots
        row_t[blank] = -1
        active = row_t >= 0
        supervised = np.flatnonzero(active)
        active[steps.row] = True
        rows_s = np.flatnonzero(active)
        # Of a spanning row all teacher tokens that it covers are needed.
        rows_t = np.flatnonzero(starts_t <= alignment.common)
        place = np.cumsum(active) - 1
        unit_s, unit_t = (np.searchsorted(edges, at, side="right") - 1 for at in (offsets[rows_s], starts_t[rows_t]))
        units = Units(unit_s, unit_t, ids[rows_s], alignment.teacher_ids[rows_t], offsets[rows_s], starts_t[rows_t])
        counts = count(alignment, supervised, steps.row, blank)
        links = Links(
            place[steps.row], alignment.roots[steps.root, 1], steps.action, steps.low, steps.high, steps.entries
        )
        return Rows(rows_s, rows_t, row_t[rows_s], links, units, counts, len(ids))

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        log_p, log_q = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        return self._row_losses(log_p, log_q, rows), log_p.new_zeros(len(log_p))

    def _row_losses(self, log_p: Tensor, log_q: Tensor, rows: Rows) -> Tensor:
        assert rows.units is not None
        kept = np.flatnonzero(rows.root >= 0)
        at = torch.from_numpy(kept).to(log_p.device)
        target, inside = self._targets(log_q, rows, kept, log_p.shape[1])
        log_p = log_p[at]
        log_rest, some = rest_logsumexp(log_p, ~inside)
        # A student without any column outside cannot place mass there: the bin is left out.
        event = torch.cat([inside, some[:, None]], 1)
        cells = torch.cat([log_p, log_rest[:, None]], 1)

        def loss(beta: float, floor: float = 0.0) -> Tensor:
            terms = divergence(target.clamp_min(floor).log(), torch.where(event, cells, 0.0), beta)
            return torch.where(event, terms, 0.0).sum(1)

        if self.beta == 0:
            found = loss(0.0)
        else:
            # Reverse KL of an event that the target excludes is infinite; 1e-8 as in TRL's `generalized_jsd_loss`.
            found = loss(self.beta, 1e-8)
            stop = torch.from_numpy(np.isin(rows.units.student_id[kept], self.pair.student.stop_ids)).to(at.device)
            found = torch.where(stop, loss(0.0), found)
        return log_p.new_zeros(len(rows.root)).index_add(0, at, found)

    def _targets(self, log_q: Tensor, rows: Rows, kept: np.ndarray, columns: int) -> tuple[Tensor, Tensor]:
        """Targets [k, columns + 1], the last for ⊥, and bool [k, columns], which columns have a cell of their own."""
        units, device = rows.units, log_q.device
        assert units is not None
        parent = rows.root[kept]
        sampled = units.student_at[kept] - units.teacher_at[parent]  # bytes of the teacher token before each row
        target = log_q.new_zeros(len(kept), columns + 1)
        inside = torch.zeros(len(kept), columns, dtype=torch.bool, device=device)

        is_root = torch.from_numpy(sampled == 0).to(device)
        cells = self.cells(columns, log_q.shape[1], device)
        q = log_q[torch.from_numpy(parent[sampled == 0]).to(device)].exp()
        target[is_root] = log_q.new_zeros(len(q), columns + 1).index_add(1, cells, q)
        inside[:, : len(self.pair.image)] = is_root[:, None] & torch.from_numpy(self.pair.image).to(device)
        for row, source, u, mass in self._spanning(log_q, units, kept, parent, sampled, cells):
            target[row, source] -= mass
            target[row, u] += mass
            inside[row, u] = True

        within = np.flatnonzero(sampled)
        found = []
        for i in within:
            whole = self.pair.teacher.token_bytes[units.teacher_id[parent[i]]] or b""
            found.append(self._inside(whole[: sampled[i]], len(whole) - int(sampled[i])))
        if found:
            sizes = [len(tokens) for tokens, _ in found]
            row, of = (torch.from_numpy(np.repeat(x, sizes)).to(device) for x in (within, np.arange(len(within))))
            tokens, goals = (torch.from_numpy(np.concatenate(x)).to(device) for x in zip(*found, strict=True))
            log_mass = log_q[torch.from_numpy(parent).to(device)[row], tokens]
            log_mass = log_mass - segment_logsumexp(log_mass, of, len(within))[of]
            goals = torch.where(goals < 0, columns, goals)
            target.view(-1).index_add_(0, row * (columns + 1) + goals, log_mass.exp())
            known = goals < columns
            inside[row[known], goals[known]] = True
        return target, inside

    def _spanning(
        self, log_q: Tensor, units: Units, kept: np.ndarray, parent: np.ndarray, sampled: np.ndarray, cells: Tensor
    ) -> Iterator[tuple[int, Tensor, int, Tensor]]:
        """Roots whose sampled token covers several teacher tokens: row, cell of the first one, token, path mass.

        A last teacher token that the sampled one covers in part counts too, so the mass is a lower bound there.
        """
        student, teacher = self.pair.student, self.pair.teacher
        token, first = units.student_id[kept], units.teacher_id[parent]
        longer = student.byte_lengths[token] > teacher.byte_lengths[first]
        for row in np.flatnonzero((sampled == 0) & longer & (teacher.byte_lengths[first] > 0)).tolist():
            data, covered, end = student.token_bytes[token[row]] or b"", b"", int(parent[row])
            while len(covered) < len(data) and end < len(units.teacher_id):
                covered += teacher.token_bytes[units.teacher_id[end]] or b""
                end += 1
            if covered.startswith(data):
                path = torch.arange(int(parent[row]), end, device=log_q.device)
                ids = torch.from_numpy(units.teacher_id[parent[row] : end]).to(log_q.device)
                yield row, cells[first[row]], int(token[row]), log_q[path, ids].sum().exp()

    def _find_inside(self, sampled: bytes, longest: int) -> tuple[np.ndarray, np.ndarray]:
        """Teacher tokens that start with the `sampled` bytes, and the student token of the `longest` bytes after them.

        -1 stands for ⊥.
        """
        student, table, size = self.pair.student, self.pair.teacher.token_bytes, len(sampled)
        low, _, high = self.pair.starting_with(sampled)
        tokens = self.pair.teacher_order[low:high]
        goals = [student.longest_prefix((table[v] or b"")[size : size + longest]) for v in tokens]
        return tokens, np.array(goals, np.int64)


@register
class BPMWithChild(BPM):
    """BPM's rows plus the child loss of ESCD.

    Args:
        pair: The two vocabularies.
        beta: As of `BPM`.
        mask_whitespace_roots: As of `BPM`.
        child_weight, completion, completion_weight, rest_bin: As of `ESCD`.
    """

    name = "bpm+child"
    title = "Byte-Prefix Marginalization with the completion loss of ESCD"
    paper = "2607.22334"

    def __init__(
        self,
        pair: TokenizerPair,
        *,
        beta: float = 0.0,
        mask_whitespace_roots: bool = True,
        child_weight: float = 1.0,
        completion: str = "set",
        completion_weight: str = "mass",
        rest_bin: bool = False,
    ):
        super().__init__(pair, beta=beta, mask_whitespace_roots=mask_whitespace_roots)
        self.event_sets = ESCD(
            pair, child_weight=child_weight, completion=completion, completion_weight=completion_weight,
            rest_bin=rest_bin,
        )  # fmt: skip
        self.child_weight = self.event_sets.child_weight

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`."""
        return self._rows(alignment, self.event_sets.steps(alignment))

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        log_p, log_q = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        return self._row_losses(log_p, log_q, rows), self.event_sets.child_losses(log_p, log_q, rows)
