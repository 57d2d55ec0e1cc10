"""Which rows carry a loss, as flat index arrays: made on the CPU before any logits exist, cut into tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..align import DIVERGED, INTERIOR, NO_TEACHER_ROW, ROOT, Alignment


def _none() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Links:
    """Child rows: each link ties a row of the student to the root row whose teacher tokens it may complete.

    Attributes:
        child: int64 [K], index into `Rows.student`.
        parent: int64 [K], index into `Rows.teacher`, the row that the root stands at.
        action: int64 [K], student token sampled at the root, which names the completion sets; -1 if `entries` do.
        low, high: int64 [K], the teacher tokens that start with the bytes sampled since the root are
            `pair.teacher_order[low:high]`; 0 where no loss asks for them.
        entries: int64 [4, X], completion sets beyond the first step: link, group, and start and size of the run of
            `pair.student_order` that completes it.
    """

    child: np.ndarray = field(default_factory=_none)
    parent: np.ndarray = field(default_factory=_none)
    action: np.ndarray = field(default_factory=_none)
    low: np.ndarray = field(default_factory=_none)
    high: np.ndarray = field(default_factory=_none)
    entries: np.ndarray = field(default_factory=lambda: np.zeros((4, 0), np.int64))

    def __len__(self) -> int:
        return len(self.child)

    def pick(self, kept: np.ndarray) -> Links:
        """The links at `kept` (bool [K]), with their entries."""
        number = np.cumsum(kept) - 1
        entries = self.entries[:, kept[self.entries[0]]].copy()
        entries[0] = number[entries[0]]
        return Links(
            self.child[kept], self.parent[kept], self.action[kept], self.low[kept], self.high[kept], entries
        )  # fmt: skip


@dataclass(frozen=True)
class Units:
    """Minimal aligned units: the shortest runs of student and teacher tokens that spell the same bytes.

    Attributes:
        student, teacher: int64 [A], [R], the unit of each row, ascending.
        student_id, teacher_id: int64, the token that each row predicts.
        student_at, teacher_at: int64, byte offset at which each row stands.
    """

    student: np.ndarray
    teacher: np.ndarray
    student_id: np.ndarray
    teacher_id: np.ndarray
    student_at: np.ndarray
    teacher_at: np.ndarray

    def pick(self, student: np.ndarray, teacher: np.ndarray) -> Units:
        """These rows only, units numbered from 0 without gaps."""
        numbers = np.unique(self.student[student])
        return Units(
            np.searchsorted(numbers, self.student[student]), np.searchsorted(numbers, self.teacher[teacher]),
            self.student_id[student], self.teacher_id[teacher], self.student_at[student], self.teacher_at[teacher],
        )  # fmt: skip

    @property
    def first_student(self) -> np.ndarray:
        """int64 [U], the first row of each unit."""
        return np.flatnonzero(np.diff(self.student, prepend=-1))

    @property
    def first_teacher(self) -> np.ndarray:
        """int64 [U], the first row of each unit."""
        return np.flatnonzero(np.diff(self.teacher, prepend=-1))


@dataclass(frozen=True)
class Rows:
    """Which rows of one response (or of a batch, see `stack`) carry a loss.

    Attributes:
        student: int64 [A], student rows that take part in a loss, ascending.
        teacher: int64 [R], teacher rows that are needed, ascending.
        root: int64 [A], index into `teacher` of the row that supervises this one, -1 if none does.
        links: Child rows.
        units: What span objectives compare; a tile never splits a unit. None for objectives that have no units.
        counts: Student rows by what happens to them: `root`, `child` (a row can be both), and, for rows without a
            loss, the reason: `interior` (inside a teacher token), `blank` (masked spaces), `no_teacher_row`,
            `diverged` (after the first differing byte).
        total: Number of student rows.
    """

    student: np.ndarray
    teacher: np.ndarray
    root: np.ndarray
    links: Links = field(default_factory=Links)
    units: Units | None = None
    counts: Counter[str] = field(default_factory=Counter)
    total: int = 0

    @classmethod
    def stack(cls, rows: Sequence[Rows], student_starts: Sequence[int]) -> Rows:
        """Rows of a batch whose student rows lie in one flat tensor; teacher rows are renumbered one after the other.

        Args:
            rows: One per response.
            student_starts: Flat position of each response's first student row.
        """

        def starts(sizes: list[int]) -> list[int]:
            return np.cumsum([0, *sizes])[:-1].tolist()

        def joined(parts: list[np.ndarray], shifts: Sequence[int]) -> np.ndarray:
            return np.concatenate([_none(), *(np.where(p < 0, p, p + s) for p, s in zip(parts, shifts, strict=True))])

        at_s, at_t = starts([len(r.student) for r in rows]), starts([len(r.teacher) for r in rows])
        links = [r.links for r in rows]
        at_link, still = starts([len(x) for x in links]), [0] * len(rows)
        entries = [x.entries + np.array([[s], [0], [0], [0]]) for x, s in zip(links, at_link, strict=True)]
        units = [r.units for r in rows if r.units is not None]
        at_unit = starts([int(max(u.student.max(initial=-1), u.teacher.max(initial=-1))) + 1 for u in units])
        facts = ("student_id", "teacher_id", "student_at", "teacher_at")
        return cls(
            student=joined([r.student for r in rows], student_starts),
            teacher=np.arange(sum(len(r.teacher) for r in rows)),
            root=joined([r.root for r in rows], at_t),
            links=Links(
                joined([x.child for x in links], at_s), joined([x.parent for x in links], at_t),
                joined([x.action for x in links], still), joined([x.low for x in links], still),
                joined([x.high for x in links], still),
                np.concatenate([np.zeros((4, 0), np.int64), *entries], axis=1),
            ),
            units=Units(
                *(joined([getattr(u, n) for u in units], at_unit) for n in ("student", "teacher")),
                *(np.concatenate([getattr(u, n) for u in units]) for n in facts),
            ) if units else None,
            counts=sum((r.counts for r in rows), Counter()),
            total=sum(r.total for r in rows),
        )  # fmt: skip

    def tiles(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray, Rows]]:
        """Parts of about `size` student rows, each of them whole in itself.

        Yields:
            Positions in `student` and in `teacher` of the part, and its rows with indices into the part. Rows with a
            root come first, in the order of their teacher rows; in rows with units they keep their order instead.
        """
        if not len(self.student):
            return
        for part in self._cuts(max(1, size)):
            inside = np.full(len(self.student) + 1, -1)  # the last entry answers for -1
            if self.units is None:
                has_root = self.root[part] >= 0
                part = np.concatenate([part[has_root], part[~has_root]])
            inside[part] = np.arange(len(part))
            kept = inside[self.links.child] >= 0
            roots = self.root[part][self.root[part] >= 0]
            others = [self.links.parent[kept]]
            if self.units is not None:
                others.append(np.flatnonzero(np.isin(self.units.teacher, self.units.student[part])))
                teacher = np.unique(np.concatenate([roots, *others]))
            else:
                teacher = np.concatenate([roots, np.setdiff1d(others[0], roots)])
            place = np.full(len(self.teacher) + 1, -1)
            place[teacher] = np.arange(len(teacher))
            links = self.links.pick(kept)
            links = replace(links, child=inside[links.child], parent=place[links.parent])
            units = self.units.pick(part, teacher) if self.units is not None else None
            yield part, teacher, Rows(part, teacher, place[self.root[part]], links, units, total=len(part))

    def _cuts(self, size: int) -> list[np.ndarray]:
        """Equal parts, instead of full ones and a small rest, cut between units."""
        rows = np.arange(len(self.student))
        if self.units is None:
            return np.array_split(rows, -(-len(rows) // size))
        starts = self.units.first_student
        wanted = np.arange(size, len(rows), size)
        places = np.unique(starts[np.searchsorted(starts, wanted, side="right") - 1])
        return [part for part in np.split(rows, places) if len(part)]


def count(
    alignment: Alignment, roots: np.ndarray, children: np.ndarray | None = None, blank: np.ndarray | None = None
) -> Counter[str]:
    """Student rows by what happens to them, see `Rows.counts`.

    Args:
        alignment: Of the response.
        roots: int64, rows that take part in a loss of their own.
        children: int64, child rows, maybe several times.
        blank: bool [n], rows that would be roots but are masked.
    """
    status = alignment.status
    children = np.unique(_none() if children is None else children)
    idle = np.ones(len(status), bool)
    idle[roots] = idle[children] = False
    masked = idle & blank if blank is not None else np.zeros(len(status), bool)
    return Counter(
        root=len(roots),
        child=len(children),
        blank=int(masked.sum()),
        interior=int((idle & ~masked & ((status == INTERIOR) | (status == ROOT))).sum()),
        no_teacher_row=int((idle & (status == NO_TEACHER_ROW)).sum()),
        diverged=int((idle & (status == DIVERGED)).sum()),
    )
