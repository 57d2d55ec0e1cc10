"""Event-Set Completion Distillation: the root and child losses of the paper (3.1-3.3) and its ablation arms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..align import DIVERGED, INTERIOR, NO_TEACHER_ROW, Alignment, align
from ..errors import ConfigError
from ..pair import TokenizerPair
from .base import Objective, RowLosses, Rows, Tile, TileLosses, register, suggest
from .completion import COMPLETIONS, CompletionSets
from .maths import UNREACHABLE, column_logsumexp, expected_log, kl_with_complement

# Rows of a tile that elementwise work touches at once on a CPU: small enough to stay in cache.
_BLOCK = 4096


def check_options(child_weight: float, completion: str) -> None:
    """Raise `ConfigError` for values that no `ESCD` objective takes."""
    if completion not in COMPLETIONS:
        raise ConfigError(f"completion={completion!r} is unknown{suggest(completion, COMPLETIONS)}")
    if not 0 <= child_weight < float("inf"):
        raise ConfigError(f"child_weight={child_weight} must be at least 0, and finite")


@register
class ESCD(Objective):
    """Root loss plus `child_weight` times child loss (paper eq. 10).

    Args:
        pair: The two vocabularies.
        child_weight: Weight of the child loss.
        mask_whitespace_roots: Rows whose sampled token is only spaces or tabs carry no root loss.
        completion: Which student tokens complete a residual: `set` (the paper's), `none` (root only), `single` (the
            token that phi would choose, if it completes), `exact` (no overshoot), `minimal` (the shortest).

    Raises:
        ConfigError: `completion` is none of these, or `child_weight` is negative.
    """

    name = "escd"

    def __init__(
        self,
        pair: TokenizerPair,
        *,
        child_weight: float = 1.0,
        mask_whitespace_roots: bool = True,
        completion: str = "set",
    ):
        super().__init__(pair)
        check_options(child_weight, completion)
        self.child_weight = child_weight
        self.mask_whitespace_roots = mask_whitespace_roots
        self.sets = CompletionSets(pair, completion)

    def total(self, root: Tensor, child: Tensor) -> Tensor:
        """Paper eq. 10."""
        return root + self.child_weight * child

    # -- which rows ---------------------------------------------------------------------------------------------

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`."""
        ids, status = alignment.student_ids, alignment.status
        n = len(ids)
        row_s, row_t = np.ascontiguousarray(alignment.roots.T)
        blank = np.zeros(n, bool)
        if self.mask_whitespace_roots:
            blank[row_s] = self.pair.student.is_blank[ids[row_s]]
        # Roots whose sampled token opens groups, with a child row in this response that is supervised.
        opens = self.sets.count[ids[row_s]] > 0
        if len(row_s) and row_s[-1] + 1 == n:
            opens[-1] = False
        parent = np.flatnonzero(opens)
        parent = parent[status[row_s[parent] + 1] != DIVERGED]
        has_root = ~blank[row_s]
        needed = has_root.copy()
        needed[parent] = True
        index = np.cumsum(needed) - 1
        root, child, action = np.full((3, n), -1)
        root[row_s] = np.where(has_root, index, -1)
        child_row = row_s[parent] + 1
        child[child_row] = index[parent]
        action[child_row] = ids[row_s[parent]]
        idle = (root < 0) & (child < 0)
        active = np.flatnonzero(~idle)
        counts = Counter(
            root=int(has_root.sum()),
            child=len(parent),
            blank=int((idle & blank).sum()),
            interior=int((idle & (status == INTERIOR)).sum()),
            no_teacher_row=int((idle & (status == NO_TEACHER_ROW)).sum()),
            diverged=int((idle & (status == DIVERGED)).sum()),
        )
        return Rows(active, row_t[needed], root[active], child[active], action[active], counts, n)

    @cached_property
    def in_image(self) -> np.ndarray:
        """bool [V_S]: U, the student tokens that phi reaches."""
        inside = np.zeros(len(self.pair.student), bool)
        inside[self.pair.phi[self.pair.phi >= 0]] = True
        return inside

    # -- dense reference ----------------------------------------------------------------------------------------

    def row_losses(
        self,
        student_logits: Tensor,
        teacher_logits: Tensor,
        student_ids: Sequence[int],
        teacher_ids: Sequence[int],
    ) -> RowLosses:
        """See `Objective.row_losses`."""
        alignment = align(self.pair, student_ids, teacher_ids)
        rows = self.rows(alignment)
        self.check_logits(student_logits, teacher_logits, rows.total, len(alignment.teacher_ids))
        device = student_logits.device
        dtype = torch.promote_types(student_logits.dtype, torch.float32)
        log_p = student_logits.to(dtype).log_softmax(-1)
        log_q = teacher_logits.detach().to(device, dtype).log_softmax(-1)
        # The sum over no rows keeps a response without roots differentiable.
        zero = log_p[:0].sum() + log_p.new_zeros(rows.total)
        student, root, child = (torch.from_numpy(a).to(device) for a in (rows.student, rows.root, rows.child))
        log_q = log_q[torch.from_numpy(rows.teacher).to(device)]

        is_root = root >= 0
        target, rest = self._project(log_q[root[is_root]].exp(), student_logits.shape[1])
        inside = torch.zeros(student_logits.shape[1], dtype=torch.bool, device=device)
        inside[: len(self.in_image)] = torch.from_numpy(self.in_image).to(device)
        root_loss = kl_with_complement(target, rest, log_p[student[is_root]], inside)

        is_child = child >= 0
        action = torch.from_numpy(rows.action).to(device)[is_child]
        # Both are log-probabilities, so their partition functions are 1.
        normal_t, normal_s = log_q.new_zeros(len(log_q)), log_p.new_zeros(rows.total)
        found = self.sets.find(action, (log_q.T, normal_t, child[is_child]), (log_p.T, normal_s, student[is_child]))
        child_loss = -found.per_row(expected_log(found.mass, found.log_p), len(action))

        root_rows = zero.index_add(0, student[is_root], root_loss)
        child_rows = zero.index_add(0, student[is_child], child_loss)
        return RowLosses(self.total(root_rows, child_rows), root_rows, child_rows)

    def _project(self, q: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """t and t(⊥) of method section 2 from q [R, C_T]: [R, columns], [R]. Padded teacher columns belong to ⊥."""
        phi = self.tables("phi", q.device, lambda: self.pair.phi)
        mapped = phi >= 0
        known = q[:, : len(phi)]
        target = q.new_zeros(len(q), columns).index_add(1, phi[mapped], known[:, mapped])
        return target, known[:, ~mapped].sum(-1) + q[:, len(phi) :].sum(-1)

    # -- tiles --------------------------------------------------------------------------------------------------

    def tile(self, tile: Tile) -> TileLosses:
        """See `Objective.tile`. Gradients in closed form (method section 3)."""
        z, z_t, roots = tile.student, tile.teacher, tile.roots
        n = z.shape[1]
        log_z, log_z_t = column_logsumexp(z), column_logsumexp(z_t)
        is_child = torch.nonzero(tile.child >= 0).squeeze(1)
        found = self.sets.find(tile.action[is_child], (z_t, log_z_t, tile.child[is_child]), (z, log_z, is_child))

        def per_column(values: Tensor) -> Tensor:
            return z.new_zeros(n).index_add_(0, is_child, found.per_row(values, len(is_child)))

        mass = per_column(found.mass)
        target, rest = self._tile_targets(z_t, log_z_t, roots, len(z))
        outside = self._outside(len(z), z.device)
        z_outside = z[outside, :roots]
        log_rest = column_logsumexp(z_outside)
        reachable = log_rest > UNREACHABLE
        rest_loss = torch.special.xlogy(rest, rest) - rest * (log_rest - log_z[:roots])

        # Gradient: p times the target mass that the row's losses hold, minus the targets.
        scale = self.child_weight * mass
        scale[:roots] += torch.where(reachable, 1.0, 1.0 - rest)
        root, mean_z = z.new_zeros(n), z.new_zeros(n)
        for block in _blocks(z):
            z_b, t_b = z[block], target[block]
            root[:roots] += (torch.special.xlogy(t_b, t_b) - t_b * (z_b[:, :roots] - log_z[:roots])).sum(0)
            p = (z_b - log_z).exp_()
            mean_z += (p * z_b).sum(0)
            z_b.copy_(p.mul_(scale))
            z_b[:, :roots] -= t_b
        root[:roots] += torch.where(reachable, rest_loss, 0.0)
        # z_j outside U: p_j - t(⊥) p_j / p(⊥)
        share = (z_outside - log_rest).exp_().mul_(torch.where(reachable, rest, 0.0))
        z[:, :roots].index_add_(0, outside, share, alpha=-1)
        # The sets behind one action are disjoint: C_g's members in a column are distinct cells.
        share = found.mass[found.entry] * (found.log_member - found.log_p[found.entry]).exp()
        z.view(-1).index_add_(0, found.token * n + found.column, share, alpha=-self.child_weight)
        return TileLosses(
            root=root,
            child=per_column(-found.mass * found.log_p),
            entropy=log_z - mean_z,
            mass=mass,
            completed=per_column(found.mass * found.log_p.exp()),
            student_log_z=log_z,
            teacher_log_z=log_z_t,
        )

    def _tile_targets(self, z_t: Tensor, log_z_t: Tensor, roots: int, columns: int) -> tuple[Tensor, Tensor]:
        """t [columns, roots] and t(⊥) [roots] of the first `roots` teacher columns."""
        phi = self.pair.phi

        def padded() -> np.ndarray:
            # ⊥ gathers in one more row.
            return np.append(np.where(phi < 0, columns, phi), np.full(len(z_t) - len(phi), columns))

        index = self.tables(("phi", len(z_t), columns), z_t.device, padded)
        target = z_t.new_zeros(columns + 1, roots)
        for block in _blocks(z_t):
            target.index_add_(0, index[block], (z_t[block, :roots] - log_z_t[:roots]).exp_())
        return target[:-1], target[-1]

    def _outside(self, columns: int, device: torch.device) -> Tensor:
        """Columns of a student head of `columns` rows that are not in U."""
        inside = self.in_image

        def outside() -> np.ndarray:
            return np.append(np.flatnonzero(~inside), np.arange(len(inside), columns))

        return self.tables(("outside", columns), device, outside)


def _blocks(z: Tensor) -> list[slice]:
    size = _BLOCK if z.device.type == "cpu" else len(z)
    return [slice(i, min(i + size, len(z))) for i in range(0, len(z), size)]
