"""`align`: one response as two token sequences, matched by byte offsets (paper 3.1, A.2).

Row i of a model predicts token i of its own sequence, so it stands at the offset where token i starts. A student row
is a root if a teacher token starts at the same offset.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .errors import AlignError
from .pair import TokenizerPair
from .vocab import ByteVocab

# Why a student row is not a root, in the order of the codes in `Alignment.status`.
STATUS = ("root", "interior", "no_teacher_row", "diverged")
ROOT, INTERIOR, NO_TEACHER_ROW, DIVERGED = range(4)


@dataclass(frozen=True)
class Alignment:
    """What `align` found.

    Attributes:
        student_ids, teacher_ids: int64 [n], [m], what was aligned.
        roots: int64 [R, 2], student row and teacher row of each root, in order.
        status: int8 [n], for each student row an index into `STATUS`: a root; inside a teacher token; at a teacher
            boundary with no teacher token left to predict; after the first byte in which the two sequences differ.
        offsets, teacher_offsets: int64 [n], [m], byte offset at which each row stands.
        common: Length in bytes of the common prefix of both byte streams.
        lengths: Bytes of the student's and of the teacher's stream.
    """

    student_ids: np.ndarray
    teacher_ids: np.ndarray
    roots: np.ndarray
    status: np.ndarray
    offsets: np.ndarray
    teacher_offsets: np.ndarray
    common: int
    lengths: tuple[int, int]

    @property
    def same_bytes(self) -> bool:
        """Whether both sequences spell the same bytes."""
        return self.lengths[0] == self.lengths[1] == self.common

    def counts(self) -> dict[str, int]:
        """Number of student rows by status."""
        return dict(zip(STATUS, np.bincount(self.status, minlength=len(STATUS)).tolist(), strict=True))


def align(pair: TokenizerPair, student_ids: Sequence[int] | Any, teacher_ids: Sequence[int] | Any) -> Alignment:
    """Match the rows of one response.

    Args:
        pair: The vocabularies.
        student_ids: Ids of the response as sampled, its stop included if it ended with one. Never re-encoded.
        teacher_ids: The same bytes in teacher ids, with the teacher's stop if the response ended normally.

    Returns:
        The roots, and for every other row why it is none. Where the byte streams differ, rows that stand at or
        before the first differing byte are matched; the rest is `diverged`.

    Raises:
        AlignError: Ids are not one row of whole numbers, or one lies outside its vocabulary.

    Example:
        >>> student = ByteVocab([b"Br", b"ead", None], stop_ids=[2])
        >>> teacher = ByteVocab([b"Bread", None], stop_ids=[1])
        >>> align(TokenizerPair(student, teacher), [0, 1, 2], [0, 1]).roots.tolist()
        [[0, 0], [2, 1]]
    """
    ids_s, ids_t = _ids(student_ids, pair.student, "student"), _ids(teacher_ids, pair.teacher, "teacher")
    (starts_s, bytes_s), (starts_t, bytes_t) = _stream(pair.student, ids_s), _stream(pair.teacher, ids_t)
    common = _common_prefix(bytes_s, bytes_t)
    # Of several teacher rows at one offset (a token without bytes stands there) the first is the root's.
    row_at = np.full(max(len(bytes_s), len(bytes_t)) + 1, -1)
    row_at[starts_t[::-1]] = np.arange(len(ids_t))[::-1]
    row_t = row_at[starts_s]
    status = np.where(row_t >= 0, np.int8(ROOT), np.int8(INTERIOR))
    if len(starts_t) == 0 or starts_t[-1] < len(bytes_t):
        status[(row_t < 0) & (starts_s >= len(bytes_t))] = NO_TEACHER_ROW
    if common < len(bytes_s):
        status[starts_s > common] = DIVERGED
    rows_s = np.flatnonzero(status == ROOT)
    roots = np.empty((len(rows_s), 2), np.int64)
    roots[:, 0], roots[:, 1] = rows_s, row_t[rows_s]
    return Alignment(ids_s, ids_t, roots, status, starts_s, starts_t, common, (len(bytes_s), len(bytes_t)))


class Span(NamedTuple):
    """One of several responses in a conversation.

    Attributes:
        alignment: Of this response alone; its rows count from the first row of the response.
        student_row, teacher_row: Where the response starts in the student's and the teacher's whole sequence.
    """

    alignment: Alignment
    student_row: int
    teacher_row: int


def align_spans(
    pair: TokenizerPair,
    student_ids: Sequence[int] | Any,
    teacher_ids: Sequence[int] | Any,
    student_mask: Sequence[int] | Any,
    teacher_mask: Sequence[int] | Any,
) -> list[Span]:
    """Match the rows of every response of a conversation, each by itself.

    Args:
        pair: The vocabularies.
        student_ids, teacher_ids: The whole conversation in each model's ids, prompts and template tokens included.
        student_mask, teacher_mask: True (1) for the tokens of responses, their stops included, False (0) elsewhere.
            An uninterrupted run is one response; the k-th runs of both sides are the same response.

    Returns:
        The responses in order. Row i of a span predicts token `student_row + i` of the whole sequence.

    Raises:
        AlignError: A mask is not as long as its ids, both sides have different numbers of responses, or an id of a
            response lies outside its vocabulary.

    Example:
        >>> student = ByteVocab([b"Br", b"ead", b"?", None], stop_ids=[3])
        >>> teacher = ByteVocab([b"Bread", b"!?", None], stop_ids=[2])
        >>> spans = align_spans(
        ...     TokenizerPair(student, teacher),
        ...     [2, 0, 1, 3, 2, 2, 0, 1], [1, 0, 2, 1, 0], [0, 1, 1, 1, 0, 0, 1, 1], [0, 1, 1, 0, 1],
        ... )
        >>> [(s.student_row, s.teacher_row, s.alignment.roots.tolist()) for s in spans]
        [(1, 1, [[0, 0], [2, 1]]), (6, 4, [[0, 0]])]
    """
    sides = []
    for name, ids, mask in (("student", student_ids, student_mask), ("teacher", teacher_ids, teacher_mask)):
        tokens, kept = np.asarray(ids, np.int64).reshape(-1), np.asarray(mask).reshape(-1).astype(bool)
        if len(tokens) != len(kept):
            raise AlignError(f"the {name}'s mask has {len(kept)} entries for {len(tokens)} ids")
        edges = np.flatnonzero(np.diff(kept.astype(np.int8), prepend=0, append=0)).reshape(-1, 2).tolist()
        sides.append([(start, tokens[start:end]) for start, end in edges])
    mine, theirs = sides
    if len(mine) != len(theirs):
        raise AlignError(
            f"the student's mask marks {len(mine)} responses, the teacher's {len(theirs)}; mark the same ones in both"
        )
    return [Span(align(pair, s, t), i, k) for (i, s), (k, t) in zip(mine, theirs, strict=True)]


def _ids(ids: Any, vocab: ByteVocab, name: str) -> np.ndarray:
    try:
        array = np.asarray(ids)
    except (TypeError, ValueError, RuntimeError):  # ragged, on an accelerator, or nothing like an array
        array = np.zeros(())
    # Of an empty list numpy makes floats.
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise AlignError(f"{name} ids must be one row of whole numbers, on the CPU, not {reprlib.repr(ids)}")
    outside = (array < 0) | (array >= len(vocab))
    if outside.any():
        raise AlignError(f"{name} id {array[outside][0]} lies outside the {name} vocabulary of {len(vocab)} tokens")
    return array.astype(np.int64)


def _stream(vocab: ByteVocab, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offset at which each token starts, and the bytes of all of them, gathered without a Python loop."""
    sizes = vocab.byte_lengths[ids]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    if not len(ids) or not ends[-1]:
        return starts, np.zeros(0, np.uint8)
    # Where in the blob each byte lies: one further than the one before, or at the start of the next token.
    spelled = np.flatnonzero(sizes)
    first = vocab.byte_starts[ids[spelled]]
    steps = np.ones(ends[-1], np.int64)
    steps[starts[spelled]] = np.diff(first, prepend=0)
    steps[starts[spelled[1:]]] -= sizes[spelled[:-1]] - 1
    return starts, vocab.blob[np.cumsum(steps)]


def _common_prefix(a: np.ndarray, b: np.ndarray) -> int:
    n = min(len(a), len(b))
    differs = a[:n] != b[:n]
    first = int(differs.argmax()) if n else 0
    return first if n and differs[first] else n
