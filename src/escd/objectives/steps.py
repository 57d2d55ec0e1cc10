"""Where completion is supervised: at the row after a root, and with `deep` further along the sampled path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..align import DIVERGED, Alignment
from ..pair import TokenizerPair


@dataclass(frozen=True)
class Steps:
    """Child rows of one response.

    Attributes:
        root: int64 [K], which of `Alignment.roots` each belongs to.
        row: int64 [K], student row of the child.
        action, low, high, entries: As in `Links`.
    """

    root: np.ndarray
    row: np.ndarray
    action: np.ndarray
    low: np.ndarray
    high: np.ndarray
    entries: np.ndarray = field(default_factory=lambda: np.zeros((4, 0), np.int64))


def deeper_steps(pair: TokenizerPair, alignment: Alignment, first: Steps) -> Steps:
    """Steps that also follow residuals without a one-step completion along the sampled path (method section 7).

    While the sampled tokens stay a strict prefix of y_g, the completion set moves to the next visited row; it is
    supervised at the first row where it is not empty.
    """
    further: list[tuple[int, int, int, int]] = []
    entries: list[tuple[int, int, int, int]] = []
    for number, start in enumerate(alignment.roots[:, 0].tolist()):
        for row, path in _visited(pair, alignment, start):
            found = _completed_here(pair, path)
            if found:
                link = len(first.root) + len(further)
                low, _, high = pair.starting_with(path[-1])
                further.append((number, row, low, high))
                entries += [(link, *entry) for entry in found]
    root, row, low, high = np.array(further, np.int64).reshape(-1, 4).T
    return Steps(
        np.concatenate([first.root, root]),
        np.concatenate([first.row, row]),
        np.concatenate([first.action, np.full(len(further), -1)]),
        np.concatenate([first.low, low]),
        np.concatenate([first.high, high]),
        np.array(entries, np.int64).reshape(-1, 4).T.copy(),
    )


def _visited(pair: TokenizerPair, alignment: Alignment, start: int) -> Iterator[tuple[int, tuple[bytes, ...]]]:
    """Rows two or more steps after a root, each with the bytes sampled since the root after every step before it."""
    ids, table = alignment.student_ids, pair.student.token_bytes
    path: tuple[bytes, ...] = ()
    data = b""
    for row in range(start, len(ids) - 1):
        piece = table[ids[row]]
        if not piece or alignment.status[row + 1] == DIVERGED:
            return
        data += piece
        path = (*path, data)
        if not pair.groups_inside(data):
            return
        if len(path) > 1:
            yield row + 1, path


def _completed_here(pair: TokenizerPair, path: tuple[bytes, ...]) -> list[tuple[int, int, int]]:
    """Groups, with the run of `pair.student_order` that completes each, whose set was empty after all steps before."""
    *before, data = path
    found = []
    for group in pair.groups_inside(data):
        whole = pair.group_bytes[group]
        low, _, high = pair.starting_with(whole[len(data) :], "student")
        if low < high and all(_empty(pair, whole[len(done) :]) for done in before):
            found.append((group, low, high - low))
    return found


def _empty(pair: TokenizerPair, residual: bytes) -> bool:
    low, _, high = pair.starting_with(residual, "student")
    return low == high
