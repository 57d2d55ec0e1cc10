"""What an objective is: a pair in, losses per row out, by a readable dense path and by a tiled one.

Row i of the student predicts token i of its response, row j of the teacher token j of its own sequence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from ..align import Alignment, align
from ..errors import AlignError, ConfigError
from ..pair import TokenizerPair
from .maths import column_logsumexp
from .options import suggest, told
from .rows import Rows
from .tables import DeviceTables


@dataclass(frozen=True)
class RowLosses:
    """Losses of one response in nats, each [n]: `total = root + child_weight * child`. Not divided by anything."""

    total: Tensor
    root: Tensor
    child: Tensor


@dataclass
class Tile:
    """What an objective gets for a tile: logits of some rows, one COLUMN per row so that the vocabulary runs first.

    Attributes:
        student: [C_S, n] logits of the student; the objective overwrites them with its gradient.
        teacher: [C_T, m] logits of the teacher; free to be overwritten.
        rows: What the columns are: `Rows` whose indices are columns of this tile. Without units the columns that have
            a root come first, in the order of their teacher columns.
    """

    student: Tensor
    teacher: Tensor
    rows: Rows


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

    Raises:
        ConfigError: `pair` is none, or an option has a value that it cannot have.

    Attributes:
        name: Under which it is registered.
        title: What its authors call it.
        paper: arXiv number.
        source: Whose responses it learns from: the `student`'s own, the `teacher`'s, or those of the `dataset`.
        child_weight: Weight of child losses in the total (paper eq. 10).
        needs_teacher: Whether it asks for rows of the teacher at all.
        tile_copies: How many times its logits a tile takes in memory.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    source: ClassVar[str] = "student"
    needs_teacher: ClassVar[bool] = True
    tile_copies: ClassVar[int] = 4
    child_weight: float = 1.0

    def __init__(self, pair: TokenizerPair):
        if not isinstance(pair, TokenizerPair):
            raise ConfigError(f"pair={told(pair)} is no pair; make one with TokenizerPair(student=..., teacher=...)")
        self.pair = pair
        self.tables = DeviceTables()

    @abstractmethod
    def rows(self, alignment: Alignment) -> Rows:
        """The rows of one response that carry a loss, before any logits exist (numpy, no loop per token)."""

    @abstractmethod
    def losses(self, student_logits: Tensor, teacher_logits: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Root and child losses of some rows from dense logits: the readable definition.

        Args:
            student_logits: [A, C_S], one row for each of `rows.student`, at least single precision.
            teacher_logits: [R, C_T], one for each of `rows.teacher`.
            rows: From `self.rows`, of one response or a tile's.

        Returns:
            Two times [A], in nats, differentiable with respect to `student_logits`.
        """

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
            Losses per row in nats, differentiable with respect to `student_logits`. The loss of a unit of several
            rows stands at its first.

        Raises:
            AlignError: Logits and ids do not fit together.
        """
        alignment = align(self.pair, student_ids, teacher_ids)
        rows = self.rows(alignment)
        self._check_logits(student_logits, teacher_logits, rows.total, len(alignment.teacher_ids))
        device = student_logits.device
        dtype = torch.promote_types(student_logits.dtype, torch.float32)
        student, teacher = (torch.from_numpy(a).to(device) for a in (rows.student, rows.teacher))
        z_s = student_logits.to(dtype)[student]
        root, child = self.losses(z_s, teacher_logits.detach().to(device, dtype)[teacher], rows)
        # The sum over no rows keeps a response without a loss differentiable.
        zero = student_logits[:0].sum().to(dtype) + student_logits.new_zeros(rows.total, dtype=dtype)
        root, child = zero.index_add(0, student, root), zero.index_add(0, student, child)
        return RowLosses(self.total(root, child), root, child)

    def tile(self, tile: Tile) -> TileLosses:
        """Losses of a tile; leaves the gradient of their total with respect to the logits in `tile.student`.

        By automatic differentiation of `losses`; an objective with a closed form may do better.
        """
        with torch.enable_grad():
            z = tile.student.t().detach().requires_grad_()
            root, child = self.losses(z, tile.teacher.t(), tile.rows)
            (gradient,) = torch.autograd.grad(self.total(root, child).sum() + 0 * z[:0].sum(), z)
        log_z = column_logsumexp(tile.student)
        log_p = tile.student - log_z
        entropy = -(log_p.exp() * log_p).sum(0)
        tile.student.copy_(gradient.t())
        nothing = torch.zeros_like(entropy)
        return TileLosses(
            root.detach(), child.detach(), entropy, nothing, nothing, log_z, column_logsumexp(tile.teacher)
        )

    def cells(self, columns: int, teacher_columns: int, device: torch.device) -> Tensor:
        """See `TokenizerPair.cells`."""
        key = ("cells", columns, teacher_columns)
        return self.tables(key, device, lambda: self.pair.cells(columns, teacher_columns))

    def shared(self, device: torch.device) -> Tensor:
        """int64 [2, M]: teacher and student ids of `TokenizerPair.shared`."""
        return self.tables("shared", device, lambda: self.pair.shared.T)

    def total(self, root: Tensor, child: Tensor) -> Tensor:
        """How root and child losses add up (paper eq. 10)."""
        return root + self.child_weight * child

    def _check_logits(self, student: Tensor, teacher: Tensor, n: int, m: int) -> None:
        """Raise `AlignError` unless logits are floats with one row per id and a column per token."""
        for who, logits, rows, size in (
            ("student", student, n, len(self.pair.student)),
            ("teacher", teacher, m, len(self.pair.teacher)),
        ):
            if not isinstance(logits, Tensor) or not logits.is_floating_point():
                raise AlignError(f"{who} logits must be a tensor of floats, not {told(logits)}")
            if logits.ndim != 2 or logits.shape[0] != rows or logits.shape[1] < size:
                raise AlignError(
                    f"{who} logits have shape {tuple(logits.shape)}; expected {rows} rows (one per {who} id) and at "
                    f"least {size} columns (one per token)"
                )


_REGISTRY: dict[str, type[Objective]] = {}
_Kind = TypeVar("_Kind", bound=Objective)


def register(cls: type[_Kind]) -> type[_Kind]:
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
    check_options(name, options)
    return objective_class(name)(pair, **options)


def option_names(name: str) -> list[str]:
    """Names of the options of an objective; raises as `objective_class` does."""
    return sorted(objective_class(name).__init__.__kwdefaults__ or {})


def check_options(name: str, options: Iterable[Any]) -> None:
    """Raise `ConfigError` unless an objective has options of these names."""
    known = option_names(name)
    for option in options:
        if option not in known:
            raise ConfigError(f"objective {name!r} has no option {told(option)}{suggest(option, known)}")


def objective_class(name: str) -> type[Objective]:
    """The class of an objective.

    Raises:
        ConfigError: There is no such objective.
    """
    if not isinstance(name, str) or name not in _REGISTRY:
        raise ConfigError(f"unknown objective {told(name)}{suggest(name, objective_names())}")
    return _REGISTRY[name]
