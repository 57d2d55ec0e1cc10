"""What the page shows of a response: rows, events and numbers, as lists that JSON holds.

Tokens stand for themselves as ids, groups as their numbers in the pair; `Inspector.names` spells those that were used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..align import STATUS, Alignment, align
from ..errors import ConfigError, StudentError, TeacherError
from ..objectives.completion import Completions, CompletionSets
from ..objectives.escd import ESCD
from ..objectives.rows import Links, Rows

Scores = Callable[[np.ndarray], Tensor]
"""Rows of a response -> their logits [rows, C], at least single precision."""

# How many of each a row lists; the rest is summed up.
TARGETS, GROUPS, TOKENS = 8, 8, 6
# What has less of the teacher's probability is never listed, but for the sampled and the teacher's own token.
_LEAST = 1e-5
# Logits in memory at once.
_NUMBERS = 4_000_000


@dataclass(frozen=True)
class _Tile:
    """Some rows: p [n, C_S] with root and child losses [n], q [m, C_T], and the events behind their links."""

    p: np.ndarray
    q: np.ndarray
    root: np.ndarray
    child: np.ndarray
    found: Completions


class Inspector:
    """Makes records of responses of one pair.

    Args:
        objective: Whose rows, events and losses are shown.

    Raises:
        ConfigError: Its child loss is no sum over completion sets.
    """

    def __init__(self, objective: ESCD):
        if objective.rest_bin:
            raise ConfigError("rest_bin cannot be inspected; leave it out")
        self.objective, self.pair = objective, objective.pair
        self._used: dict[str, set[int]] = {"student": set(), "teacher": set(), "groups": set()}

    def record(
        self, student_ids: Sequence[int], teacher_ids: Sequence[int], scores: tuple[Scores, Scores] | None = None
    ) -> dict[str, Any]:
        """One response.

        Args:
            student_ids: The response as sampled, its stop included if it has one.
            teacher_ids: The same bytes in teacher ids.
            scores: Logits of the student and of the teacher; without them nothing has a probability or a loss.

        Returns:
            student, teacher: the ids.
            common: bytes on which both agree.
            status: why each student row is (not) at a teacher boundary, see `escd.align.STATUS`.
            kind: of each student row root, child, both, or the reason for neither: interior, blank (masked spaces),
                no_teacher_row, diverged.
            teacher_row: for each student row the teacher row at its offset, -1 if it is none.
            root, child: losses of each row in nats, or None.
            entries: student row -> how teacher tokens enter there: `phi` of the teacher's own token, -1 for ⊥;
                `targets`, each `[u, number of teacher tokens with phi = u, some of them]`, and with scores also `t, p,
                loss, [q of each]`; `rest`, None or `[number, t, p, loss]` of those that are not listed.
            links: child rows, each `{root, child, path, groups, rest}`: student rows, number of bytes sampled
                between them, groups `[g, size of C_g, some of it]`, with scores also `M_g, weight, P_g, loss, [p of
                each]`; `rest` as above: `[number, M, loss]`, without scores `[number]`.
            unfinished: student row -> `[number, groups, M, [M_g of each]]` of groups opened there whose completion
                set is empty; M is None without scores.

        Raises:
            AlignError: An id lies outside its vocabulary.
            StudentError, TeacherError: Logits are NaN.
        """
        alignment = align(self.pair, student_ids, teacher_ids)
        rows = self.objective.rows(alignment)
        ids_s, ids_t = alignment.student_ids.tolist(), alignment.teacher_ids.tolist()
        self._used["student"].update(ids_s)
        self._used["teacher"].update(ids_t)
        teacher_row = np.full(len(ids_s), -1)
        teacher_row[alignment.roots[:, 0]] = alignment.roots[:, 1]
        record = {
            "student": ids_s, "teacher": ids_t, "common": alignment.common,
            "status": [STATUS[s] for s in alignment.status], "kind": _kinds(alignment, rows),
            "teacher_row": teacher_row.tolist(), "root": None, "child": None,
            "entries": {}, "links": [{}] * len(rows.links), "unfinished": {},
        }  # fmt: skip
        for row, (groups, some) in self._unfinished(alignment).items():
            record["unfinished"][row] = [len(groups), self._note("groups", some), None, None]
        if scores is None:
            for row in rows.student[rows.root >= 0].tolist():
                record["entries"][row] = self._static_entry(ids_s[row], ids_t[teacher_row[row]])
            self._links(record, alignment, rows.links, np.arange(len(rows.links)), rows.student, None)
        else:
            record["root"], record["child"] = [0.0] * len(ids_s), [0.0] * len(ids_s)
            self._score(record, alignment, rows, scores)
        return record

    def names(self) -> dict[str, dict[int, Any]]:
        """Of all records so far: for each token its bytes in hex, or the spelling of one that is not content as
        `[spelling]`; for each group hex bytes of its representative, its size, and some of its teacher tokens."""
        found: dict[str, dict[int, Any]] = {"groups": {}}
        for g in sorted(self._used["groups"]):
            low, high = self.pair.group_start[g : g + 2].tolist()
            some = self._note("teacher", self.pair.candidates[low : min(high, low + TOKENS)])
            found["groups"][g] = [self.pair.group_bytes[g].hex(), high - low, some]
        for who, vocab in (("student", self.pair.student), ("teacher", self.pair.teacher)):
            found[who] = {
                i: b.hex() if (b := vocab.token_bytes[i]) else [vocab.special_tokens.get(i, f"token {i}")]
                for i in sorted(self._used[who])
            }
        return found

    # -- entry ------------------------------------------------------------------------------------------------------

    def _static_entry(self, action: int, realised: int) -> dict[str, Any]:
        """The cell that the teacher's own token enters, and that of the sampled token."""
        phi = int(self.pair.phi[realised])
        cells = [u for u in dict.fromkeys([phi, action]) if u < 0 or self.pair.image[u]]
        return {"phi": phi, "targets": [self._target(u, realised) for u in cells], "rest": None}

    def _target(self, u: int, realised: int, q: np.ndarray | None = None) -> list[Any]:
        tokens = self._entering(u)
        shown = _first(tokens, self.pair.teacher.byte_lengths[tokens] if q is None else -q[tokens], TOKENS)
        if self.pair.phi[realised] == u and realised not in shown:
            shown[-1] = realised
        self._note("student", [u][: u >= 0])
        told = [u, len(tokens), self._note("teacher", shown)]
        return told if q is None else [*told, [_short(x) for x in q[shown]]]

    def _entry(
        self, p: np.ndarray, q: np.ndarray, t: np.ndarray, loss: float, action: int, realised: int
    ) -> dict[str, Any]:  # fmt: skip
        """The likeliest cells of a root row, those of a static entry, and ⊥; t [C_S + 1] has that of ⊥ last."""
        inside = np.zeros(len(p), bool)
        inside[: len(self.pair.image)] = self.pair.image
        image = np.flatnonzero(inside)
        phi = int(self.pair.phi[realised])
        likely = [u for u in _first(image, -t[image], TARGETS).tolist() if t[u] >= _LEAST]
        shown = [u for u in dict.fromkeys([*likely, phi, action]) if u >= 0 and inside[u]]
        cells = [(u, float(t[u]), float(p[u])) for u in shown] + [(-1, float(t[-1]), float(p[~inside].sum()))]
        targets, told = [], 0.0
        for u, mass, probability in cells:
            # A student that has nothing to place outside U has no bin ⊥ (see docs/design.md).
            part = 0.0 if u < 0 and not probability else _kl(mass, probability)
            told += part
            *head, each = self._target(u, realised, q)
            targets.append([*head, _short(mass), _short(probability), _short(part), each])
        inside[shown] = False
        left = [t[:-1][inside].sum(), p[inside].sum(), loss - told]
        rest = [int(inside.sum()), *map(_short, left)] if inside.any() else None
        return {"phi": phi, "targets": targets, "rest": rest}

    @cached_property
    def _by_phi(self) -> np.ndarray:
        return np.argsort(self.pair.phi, kind="stable")

    def _entering(self, u: int) -> np.ndarray:
        """Teacher tokens with phi = u."""
        low, high = np.searchsorted(self.pair.phi, [u, u + 1], sorter=self._by_phi)
        return self._by_phi[low:high]

    # -- completion -------------------------------------------------------------------------------------------------

    def _links(
        self, record: dict[str, Any], alignment: Alignment, links: Links, which: np.ndarray, rows: np.ndarray,
        tile: _Tile | None,
    ) -> None:  # fmt: skip
        """Fill in some child rows: `links` are those numbered `which`, their child rows are `rows[links.child]`."""
        steps, sets = self.objective.steps(alignment), self.objective.sets
        of_link, group, low, size = _entries(sets, links)
        order = np.argsort(of_link, kind="stable")
        entries_of = np.split(order, np.searchsorted(of_link, np.arange(1, len(links)), sorter=order))
        if tile is not None:
            mass, weight, log_p = (x.numpy() for x in (tile.found.mass, tile.found.weight, tile.found.log_p))
            loss = -np.multiply(weight, log_p, out=np.zeros_like(weight), where=weight > 0)
        for k, (number, entries) in enumerate(zip(which.tolist(), entries_of, strict=False)):
            root, child = int(alignment.roots[steps.root[number], 0]), int(rows[links.child[k]])
            key = self._group_lengths[group[entries]] if tile is None else -mass[entries]
            shown = _first(entries, key, GROUPS)
            if tile is not None:
                shown = shown[(mass[shown] >= _LEAST) | (shown == shown[0])]
            left = np.setdiff1d(entries, shown)
            groups = []
            for e in shown.tolist():
                members = sets.members[low[e] : low[e] + size[e]]
                numbers = [] if tile is None else [mass[e], weight[e], math.exp(log_p[e]), loss[e]]
                groups.append(self._set(int(group[e]), members, numbers, tile and tile.p[links.child[k]]))
            sums = [] if tile is None else [_short(x[left].sum()) for x in (mass, loss)]
            record["links"][number] = {
                "root": root, "child": child, "path": int(alignment.offsets[child] - alignment.offsets[root]),
                "groups": groups, "rest": [len(left), *sums] if len(left) else None,
            }  # fmt: skip

    def _set(self, group: int, members: np.ndarray, numbers: list[float], p: np.ndarray | None) -> list[Any]:
        """A group with its completion set: the likeliest members, or without probabilities the shortest."""
        key = self.pair.student.byte_lengths[members] if p is None else -p[members]
        shown = _first(members, key, TOKENS)
        told = [*self._note("groups", [group]), len(members), self._note("student", shown), *map(_short, numbers)]
        return told if p is None else [*told, [_short(x) for x in p[shown]]]

    @cached_property
    def _group_lengths(self) -> np.ndarray:
        """int64 [G]: bytes of each representative."""
        return np.fromiter(map(len, self.pair.group_bytes), np.int64, len(self.pair.group_bytes))

    def _unfinished(self, alignment: Alignment) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Root row -> the groups opened there that no student token completes at the next row, and some of them."""
        pair, sets, found = self.pair, self.objective.sets, {}
        known: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for row in alignment.roots[:, 0].tolist():
            action = int(alignment.student_ids[row])
            if action not in known:
                start, count = int(pair.entry_start[action]), int(pair.entry_count[action])
                kept = sets.group[sets.start[action] : sets.start[action] + sets.count[action]]
                groups = np.setdiff1d(pair.entry_group[start : start + count], kept)
                known[action] = groups, _first(groups, self._group_lengths[groups], TOKENS)
            if len(known[action][0]) and row + 1 < len(alignment.student_ids):
                found[row] = known[action]
        return found

    def _group_masses(self, q: np.ndarray) -> np.ndarray:
        """[G] from q [C_T]."""
        return np.add.reduceat(q[self.pair.candidates], self.pair.group_start[:-1])

    # -- scores -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _score(self, record: dict[str, Any], alignment: Alignment, rows: Rows, scores: tuple[Scores, Scores]) -> None:
        unfinished = self._unfinished(alignment)
        width = max(len(self.pair.student), len(self.pair.teacher))
        for part, teacher, tile in rows.tiles(max(1, _NUMBERS // width)):
            here = rows.student[part]
            found = self._tile(scores, here, rows.teacher[teacher], tile)
            cells = self.objective.cells(found.p.shape[1], found.q.shape[1], torch.device("cpu")).numpy()
            for i, row in enumerate(here.tolist()):
                record["root"][row], record["child"][row] = _short(found.root[i]), _short(found.child[i])
                if tile.root[i] >= 0:
                    q = found.q[tile.root[i]]
                    t = np.bincount(cells, q, found.p.shape[1] + 1)
                    ids = record["student"][row], record["teacher"][record["teacher_row"][row]]
                    record["entries"][row] = self._entry(found.p[i], q, t, float(found.root[i]), *ids)
            which = np.flatnonzero(np.isin(rows.links.child, part))
            self._links(record, alignment, tile.links, which, here, found)
            roots = {row: int(c) for row, c in zip(here.tolist(), tile.root, strict=True) if c >= 0}
            roots |= {record["links"][k]["root"]: int(c) for k, c in zip(which, tile.links.parent, strict=True)}
            for row in roots.keys() & unfinished.keys():
                groups, masses = unfinished[row][0], self._group_masses(found.q[roots[row]])
                shown = _first(groups, -masses[groups], TOKENS)
                record["unfinished"][row] = [
                    len(groups), self._note("groups", shown), _short(masses[groups].sum()),
                    [_short(x) for x in masses[shown]],
                ]  # fmt: skip

    def _tile(self, scores: tuple[Scores, Scores], student: np.ndarray, teacher: np.ndarray, tile: Rows) -> _Tile:
        z_s, z_t = (score(rows).cpu() for score, rows in zip(scores, (student, teacher), strict=True))
        log_p, log_q = z_s.double().log_softmax(-1), z_t.double().log_softmax(-1)
        for error, who, table, rows in (
            (StudentError, "student", log_p, student), (TeacherError, "teacher", log_q, teacher),
        ):  # fmt: skip
            if len(bad := torch.nonzero(table.isnan().any(-1))):
                raise error(f"the {who}'s logits are NaN or infinite at row {rows[int(bad[0])]} of a response")
        root, child = self.objective.losses(log_p, log_q, tile)
        normal_t, normal_s = log_q.new_zeros(len(log_q)), log_p.new_zeros(len(log_p))
        found = self.objective.find(tile.links, (log_q.T, normal_t), (log_p.T, normal_s))
        return _Tile(log_p.exp().numpy(), log_q.exp().numpy(), root.numpy(), child.numpy(), found)

    def _note(self, kind: str, ids: Any) -> list[int]:
        """The ids as a list, and as something that the page must be able to name."""
        found = [int(i) for i in ids]
        self._used[kind].update(found)
        return found


def _kinds(alignment: Alignment, rows: Rows) -> list[str]:
    n = len(alignment.student_ids)
    root, child = np.zeros(n, bool), np.zeros(n, bool)
    root[rows.student[rows.root >= 0]] = True
    child[rows.student[rows.links.child]] = True
    # A row at a teacher boundary that has no root loss is one whose token is blank.
    reasons = ("blank", *STATUS[1:])
    return [
        "both" if r and c else "root" if r else "child" if c else reasons[s]
        for r, c, s in zip(root, child, alignment.status, strict=True)
    ]


def _entries(sets: CompletionSets, links: Links) -> tuple[np.ndarray, ...]:
    """Link, group, and run in `sets.members` of every completion set, in the order of `CompletionSets.find`."""
    count = np.where(links.action < 0, 0, sets.count[links.action])
    link = np.repeat(np.arange(len(links)), count)
    entry = np.arange(len(link)) + (sets.start[links.action] - np.cumsum(count) + count)[link]
    opened = (link, sets.group[entry], sets.low[entry], sets.size[entry])
    return tuple(np.concatenate(both) for both in zip(opened, links.entries, strict=True))


def _first(ids: np.ndarray, key: np.ndarray, most: int) -> np.ndarray:
    """The ids with the least keys, the lower id first on ties."""
    if len(ids) > 8 * most:
        ids, key = ids[(kept := key <= np.partition(key, most)[most])], key[kept]
    return ids[np.lexsort((ids, key))[:most]]


def _kl(t: float, p: float) -> float:
    return 0.0 if t == 0 else math.inf if p == 0 else t * math.log(t / p)


def _short(value: Any) -> float | str:
    """Six significant digits; JSON has no infinity."""
    return float(f"{value:.6g}") if math.isfinite(value) else "∞"
