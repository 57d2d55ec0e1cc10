"""ESCD with a sparse teacher: only its k most likely tokens of a row are known, with their probabilities.

The candidates of a row are the retained tokens, so groups, representatives and masses are built per row from them
(method section 3), and U is what the retained tokens enter by. All mass that was not retained is in ⊥.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..pair import TokenizerPair
from .base import register
from .completion import Completions, completed
from .escd import ESCD, blocks
from .maths import FLOOR, UNREACHABLE, column_logsumexp, expected_log, rest_logsumexp, segment_sum
from .options import check_choice
from .rows import Links, Rows
from .tables import DeviceTables

_ARMS = ("set", "none", "single", "exact")


@register
class TopKESCD(ESCD):
    """Root loss plus `child_weight` times child loss from teacher rows in which most logits are -inf.

    A column of the teacher's logits beyond its vocabulary holds what was not retained.

    Args:
        pair: The two vocabularies.
        child_weight: Weight of the child loss.
        mask_whitespace_roots: Rows whose sampled token is only spaces or tabs carry no root loss.
        completion: As of `ESCD`: `set`, `none`, `single` or `exact`.

    Raises:
        ConfigError: `completion` is none of these, or `child_weight` is negative.
    """

    name = "escd-topk"
    title = "Event-Set Completion Distillation from a teacher's most likely tokens"
    tile_copies = 2

    def __init__(
        self,
        pair: TokenizerPair,
        *,
        child_weight: float = 1.0,
        mask_whitespace_roots: bool = True,
        completion: str = "set",
    ):
        check_choice("completion", completion, _ARMS)
        super().__init__(
            pair, child_weight=child_weight, mask_whitespace_roots=mask_whitespace_roots, completion="none"
        )
        self.groups = RowGroups(pair, completion, self.compatible)

    def opens(self, actions: np.ndarray) -> np.ndarray:
        """Whether each of the student tokens [N] may open a group, whichever tokens are retained."""
        return self.groups.high[actions] > self.groups.low[actions]

    def find(self, links: Links, teacher: tuple[Tensor, Tensor], student: tuple[Tensor, Tensor]) -> Completions:
        """See `ESCD.find`."""
        return self.groups.find(links, teacher, student)

    # -- dense reference ----------------------------------------------------------------------------------------

    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """See `Objective.losses`."""
        log_p, log_q = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        root = torch.from_numpy(rows.root).to(log_p.device)
        is_root = root >= 0
        known, p = log_q[root[is_root]], log_p[is_root]
        target, rest = self._project(known.exp(), log_p.shape[1])
        inside = torch.zeros_like(p, dtype=torch.bool)
        row, token = (known[:, : len(self.pair.teacher)] > UNREACHABLE).nonzero(as_tuple=True)
        entered = self.phi(log_p.device)[token]
        inside[row[entered >= 0], entered[entered >= 0]] = True
        loss = (torch.special.xlogy(target, target) - expected_log(target, p)).sum(1)
        log_rest, some = rest_logsumexp(p, ~inside)
        loss = loss + torch.where(some, torch.special.xlogy(rest, rest) - rest * log_rest, 0.0)
        return log_p.new_zeros(len(root)).masked_scatter(is_root, loss), self.child_losses(log_p, log_q, rows)

    # -- tiles --------------------------------------------------------------------------------------------------

    def _root_part(
        self, student: tuple[Tensor, Tensor], teacher: tuple[Tensor, Tensor], roots: int, scale: Tensor
    ) -> tuple[Tensor, Tensor]:
        """See `ESCD._root_part`; here each column has its own few tokens in U."""
        (z, log_z), (z_t, log_z_t) = student, teacher
        target, rest = self._tile_targets(z_t, log_z_t, roots, len(z))
        token, column = (z_t[: len(self.pair.teacher), :roots] > UNREACHABLE).nonzero(as_tuple=True)
        entered = self.phi(z.device)[token]
        u, column = torch.unique(torch.stack([entered, column])[:, entered >= 0], dim=1)
        z_u = z[u, column]
        z[u, column] = FLOOR
        log_rest = column_logsumexp(z[:, :roots])
        z[u, column] = z_u
        reachable = log_rest > UNREACHABLE
        rest_loss = torch.special.xlogy(rest, rest) - rest * (log_rest - log_z[:roots])
        pulled = torch.where(reachable, rest, 0.0)
        scale[:roots] += torch.where(reachable, 1.0, 1.0 - rest)
        t_u = target[u, column]
        del target
        root, mean_z = torch.zeros_like(log_z), torch.zeros_like(log_z)
        root[:roots] = segment_sum(torch.special.xlogy(t_u, t_u) - t_u * (z_u - log_z[column]), column, roots)
        root[:roots] += torch.where(reachable, rest_loss, 0.0)
        for block in blocks(z):
            z_b = z[block]
            outside = (z_b[:, :roots] - log_rest).exp_().mul_(pulled)
            p = (z_b - log_z).exp_()
            mean_z += (p * z_b).sum(0)
            z_b.copy_(p.mul_(scale))
            z_b[:, :roots] -= outside
        # Columns in U are no part of ⊥.
        z[u, column] = (z_u - log_z[column]).exp() * scale[column] - t_u
        return root, mean_z

    def phi(self, device: torch.device) -> Tensor:
        """See `TokenizerPair.phi`."""
        return self.tables("phi", device, lambda: self.pair.phi)


class RowGroups:
    """Groups of retained tokens, row by row, and the student tokens that complete them.

    Candidates sorted by bytes are nested or disjoint runs: those that start with one of them follow it. So a retained
    token opens a group unless it lies in the run of a retained one before it, and that one's run holds its members.

    Args:
        pair: The two vocabularies.
        arm: `set`, `none`, `single` or `exact`.
        compatible: int64 [V_S, 2], the run of `pair.teacher_order` that starts with each student token.

    Attributes:
        place: int64 [V_T], position of each teacher token among the candidates sorted by bytes, -1 for others.
        end: int64 [N], where the run of candidates that start with each ends.
        low, high: int64 [V_S], the run of candidates that start with each student token.
    """

    def __init__(self, pair: TokenizerPair, arm: str, compatible: np.ndarray):
        self.pair, self.arm, self.tables = pair, arm, DeviceTables()
        table = pair.teacher.token_bytes
        self._keys = [table[v] or b"" for v in pair.candidates]
        self.place = np.full(len(pair.teacher), -1)
        self.place[pair.candidates] = np.arange(len(self._keys))
        self.end = np.array(_run_ends(self._keys), np.int64)
        # None of them equals a student token, so all that start with one are longer.
        before = np.append(0, np.cumsum(pair.group_of[pair.teacher_order] >= 0))
        self.low, self.high = before[compatible].T if arm != "none" else np.zeros((2, len(pair.student)), np.int64)
        self._members = lru_cache(maxsize=2**16)(self._find_members)

    def find(self, links: Links, teacher: tuple[Tensor, Tensor], student: tuple[Tensor, Tensor]) -> Completions:
        """As `CompletionSets.find`, with the groups of each row's retained tokens."""
        z_t, log_z_t = teacher
        device = z_t.device
        token, row = (z_t[: len(self.place)] > UNREACHABLE).nonzero(as_tuple=True)
        token, row = token.cpu().numpy(), row.cpu().numpy()
        order = np.lexsort((self.place[token], row))
        token, row = token[order], row[order]
        token, row = token[self.place[token] >= 0], row[self.place[token] >= 0]
        place, base = self.place[token], row * (len(self._keys) + 1)
        before = np.maximum.accumulate(np.append(-1, base + self.end[place]))[:-1]
        opens = base + place >= before
        group_row, leader = row[opens], place[opens]
        # Every link with every group of its root row, of which those count that its sampled token leads into.
        first = np.searchsorted(group_row, links.parent, side="left")
        count = np.searchsorted(group_row, links.parent, side="right") - first
        link = np.repeat(np.arange(len(links)), count)
        group = np.arange(len(link)) - np.repeat(np.cumsum(count) - count - first, count)
        action = links.action[link]
        entered = (self.low[action] <= leader[group]) & (leader[group] < self.high[action])
        link, group, action = link[entered], group[entered], action[entered]
        lengths = self.pair.student.byte_lengths[action]
        runs = [self._members(*key) for key in zip(leader[group].tolist(), lengths.tolist(), strict=True)]
        start, size = np.array(runs, np.int64).reshape(-1, 2).T
        some = size > 0
        link, group, start, size = (torch.from_numpy(x[some]).to(device) for x in (link, group, start, size))
        number = torch.from_numpy(np.cumsum(opens) - 1).to(device)
        at, column = torch.from_numpy(token).to(device), torch.from_numpy(row).to(device)
        mass = segment_sum((z_t[at, column] - log_z_t[column]).exp(), number, len(leader))[group]
        members = self.tables("members", device, lambda: self.pair.student_order)
        return completed(links, link, mass, mass, None, members, start, size, student)

    def _find_members(self, leader: int, sampled: int) -> tuple[int, int]:
        """Start and size of the run of `student_order` that completes a candidate of which some bytes are sampled."""
        low, exact, high = self.pair.starting_with(self._keys[leader][sampled:], "student")
        if self.arm == "single":
            high = min(low + 1, exact)
        elif self.arm == "exact":
            high = exact
        return low, high - low


def _run_ends(keys: list[bytes]) -> list[int]:
    """For each of some sorted keys where the run of those that start with it ends."""
    ends, open_runs = [len(keys)] * len(keys), []
    for place, key in enumerate(keys):
        while open_runs and not key.startswith(keys[open_runs[-1]]):
            ends[open_runs.pop()] = place
        open_runs.append(place)
    return ends
