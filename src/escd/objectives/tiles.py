"""Losses straight from hidden states and lm_heads, one tile of rows at a time.

Full logits exist for one tile only. The gradient with respect to a tile's student logits is closed form, so it is
turned into gradients of hidden states and head at once and the tile is freed: memory does not grow with the length
of the response, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..errors import AlignError
from .base import Objective, Tile, TileLosses
from .maths import FLOOR, UNREACHABLE
from .rows import Rows

# Rows of a low-precision head that are widened at a time.
_WIDEN = 16384


@dataclass(frozen=True)
class Head:
    """An lm_head: logits = softcap(scale * (hidden @ weight.T + bias)).

    Args:
        weight: [C, H]; C is at least the vocabulary size.
        bias: [C], if the head has one.
        scale: Multiplier of the logits (Cohere's `logit_scale`, Granite's 1 / `logits_scaling`).
        softcap: Gemma's `final_logit_softcapping`: cap * tanh(logits / cap).
    """

    weight: Tensor
    bias: Tensor | None = None
    scale: float = 1.0
    softcap: float | None = None

    @property
    def columns(self) -> int:
        """C."""
        return len(self.weight)

    @property
    def width(self) -> int:
        """H."""
        return self.weight.shape[1]


@dataclass(frozen=True)
class SparseHead:
    """What stands for the lm_head of a teacher whose rows hold its most likely tokens only (method section 3).

    A row is [2 K]: K columns, then their log-probabilities, at least one of them finite. All other columns have none.
    A column may come twice, with the same value.

    Args:
        columns: C_T.
    """

    columns: int
    width = 2  # of rows of which there are none


@dataclass
class TiledLosses:
    """Losses of a batch of rows.

    Attributes:
        loss: Scalar, sum over rows of their total loss divided by `denominator`; differentiable with respect to the
            student's hidden states, head weight and head bias.
        root, child, entropy, mass, completed: [A] per supervised row, in the order of `Rows.student`; see
            `TileLosses`. No gradient.
        bad_student, bad_teacher: Positions in `Rows.student` and `Rows.teacher` whose logits are NaN or infinite, or
            give the teacher's choice no probability at all.
    """

    loss: Tensor
    root: Tensor
    child: Tensor
    entropy: Tensor
    mass: Tensor
    completed: Tensor
    bad_student: Tensor
    bad_teacher: Tensor


def tiled_losses(
    objective: Objective,
    rows: Rows,
    student_hidden: Tensor,
    student_head: Head,
    teacher_hidden: Tensor,
    teacher_head: Head | SparseHead,
    denominator: float | Tensor = 1.0,
    tile_bytes: int = 2**28,
) -> TiledLosses:
    """Losses of the rows of a batch, without full logits.

    Args:
        objective: What to compute per tile.
        rows: Which rows, of a response or of a stacked batch. None at all gives a zero that can be back-propagated.
        student_hidden: [N, H_S] last hidden states, row i predicts token i of the flat batch.
        student_head: The student's head.
        teacher_hidden: [R, H_T], the rows `rows.teacher` only, in that order; see `SparseHead` for a sparse teacher.
        teacher_head: The teacher's head, a constant.
        denominator: Number of unmasked response tokens of the global batch (paper eq. 49).
        tile_bytes: Memory for the logits of one tile.

    Raises:
        AlignError: Heads smaller than their vocabularies, or not the rows that are needed.
    """
    index = torch.from_numpy(rows.student).to(student_hidden.device)
    parts = _Parts(
        objective, rows, teacher_hidden.detach(), teacher_head, student_head, denominator, tile_bytes,
        torch.is_grad_enabled(),
    )  # fmt: skip
    parts.check(len(student_hidden))
    loss = _TiledLoss.apply(student_hidden[index], student_head.weight, student_head.bias, parts)
    out = parts.collected(loss.detach())
    # A set or token that the student holds impossible costs infinitely much; tiles keep logits above a floor instead.
    hopeless = (out["root"] >= -UNREACHABLE) | (out["child"] >= -UNREACHABLE)
    bad_s = torch.nonzero(~out["student_log_z"].isfinite() | hopeless).squeeze(1)
    bad_t = torch.nonzero(~out["teacher_log_z"].isfinite()).squeeze(1)
    names = ("root", "child", "entropy", "mass", "completed")
    return TiledLosses(loss, *(out[name] for name in names), bad_student=bad_s, bad_teacher=bad_t)


@dataclass
class _Parts:
    """What the autograd function needs beside its differentiable inputs, and where it puts the figures per row."""

    objective: Objective
    rows: Rows
    teacher_hidden: Tensor
    teacher_head: Head | SparseHead
    student_head: Head
    denominator: float | Tensor
    tile_bytes: int
    with_gradient: bool
    figures: dict[str, list[Tensor]] = field(default_factory=dict)
    order: list[np.ndarray] = field(default_factory=list)
    teacher_order: list[np.ndarray] = field(default_factory=list)

    def check(self, student_rows: int) -> None:
        """Raise `AlignError` unless heads and rows are what the objective and `rows` ask for."""
        rows, pair, given = self.rows, self.objective.pair, len(self.teacher_hidden)
        for who, head, vocab in (
            ("student", self.student_head, pair.student),
            ("teacher", self.teacher_head, pair.teacher),
        ):
            if head.columns < len(vocab):
                raise AlignError(f"the {who}'s head has {head.columns} rows, its vocabulary {len(vocab)} tokens")
        if given != len(rows.teacher):
            raise AlignError(f"got {given} teacher rows, not the {len(rows.teacher)} of hidden[rows.teacher]")
        if len(rows.student) and student_rows <= rows.student.max():
            raise AlignError(f"row {rows.student.max()} is needed, but there are {student_rows} student rows")

    def tiles(self) -> Iterator[tuple[np.ndarray, np.ndarray, Rows]]:
        """See `Rows.tiles`; as many rows as the memory for logits allows."""
        width = 2 * self.student_head.columns + self.teacher_head.columns
        return self.rows.tiles(self.tile_bytes // (4 * width * self.objective.tile_copies))

    def keep(self, part: np.ndarray, teacher: np.ndarray, losses: TileLosses) -> None:
        self.order.append(part)
        self.teacher_order.append(teacher)
        for name, value in vars(losses).items():
            self.figures.setdefault(name, []).append(value)

    def collected(self, like: Tensor) -> dict[str, Tensor]:
        """Figures of all rows, in the order of the rows."""
        if not self.order:
            return {name: like.new_zeros(0) for name in TileLosses.__dataclass_fields__}
        out = {}
        for name, values in self.figures.items():
            flat = torch.cat(values)
            order = np.concatenate(self.teacher_order if name == "teacher_log_z" else self.order)
            size = len(self.rows.teacher if name == "teacher_log_z" else self.rows.student)
            out[name] = flat.new_zeros(size).index_copy_(0, torch.from_numpy(order).to(flat.device), flat)
        return out


class _TiledLoss(torch.autograd.Function):
    """Sum of row losses; gradients are computed in the forward pass, tile by tile."""

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, bias: Tensor | None, parts: _Parts) -> Tensor:  # type: ignore[override]
        objective = parts.objective
        device = hidden.device
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        fast = _product_dtype(hidden, exact)
        student = Head(weight.detach(), bias, parts.student_head.scale, parts.student_head.softcap)
        need_hidden, need_weight, need_bias = (x and parts.with_gradient for x in ctx.needs_input_grad[:3])
        grad_hidden = torch.zeros(hidden.shape, dtype=exact, device=device) if need_hidden else None
        grad_weight = torch.zeros(weight.shape, dtype=exact, device=device) if need_weight else None
        grad_bias = torch.zeros(weight.shape[0], dtype=exact, device=device) if need_bias else None
        loss = torch.zeros((), dtype=exact, device=device)
        # Tiles choose their own precision: autocast would round the logits.
        with torch.autocast(device.type, enabled=False):
            for part, teacher, local in parts.tiles():
                picked = torch.from_numpy(part).to(device)
                h = hidden[picked].detach()
                z = _logits(student, h, exact, fast)
                slope = None if student.softcap is None else 1 - (z / student.softcap).square()
                h_t = parts.teacher_hidden[torch.from_numpy(teacher).to(device)]
                z_t = _logits(parts.teacher_head, h_t, exact, fast)
                losses = objective.tile(Tile(z, z_t, local))
                del z_t
                loss += objective.total(losses.root, losses.child).sum()
                parts.keep(part, teacher, losses)
                if slope is not None:
                    z.mul_(slope)
                if grad_bias is not None:
                    grad_bias += z.sum(1)
                z = z.to(fast)
                if grad_hidden is not None:
                    total = torch.zeros(h.shape, dtype=exact, device=device)
                    for block, w in _blocks(student.weight, fast):
                        _add_product(total, z[block].t(), w)
                    grad_hidden[picked] = total
                if grad_weight is not None:
                    _add_product(grad_weight, z, h.to(fast))
        scale = student.scale / parts.denominator
        ctx.dtypes = (hidden.dtype, weight.dtype, None if bias is None else bias.dtype)
        grads = (grad_hidden, grad_weight, grad_bias)
        ctx.save_for_backward(*(None if g is None else g.mul_(scale) for g in grads))
        return loss / parts.denominator

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        # Scaled before they are rounded: a loss scaler's factor is there to keep small gradients from underflow.
        scaled = ctx.saved_tensors
        if not bool(grad == 1):
            scaled = (None if g is None else g * grad for g in scaled)
        return (*(None if g is None else g.to(dtype) for g, dtype in zip(scaled, ctx.dtypes, strict=True)), None)


def logits_of(head: Head | SparseHead, hidden: Tensor) -> Tensor:
    """[C, n] logits of hidden states [n, H] in fp32, one column per row. For few rows: nothing is tiled."""
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    return _logits(head, hidden.detach(), exact, _product_dtype(hidden, exact))


def _logits(head: Head | SparseHead, hidden: Tensor, exact: torch.dtype, fast: torch.dtype) -> Tensor:
    if isinstance(head, SparseHead):
        columns, log_q = hidden.t().chunk(2)
        none = torch.full((head.columns, len(hidden)), FLOOR, dtype=exact, device=hidden.device)
        return none.scatter_(0, columns.long(), log_q.to(exact).clamp_min(FLOOR))
    out = torch.empty(head.weight.shape[0], len(hidden), dtype=exact, device=hidden.device)
    columns = hidden.to(fast).t()
    for block, w in _blocks(head.weight.detach(), fast):
        _add_product(out[block], w, columns, keep=0)
    if head.bias is not None:
        out += head.bias.detach().to(exact).clamp_min(FLOOR)[:, None]
    if head.scale != 1.0:
        out *= head.scale
    if head.softcap is not None:
        out.div_(head.softcap).tanh_().mul_(head.softcap)
    return out


def _product_dtype(hidden: Tensor, exact: torch.dtype) -> torch.dtype:
    """Precision of the factors of head products; sums are always `exact`.

    Tensor cores multiply half-precision factors and sum in fp32. A CPU has no such product, so factors are widened.
    """
    if not _sums_halves_exactly(hidden):
        return exact
    dtype = torch.get_autocast_dtype(hidden.device.type) if torch.is_autocast_enabled("cuda") else hidden.dtype
    return dtype if dtype in (torch.float16, torch.bfloat16) else exact


def _sums_halves_exactly(tensor: Tensor) -> bool:
    return tensor.is_cuda


def _add_product(total: Tensor, a: Tensor, b: Tensor, keep: int = 1) -> None:
    """`total = keep * total + a @ b` without rounding the product to the precision of half-precision factors."""
    if a.dtype == total.dtype:
        total.addmm_(a, b, beta=keep)
    else:
        torch.addmm(total, a, b, beta=keep, out_dtype=total.dtype, out=total)


def _blocks(weight: Tensor, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
    """A head in `dtype`, whole if it is in it already, else in blocks of rows so that no second head exists."""
    if weight.dtype == dtype:
        yield slice(0, len(weight)), weight
        return
    for start in range(0, len(weight), _WIDEN):
        block = slice(start, min(start + _WIDEN, len(weight)))
        yield block, weight[block].to(dtype)
