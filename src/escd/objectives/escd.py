"""Event-Set Completion Distillation: the root and child losses of the paper (3.1-3.3) and its ablation arms."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ..align import DIVERGED, Alignment
from ..pair import TokenizerPair
from .base import Objective, Tile, TileLosses, register
from .completion import COMPLETIONS, Completions, CompletionSets
from .maths import UNREACHABLE, column_logsumexp, expected_log, kl_with_complement, rest_logsumexp
from .options import HEAVIEST, check_choice, check_flag, check_number
from .rows import Links, Rows, count
from .steps import Steps, deeper_steps

# Rows of a tile that elementwise work touches at once on a CPU: small enough to stay in cache.
_BLOCK = 4096


@register
class ESCD(Objective):
    """Root loss plus `child_weight` times child loss (paper eq. 10).

    Args:
        pair: The two vocabularies.
        child_weight: Weight of the child loss, at most a million.
        mask_whitespace_roots: Rows whose sampled token is only spaces or tabs carry no root loss.
        completion: Which student tokens complete a residual: `set` (the paper's), `none` (root only), `single` (the
            token that phi would choose, if it completes), `exact` (no overshoot), `minimal` (the shortest), `deep` (as
            `set`; what no token completes is supervised where the sampled path stands next).
        completion_weight: `mass` (the paper's M_g), or `posterior`: M_g divided by the teacher's mass of all tokens
            that start with the bytes sampled since the root.
        rest_bin: KL over the completion sets and one bin for all other tokens, with the posterior as target.

    Raises:
        ConfigError: An option has none of these values; `child_weight` is negative or over a million.
    """

    name = "escd"
    title = "Event-Set Completion Distillation"
    paper = "2609.34738"
    tile_copies = 1

    def __init__(
        self,
        pair: TokenizerPair,
        *,
        child_weight: float = 1.0,
        mask_whitespace_roots: bool = True,
        completion: str = "set",
        completion_weight: str = "mass",
        rest_bin: bool = False,
    ):
        super().__init__(pair)
        self.child_weight = check_number("child_weight", child_weight, high=HEAVIEST)
        self.mask_whitespace_roots = check_flag("mask_whitespace_roots", mask_whitespace_roots)
        self.rest_bin = check_flag("rest_bin", rest_bin)
        weight = check_choice("completion_weight", completion_weight, ("mass", "posterior"))
        self.posterior = self.rest_bin or weight == "posterior"
        self.sets = CompletionSets(pair, check_choice("completion", completion, COMPLETIONS))
        self.deep = completion == "deep"

    # -- which rows ---------------------------------------------------------------------------------------------

    def rows(self, alignment: Alignment) -> Rows:
        """See `Objective.rows`."""
        ids = alignment.student_ids
        n = len(ids)
        row_s, row_t = np.ascontiguousarray(alignment.roots.T)
        blank = np.zeros(n, bool)
        if self.mask_whitespace_roots:
            blank[row_s] = self.pair.student.is_blank[ids[row_s]]
        steps = self.steps(alignment)
        has_root = ~blank[row_s]
        needed = has_root.copy()
        needed[steps.root] = True
        index = np.cumsum(needed) - 1
        root = np.full(n, -1)
        root[row_s] = np.where(has_root, index, -1)
        is_child = np.zeros(n, bool)
        is_child[steps.row] = True
        idle = (root < 0) & ~is_child
        active = np.flatnonzero(~idle)
        place = np.cumsum(~idle) - 1
        counts = count(alignment, row_s[has_root], steps.row, blank)
        links = Links(place[steps.row], index[steps.root], steps.action, steps.low, steps.high, steps.entries)
        return Rows(active, row_t[needed], root[active], links, None, counts, n)

    def steps(self, alignment: Alignment) -> Steps:
        """The child rows of a response."""
        ids, status, row_s = alignment.student_ids, alignment.status, alignment.roots[:, 0]
        # Roots whose sampled token opens groups, with a child row in this response that is supervised.
        opens = self.opens(ids[row_s])
        if len(row_s) and row_s[-1] + 1 == len(ids):
            opens[-1] = False
        root = np.flatnonzero(opens)
        root = root[status[row_s[root] + 1] != DIVERGED]
        action = ids[row_s[root]]
        none = np.zeros(len(root), np.int64)
        low, high = self.compatible[action].T if self.posterior else (none, none)
        steps = Steps(root, row_s[root] + 1, action, low, high)
        return deeper_steps(self.pair, alignment, steps) if self.deep else steps

    def opens(self, actions: np.ndarray) -> np.ndarray:
        """bool [N]: whether sampling each of the student tokens [N] opens a group that something completes."""
        return self.sets.count[actions] > 0

    def find(self, links: Links, teacher: tuple[Tensor, Tensor], student: tuple[Tensor, Tensor]) -> Completions:
        """The groups behind links and what completes them; arguments as of `CompletionSets.find`."""
        return self.sets.find(links, teacher, student, self.posterior)

    @cached_property
    def compatible(self) -> np.ndarray:
        """int64 [V_S, 2]: the run of the teacher's tokens that start with each student token's bytes."""
        runs = [self.pair.starting_with(b) if b else (0, 0, 0) for b in self.pair.student.token_bytes]
        return np.array(runs, np.int64).reshape(-1, 3)[:, ::2]

    # -- dense reference ----------------------------------------------------------------------------------------

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        log_p, log_q = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        root = torch.from_numpy(rows.root).to(log_p.device)
        is_root = root >= 0
        target, rest = self._project(log_q[root[is_root]].exp(), log_p.shape[1])
        inside = torch.zeros(log_p.shape[1], dtype=torch.bool, device=log_p.device)
        inside[: len(self.pair.image)] = torch.from_numpy(self.pair.image).to(log_p.device)
        root_loss = log_p.new_zeros(len(root)).masked_scatter(
            is_root, kl_with_complement(target, rest, log_p[is_root], inside)
        )
        return root_loss, self.child_losses(log_p, log_q, rows)

    def child_losses(self, log_p: Tensor, log_q: Tensor, rows: Rows) -> Tensor:
        """Child losses [A] from log-probabilities [A, C_S] and [R, C_T] (method sections 3 and 7)."""
        links = rows.links
        # Both are log-probabilities, so their partition functions are 1.
        normal_t, normal_s = log_q.new_zeros(len(log_q)), log_p.new_zeros(len(log_p))
        found = self.find(links, (log_q.T, normal_t), (log_p.T, normal_s))
        child = torch.from_numpy(links.child).to(log_p.device)
        weight = found.weight
        loss = -found.per_link(expected_log(weight, found.log_p), len(links))
        if self.rest_bin:
            assert found.whole is not None  # weights are posteriors
            rest = (found.whole - found.per_link(weight, len(links))).clamp_min(0)
            outside = torch.ones(len(links), log_p.shape[1], dtype=torch.bool, device=log_p.device)
            outside[found.link[found.entry], found.token] = False
            log_rest, some = rest_logsumexp(log_p[child], outside)
            entropy = found.per_link(torch.special.xlogy(weight, weight), len(links))
            loss = loss + entropy
            loss = loss + torch.where(some, torch.special.xlogy(rest, rest) - rest * log_rest, 0.0)
        return log_p.new_zeros(len(log_p)).index_add(0, child, loss)

    def _project(self, q: Tensor, columns: int) -> tuple[Tensor, Tensor]:
        """t and t(⊥) of method section 2 from q [R, C_T]: [R, columns], [R]. Padded teacher columns belong to ⊥."""
        phi = self.tables("phi", q.device, lambda: self.pair.phi)
        mapped = phi >= 0
        known = q[:, : len(phi)]
        target = q.new_zeros(len(q), columns).index_add(1, phi[mapped], known[:, mapped])
        return target, known[:, ~mapped].sum(-1) + q[:, len(phi) :].sum(-1)

    # -- tiles --------------------------------------------------------------------------------------------------

    def tile(self, tile: Tile) -> TileLosses:
        """See `Objective.tile`. Gradients in closed form (method section 3), but for the rest bin."""
        if self.rest_bin:
            return super().tile(tile)
        z, z_t, links = tile.student, tile.teacher, tile.rows.links
        n, roots = z.shape[1], int((tile.rows.root >= 0).sum())
        log_z, log_z_t = column_logsumexp(z), column_logsumexp(z_t)
        found = self.find(links, (z_t, log_z_t), (z, log_z))
        weight = found.weight

        def per_column(values: Tensor) -> Tensor:
            return found.per_column(values, links, n)

        # Gradient: p times the target mass that the row's losses hold, minus the targets.
        scale = self.child_weight * per_column(weight)
        root, mean_z = self._root_part((z, log_z), (z_t, log_z_t), roots, scale)
        share = weight[found.entry] * (found.log_member - found.log_p[found.entry]).exp()
        z.view(-1).index_add_(0, found.token * n + found.column, share, alpha=-self.child_weight)
        return TileLosses(
            root=root,
            child=per_column(-weight * found.log_p),
            entropy=log_z - mean_z,
            mass=per_column(found.mass),
            completed=per_column(found.mass * found.log_p.exp()),
            student_log_z=log_z,
            teacher_log_z=log_z_t,
        )

    def _root_part(
        self, student: tuple[Tensor, Tensor], teacher: tuple[Tensor, Tensor], roots: int, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Root losses [n] and mean logits [n] of a tile whose first `roots` columns are roots.

        Turns the student's logits into p times the target mass, of which `scale` [n] holds the child losses', minus
        the targets of the root loss.
        """
        (z, log_z), (z_t, log_z_t) = student, teacher
        target, rest = self._tile_targets(z_t, log_z_t, roots, len(z))
        outside = self._outside(len(z), z.device)
        z_outside = z[outside, :roots]
        log_rest = column_logsumexp(z_outside)
        reachable = log_rest > UNREACHABLE
        rest_loss = torch.special.xlogy(rest, rest) - rest * (log_rest - log_z[:roots])
        scale[:roots] += torch.where(reachable, 1.0, 1.0 - rest)
        root, mean_z = torch.zeros_like(log_z), torch.zeros_like(log_z)
        for block in blocks(z):
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
        return root, mean_z

    def _tile_targets(self, z_t: Tensor, log_z_t: Tensor, roots: int, columns: int) -> tuple[Tensor, Tensor]:
        """t [columns, roots] and t(⊥) [roots] of the first `roots` teacher columns."""
        index = self.cells(columns, len(z_t), z_t.device)
        target = z_t.new_zeros(columns + 1, roots)  # ⊥ gathers in one more row
        for block in blocks(z_t):
            target.index_add_(0, index[block], (z_t[block, :roots] - log_z_t[:roots]).exp_())
        return target[:-1], target[-1]

    def _outside(self, columns: int, device: torch.device) -> Tensor:
        """Columns of a student head of `columns` rows that are not in U."""
        inside = self.pair.image

        def outside() -> np.ndarray:
            return np.append(np.flatnonzero(~inside), np.arange(len(inside), columns))

        return self.tables(("outside", columns), device, outside)


def blocks(z: Tensor) -> list[slice]:
    """Rows of a tile in slices that elementwise work goes through one by one."""
    size = _BLOCK if z.device.type == "cpu" else len(z)
    return [slice(i, min(i + size, len(z))) for i in range(0, len(z), size)]
