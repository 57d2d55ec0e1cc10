"""Completion sets C_g as index arrays (paper 3.3, eq. 4-5; ablation arms: method section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..pair import TokenizerPair
from .maths import UNREACHABLE, ragged, segment_logsumexp, segment_sum
from .rows import Links
from .tables import DeviceTables

COMPLETIONS = ("set", "none", "single", "exact", "minimal", "deep")


@dataclass(frozen=True)
class Completions:
    """The eligible groups with a non-empty completion set behind K links: E entries with M members.

    Attributes:
        link: int64 [E], the link of each entry.
        mass: [E], M_g, the teacher's probability of the group at the root row.
        weight: [E], what each is weighted by: `mass`, or the posterior.
        whole: [K], what posteriors add up to with the rest bin: 1, or 0 where the teacher rules out all that starts
            with the bytes sampled, which has no posterior. None where `weight` is `mass`.
        log_p: [E], log P_g, the student's log-probability of the set at the child row.
        token, column: int64 [M], student token and column of the logits of each member.
        entry: int64 [M], its entry.
        log_member: [M], its log-probability.
    """

    link: Tensor
    mass: Tensor
    weight: Tensor
    whole: Tensor | None
    log_p: Tensor
    token: Tensor
    column: Tensor
    entry: Tensor
    log_member: Tensor

    def per_link(self, values: Tensor, links: int) -> Tensor:
        """Sum of `values` [E] over the entries of each of K `links`."""
        return segment_sum(values, self.link, links)

    def per_column(self, values: Tensor, links: Links, columns: int) -> Tensor:
        """Sum of `values` [E] at each of the `columns` of student logits, where the children of the links stand."""
        child = torch.from_numpy(links.child).to(values.device)
        return values.new_zeros(columns).index_add_(0, child, self.per_link(values, len(links)))


def completed(
    links: Links,
    link: Tensor,
    mass: Tensor,
    weight: Tensor,
    whole: Tensor | None,
    members: Tensor,
    first: Tensor,
    size: Tensor,
    student: tuple[Tensor, Tensor],
) -> Completions:
    """Completions of entries whose members are `members[first:first + size]`, with the student's probabilities."""
    z_s, log_z_s = student
    member, of_set = ragged(first, size)
    token, column = members[member], torch.from_numpy(links.child).to(z_s.device)[link[of_set]]
    log_member = z_s[token, column] - log_z_s[column]
    log_p = segment_logsumexp(log_member, of_set, len(link))
    return Completions(link, mass, weight, whole, log_p, token, column, of_set, log_member)


class CompletionSets:
    """The completion sets of a pair under one arm, without the empty ones.

    Args:
        pair: The two vocabularies.
        arm: One of `COMPLETIONS`.

    Attributes:
        pair, arm: As given.
        start, count: int64 [V_S], the entries that each sampled student token opens.
        group: int64 [E], group of each entry.
        low, size: int64 [E], its members are `members[low:low + size]`.
        members: int64, student token ids.
    """

    def __init__(self, pair: TokenizerPair, arm: str):
        self.pair, self.arm = pair, arm
        low, high, self.members = pair.range_low, pair.range_high, pair.student_order
        if arm == "none":
            high = low
        elif arm == "exact":
            high = pair.range_exact
        elif arm == "single":
            # The longest student token that the residual starts with completes it only if it is the residual.
            high = np.minimum(low + 1, pair.range_exact)
        elif arm == "minimal":
            low, high, self.members = _shortest(pair)
        kept = high > low
        before = np.concatenate([[0], np.cumsum(kept)])
        self.start = before[pair.entry_start]
        self.count = before[pair.entry_start + pair.entry_count] - self.start
        self.group, self.low, self.size = pair.entry_group[kept], low[kept], (high - low)[kept]
        self._tables = DeviceTables()

    def find(
        self,
        links: Links,
        teacher: tuple[Tensor, Tensor],
        student: tuple[Tensor, Tensor],
        posterior: bool = False,
    ) -> Completions:
        """Masses and probabilities of the groups that the links open.

        Args:
            links: The child rows.
            teacher: Logits [C_T, m] with one column per row, and their log-partition functions [m].
            student: The same for the student, [C_S, n], [n].
            posterior: Whether events are weighted by M_g divided by the teacher's probability of all tokens that start
                with the bytes sampled since the root, which may be too small for a float.
        """
        (z_t, log_z_t), (z_s, log_z_s) = teacher, student
        device = z_s.device
        t = self._on(device)
        parent, action, low, high = (
            torch.from_numpy(getattr(links, name)).to(device) for name in ("parent", "action", "low", "high")
        )
        # Action -1 stands for a link whose sets are all given as entries of its own.
        entry, link = ragged(t["start"][action.clamp_min(0)], torch.where(action < 0, 0, t["count"][action]))
        group, first_member, size = (t[name][entry] for name in ("group", "low", "size"))
        if links.entries.shape[1]:
            given = torch.from_numpy(links.entries).to(device)
            link, group, first_member, size = (
                torch.cat(both) for both in zip((link, group, first_member, size), given, strict=True)
            )
        first = t["group_start"][group]
        candidate, of_entry = ragged(first, t["group_start"][group + 1] - first)

        def log_q(token: Tensor, of_link: Tensor) -> Tensor:
            column = parent[of_link]
            return z_t[token, column] - log_z_t[column]

        log_candidate = log_q(t["candidates"][candidate], link[of_entry])
        mass = weight = segment_sum(log_candidate.exp(), of_entry, len(link))
        whole = None
        if posterior:
            place, of_link = ragged(low, high - low)
            order = self._tables("teacher_order", device, lambda: self.pair.teacher_order)
            log_whole = segment_logsumexp(log_q(order[place], of_link), of_link, len(links))
            log_mass = segment_logsumexp(log_candidate, of_entry, len(link))
            some = log_whole > UNREACHABLE
            weight = (log_mass - torch.where(some, log_whole, torch.inf)[link]).exp()
            whole = some.to(mass.dtype)
        return completed(links, link, mass, weight, whole, t["members"], first_member, size, (z_s, log_z_s))

    def _on(self, device: torch.device) -> dict[str, Tensor]:
        owners: dict[str, Any] = dict.fromkeys(("start", "count", "group", "low", "size", "members"), self)
        owners |= dict.fromkeys(("group_start", "candidates"), self.pair)
        return {name: self._tables(name, device, partial(getattr, owner, name)) for name, owner in owners.items()}


def _shortest(pair: TokenizerPair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each entry the shortest members of its range, as ranges of an array of their own."""
    lengths = pair.student.byte_lengths[pair.student_order]
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    parts: list[np.ndarray] = []
    size = 0
    for low, high in dict.fromkeys(zip(pair.range_low.tolist(), pair.range_high.tolist(), strict=True)):
        here = lengths[low:high]
        chosen = pair.student_order[low:high][here == here.min(initial=pair.student.max_length)]
        spans[low, high] = (size, size + len(chosen))
        parts.append(chosen)
        size += len(chosen)
    table = np.array([spans[k] for k in zip(pair.range_low.tolist(), pair.range_high.tolist(), strict=True)], np.int64)
    low, high = table.reshape(-1, 2).T
    return low, high, np.concatenate([np.zeros(0, np.int64), *parts])
