"""Minimal aligned units of a response: what span objectives compare (SimCT, arXiv 2605.07711, section 3)."""

from __future__ import annotations

import numpy as np

from ..align import Alignment
from ..pair import TokenizerPair
from .rows import Rows, Units, count


def boundaries(alignment: Alignment) -> np.ndarray:
    """Byte offsets at which both models start a token or end their text, ascending.

    Nothing after the first differing byte is a boundary.
    """
    length_s, length_t = alignment.lengths
    both = np.intersect1d(np.append(alignment.offsets, length_s), np.append(alignment.teacher_offsets, length_t))
    return both[both <= alignment.common]


def unit_rows(pair: TokenizerPair, alignment: Alignment, first_only: bool = False, one_to_one: bool = False) -> Rows:
    """Rows of all units that both models spell out to their end, the stop event among them.

    Args:
        pair: The vocabularies.
        alignment: Of one response.
        first_only: Whether only the first row of each unit takes part.
        one_to_one: Whether only units of one token on both sides count.
    """
    offsets, starts_t, edges = alignment.offsets, alignment.teacher_offsets, boundaries(alignment)
    unit_s = np.searchsorted(edges, offsets, side="right") - 1
    unit_t = np.searchsorted(edges, starts_t, side="right") - 1
    last = len(edges) - 1
    inside_s, inside_t = (unit < last for unit in (unit_s, unit_t))
    stop = _stop_row(pair, alignment)
    if stop is not None:
        inside_s[stop[0]], inside_t[stop[1]] = True, True
        unit_s[stop[0]], unit_t[stop[1]] = last, last
    # A token without bytes can leave one side of a unit empty.
    sizes_s, sizes_t = (
        np.bincount(unit[inside], minlength=last + 1)
        for unit, inside in ((unit_s, inside_s), (unit_t, inside_t))
    )  # fmt: skip
    whole = (sizes_s == 1) & (sizes_t == 1) if one_to_one else (sizes_s > 0) & (sizes_t > 0)
    inside_s &= whole[unit_s]
    inside_t &= whole[unit_t]
    rows_s, rows_t = np.flatnonzero(inside_s), np.flatnonzero(inside_t)
    if first_only:
        rows_s, rows_t = (
            rows[np.unique(unit[rows], return_index=True)[1]] for rows, unit in ((rows_s, unit_s), (rows_t, unit_t))
        )
    number = np.cumsum(whole) - 1
    units = Units(
        number[unit_s[rows_s]], number[unit_t[rows_t]], alignment.student_ids[rows_s], alignment.teacher_ids[rows_t],
        offsets[rows_s], starts_t[rows_t],
    )  # fmt: skip
    root = np.full(len(rows_s), -1)
    root[units.first_student] = units.first_teacher
    return Rows(rows_s, rows_t, root, units=units, counts=count(alignment, rows_s), total=len(offsets))


def _stop_row(pair: TokenizerPair, alignment: Alignment) -> tuple[int, int] | None:
    """Student and teacher row of the terminal event, if both predict it at the same offset."""
    if not len(alignment.roots):
        return None
    row_s, row_t = alignment.roots[-1].tolist()
    ends_s = int(alignment.student_ids[row_s]) in pair.student.stop_ids
    ends_t = int(alignment.teacher_ids[row_t]) in pair.teacher.stop_ids
    return (row_s, row_t) if ends_s and ends_t else None
