"""What an objective is: a pair in, losses per row out, by a readable dense path and by a tiled one.

Row i of the student predicts token i of its response, row j of the teacher token j of its own sequence.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from ..align import Alignment
from ..errors import AlignError, ConfigError
from ..pair import TokenizerPair
from .tables import DeviceTables


@dataclass(frozen=True)
class RowLosses:
    """Losses of one response in nats, each [n]: `total = root + child_weight * child`. Not divided by anything."""

    total: Tensor
    root: Tensor
    child: Tensor


@dataclass(frozen=True)
class Rows:
    """Which rows of one response (or of a batch, see `stack`) carry a loss, as flat index arrays.

    Attributes:
        student: int64 [A], student rows with a loss, ascending.
        teacher: int64 [R], teacher rows that are needed.
        root: int64 [A], index into `teacher` of the row that supervises this row as a root, -1 if none does.
        child: int64 [A], index into `teacher` of the root whose child row this is, -1 if it is none.
        action: int64 [A], student token sampled at that root, -1 where `child` is.
        counts: Student rows by what happens to them: `root`, `child` (a row can be both), and, for rows without a
            loss, the reason: `interior` (inside a teacher token, nothing to complete), `blank` (masked spaces),
            `no_teacher_row`, `diverged` (after the first differing byte).
        total: Number of student rows.
    """

    student: np.ndarray
    teacher: np.ndarray
    root: np.ndarray
    child: np.ndarray
    action: np.ndarray
    counts: Counter[str] = field(default_factory=Counter)
    total: int = 0

    @classmethod
    def stack(cls, rows: Sequence[Rows], student_starts: Sequence[int]) -> Rows:
        """Rows of a batch whose student rows lie in one flat tensor; teacher rows are renumbered one after the other.

        Args:
            rows: One per response.
            student_starts: Flat position of each response's first student row.
        """
        places = np.cumsum([0, *(len(r.teacher) for r in rows)])
        empty = np.zeros(0, np.int64)

        def joined(name: str, shifts: Any) -> np.ndarray:
            parts = (getattr(r, name) for r in rows)
            return np.concatenate([empty, *(np.where(p < 0, p, p + s) for p, s in zip(parts, shifts, strict=False))])

        return cls(
            student=joined("student", student_starts),
            teacher=np.arange(places[-1]),
            root=joined("root", places),
            child=joined("child", places),
            action=np.concatenate([empty, *(r.action for r in rows)]),
            counts=sum((r.counts for r in rows), Counter()),
            total=sum(r.total for r in rows),
        )


@dataclass
class Tile:
    """What an objective gets for a tile: logits of some rows, one COLUMN per row so that the vocabulary runs first.

    Attributes:
        student: [C_S, n] logits of the student; the objective overwrites them with its gradient.
        teacher: [C_T, m] logits of the teacher; free to be overwritten.
        roots: The first `roots` columns of both are matching roots.
        child: int64 [n], teacher column of the root whose child row this is, -1 if it is none.
        action: int64 [n], student token sampled at that root.
    """

    student: Tensor
    teacher: Tensor
    roots: int
    child: Tensor
    action: Tensor


@dataclass(frozen=True)
class TileLosses:
    """What a tile gives back, per column.

    Attributes:
        root, child: [n] losses in nats.
        entropy: [n] entropy of the student's softmax in nats.
        mass: [n] supervised teacher mass (sum of M_g) of a child row, 0 elsewhere.
        completed: [n] sum of M_g P_g of a child row, so `completed / mass` is the mean completion-set probability.
        student_log_z, teacher_log_z: [n], [m] log-partition functions; not finite where the logits are not.
    """

    root: Tensor
    child: Tensor
    entropy: Tensor
    mass: Tensor
    completed: Tensor
    student_log_z: Tensor
    teacher_log_z: Tensor


class Objective(ABC):
    """A loss between a student and a teacher with different tokenizers.

    Args:
        pair: The two vocabularies.
        options: The objective's own keyword options.
    """

    name: ClassVar[str]

    def __init__(self, pair: TokenizerPair):
        self.pair = pair
        self.tables = DeviceTables()

    @abstractmethod
    def row_losses(
        self,
        student_logits: Tensor,
        teacher_logits: Tensor,
        student_ids: Sequence[int],
        teacher_ids: Sequence[int],
    ) -> RowLosses:
        """Losses of one response from dense logits: the reference that every faster path must agree with.

        Args:
            student_logits: [n, C_S], row i predicts `student_ids[i]`; C_S is at least the vocabulary size, further
                columns stay in the softmax and belong to no set.
            teacher_logits: [m, C_T], row j predicts `teacher_ids[j]`. A constant: no gradient flows into it.
            student_ids: The response as sampled, its stop included if it has one.
            teacher_ids: The same bytes in teacher ids.

        Returns:
            Losses per row in nats, differentiable with respect to `student_logits`.

        Raises:
            AlignError: Logits and ids do not fit together.
        """

    @abstractmethod
    def rows(self, alignment: Alignment) -> Rows:
        """The rows of one response that carry a loss, before any logits exist (numpy, no loop per token)."""

    @abstractmethod
    def tile(self, tile: Tile) -> TileLosses:
        """Losses of a tile; leaves the gradient of their total with respect to the logits in `tile.student`."""

    @abstractmethod
    def total(self, root: Tensor, child: Tensor) -> Tensor:
        """How root and child losses add up."""

    def check_logits(self, student: Tensor, teacher: Tensor, n: int, m: int) -> None:
        """Raise `AlignError` unless logits have one row per id and a column per token."""
        for who, logits, rows, size in (
            ("student", student, n, len(self.pair.student)),
            ("teacher", teacher, m, len(self.pair.teacher)),
        ):
            if logits.ndim != 2 or logits.shape[0] != rows or logits.shape[1] < size:
                raise AlignError(
                    f"{who} logits have shape {tuple(logits.shape)}; expected {rows} rows (one per {who} id) and at "
                    f"least {size} columns (one per token)"
                )


_REGISTRY: dict[str, type[Objective]] = {}


def register(cls: type[Objective]) -> type[Objective]:
    """Class decorator: make an objective available under its `name`."""
    _REGISTRY[cls.name] = cls
    return cls


def objective_names() -> list[str]:
    """Names that `objective` knows."""
    return sorted(_REGISTRY)


def objective(name: str, pair: TokenizerPair, **options: Any) -> Objective:
    """Make an objective by name.

    Args:
        name: One of `objective_names()`.
        pair: The two vocabularies.
        options: Options of that objective, e.g. `completion="exact"`.

    Raises:
        ConfigError: Unknown name, option or option value.
    """
    if name not in _REGISTRY:
        raise ConfigError(f"unknown objective {name!r}{suggest(name, objective_names())}")
    cls = _REGISTRY[name]
    known = cls.__init__.__kwdefaults__ or {}
    for option in options:
        if option not in known:
            raise ConfigError(f"objective {name!r} has no option {option!r}{suggest(option, sorted(known))}")
    return cls(pair, **options)


def suggest(word: str, known: Sequence[str], full: bool = True) -> str:
    """The tail of an error about an unknown word: the nearest known one, else (if `full`) all of them."""
    near = difflib.get_close_matches(str(word), known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(known)}" if full else ""
