"""`TokenizerPair`: everything that depends on two vocabularies only, built once and cached on disk.

Notation (paper 3.2-3.3): phi maps a teacher token to the longest student token that its bytes start with. Candidates
are teacher tokens whose bytes are not one student token; candidates that are byte prefixes of each other form a
group. A group is one shortest candidate ("representative", bytes y_g) and all candidates that extend it, so groups
are runs of the byte-sorted candidates. For a student token `a` that is a strict prefix of y_g the completion set C_g
holds the student tokens that start with the residual, y_g without its first |b(a)| bytes: a run of the byte-sorted
student vocabulary.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import reprlib
import tempfile
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .errors import VocabError
from .vocab import ByteVocab

_FORMAT = 3  # raise it when the meaning of a stored array changes
_TABLES = (
    "phi", "group_of", "group_start", "candidates", "student_order",
    "entry_start", "entry_count", "entry_group", "range_low", "range_exact", "range_high",
)  # fmt: skip


@dataclass(frozen=True)
class Overlap:
    """One-to-one shared tokens of two vocabularies (paper B.2), as a count and as three shares."""

    shared: int
    teacher_coverage: float
    student_coverage: float
    jaccard: float


class TokenizerPair:
    """Static tables of a student and a teacher vocabulary.

    Args:
        student: Vocabulary of the model that generates and learns, V_S tokens.
        teacher: Vocabulary of the model that scores, V_T tokens.

    Raises:
        VocabError: One of them is no `ByteVocab`.

    Attributes:
        phi: int64 [V_T], the student token that each teacher token enters by, -1 for ⊥ (method: root loss).
            Teacher stop ids map to the student's preferred stop.
        group_of: int64 [V_T], the group of each teacher token, -1 for tokens that are no candidate.
        group_start: int64 [G + 1], group g is `candidates[group_start[g]:group_start[g + 1]]`.
        candidates: int64 [N], teacher ids of the candidates sorted by bytes; the representative leads its group.
        student_order: int64 [V_S^c], content ids of the student sorted by bytes, of equal ones aliases last, then
            by id.
        entry_start, entry_count: int64 [V_S], sampling student token a opens the groups of the entries
            `entry_start[a] .. entry_start[a] + entry_count[a]`.
        entry_group, range_low, range_exact, range_high: int64 [E]. Entry e: C_g of group `entry_group[e]` is
            `student_order[range_low[e]:range_high[e]]`; its members up to `range_exact[e]` equal the residual, the
            others overshoot it.

    Example:
        >>> student = ByteVocab([b"Br", b"Cat", b"ead", b"eads", b"eak", None], stop_ids=[5])
        >>> teacher = ByteVocab([b"Bread", b"Breads", b"Break", b"Cat", None], stop_ids=[4])
        >>> pair = TokenizerPair(student=student, teacher=teacher)
        >>> pair.phi.tolist(), pair.group_bytes
        ([0, 0, 0, 1, 5], [b'Bread', b'Break'])
        >>> {g: ids.tolist() for g, ids in pair.completions(0).items()}
        {0: [2, 3], 1: [4]}
    """

    phi: np.ndarray
    group_of: np.ndarray
    group_start: np.ndarray
    candidates: np.ndarray
    student_order: np.ndarray
    entry_start: np.ndarray
    entry_count: np.ndarray
    entry_group: np.ndarray
    range_low: np.ndarray
    range_exact: np.ndarray
    range_high: np.ndarray

    def __init__(self, student: ByteVocab, teacher: ByteVocab):
        _check(student, teacher)
        self.student, self.teacher = student, teacher
        self._build_phi()
        self._build_groups()
        self._build_completions()

    def _build_phi(self) -> None:
        student, teacher = self.student, self.teacher
        phi = np.fromiter(
            (-1 if b is None else student.longest_prefix(b) for b in teacher.token_bytes),
            np.int64,
            len(teacher),
        )
        if student.token_bytes == teacher.token_bytes:
            # The same vocabulary twice is plain KL: tokens with equal bytes stay themselves.
            phi = np.where(phi < 0, -1, np.arange(len(student)))
        if student.preferred_stop is not None:
            phi[list(teacher.stop_ids)] = student.preferred_stop
        self.phi = phi

    def _build_groups(self) -> None:
        known = self.student.id_of
        found = [(b, v) for b, _, v in self.teacher.by_bytes if b not in known]
        starts: list[int] = []
        leader: bytes | None = None
        for position, (data, _) in enumerate(found):
            if leader is None or not data.startswith(leader):
                leader = data
                starts.append(position)
        self.candidates = np.array([v for _, v in found], np.int64)
        self.group_start = np.array([*starts, len(found)], np.int64)
        self.group_of = np.full(len(self.teacher), -1, np.int64)
        self.group_of[self.candidates] = np.repeat(np.arange(len(starts)), np.diff(self.group_start))

    def _build_completions(self) -> None:
        student = self.student
        known, longest = student.id_of, student.max_length
        ordered = student.by_bytes
        keys = [b for b, _, _ in ordered]
        ranges: dict[bytes, tuple[int, int, int]] = {}
        actions, groups, spans = [], [], []
        for group, data in enumerate(self.group_bytes):
            for cut in range(1, min(len(data) - 1, longest) + 1):
                action = known.get(data[:cut])
                if action is None:
                    continue
                residual = data[cut:]
                span = ranges.get(residual)
                if span is None:
                    span = ranges[residual] = _run(keys, residual)
                actions.append(action)
                groups.append(group)
                spans.append(span)
        by_action = np.argsort(np.array(actions, np.int64), kind="stable")
        table = np.array(spans, np.int64).reshape(-1, 3)[by_action]
        self.range_low, self.range_exact, self.range_high = (np.ascontiguousarray(column) for column in table.T)
        self.entry_group = np.array(groups, np.int64)[by_action]
        self.student_order = np.array([u for _, _, u in ordered], np.int64)
        counts = np.bincount(np.array(actions, np.int64), minlength=len(student)).astype(np.int64)
        starts = np.cumsum(counts) - counts
        # Tokens with equal bytes share the entries of one.
        leader = np.arange(len(student))
        for u, b in enumerate(student.token_bytes):
            if b is not None:
                leader[u] = known[b]
        self.entry_start, self.entry_count = starts[leader], counts[leader]

    @cached_property
    def group_bytes(self) -> list[bytes]:
        """Bytes of the representative (shortest member) of each group."""
        table = self.teacher.token_bytes
        return [table[v] or b"" for v in self.candidates[self.group_start[:-1]]]

    @cached_property
    def image(self) -> np.ndarray:
        """bool [V_S]: U, the student tokens that phi reaches."""
        inside = np.zeros(len(self.student), bool)
        inside[self.phi[self.phi >= 0]] = True
        return inside

    def cells(self, columns: int, teacher_columns: int) -> np.ndarray:
        """int64 [C_T]: where phi takes each column of a teacher's head; `columns`, past the student's head, is ⊥."""
        return np.append(np.where(self.phi < 0, columns, self.phi), np.full(teacher_columns - len(self.phi), columns))

    @cached_property
    def teacher_order(self) -> np.ndarray:
        """int64 [V_T^c], content ids of the teacher sorted as `student_order`."""
        return np.array([v for _, _, v in self.teacher.by_bytes], np.int64)

    @cached_property
    def _teacher_keys(self) -> list[bytes]:
        return [b for b, _, _ in self.teacher.by_bytes]

    @cached_property
    def _student_keys(self) -> list[bytes]:
        table = self.student.token_bytes
        return [table[u] or b"" for u in self.student_order]

    def starting_with(self, data: bytes, who: str = "teacher") -> tuple[int, int, int]:
        """Where in `teacher_order` (or `student_order`) the tokens that start with these bytes begin, where those that
        equal them end, and where all end."""
        return _run(self._teacher_keys if who == "teacher" else self._student_keys, data)

    def groups_inside(self, data: bytes) -> range:
        """Groups whose representative is longer than these bytes and starts with them."""
        _, exact, high = _run(self.group_bytes, data)
        return range(exact, high)

    @cached_property
    def shared(self) -> np.ndarray:
        """int64 [M, 2]: teacher and student ids of tokens that are the same token, one to one.

        The two preferred stops, content of equal bytes, and special tokens of equal spelling (paper 14-15), lower ids
        first. Unlike in `overlap`, the stops are a pair whatever they are spelled: they are one event (paper A.2).
        """
        stops = (self.teacher.preferred_stop, self.student.preferred_stop)
        joined = None not in stops
        pairs = [stops] if joined else []
        for mine, theirs in (
            (dict(enumerate(self.student.token_bytes)), dict(enumerate(self.teacher.token_bytes))),
            (self.student.special_tokens, self.teacher.special_tokens),
        ):
            places: dict[object, list[int]] = {}
            for u, key in sorted(mine.items(), key=lambda item: (item[0] in self.student.aliases, item[0])):
                if key is not None and (u != stops[1] or not joined):
                    places.setdefault(key, []).append(u)
            for v, key in sorted(theirs.items(), key=lambda item: (item[0] in self.teacher.aliases, item[0])):
                if key is not None and (v != stops[0] or not joined) and places.get(key):
                    pairs.append((v, places[key].pop(0)))
        return np.array(sorted(pairs), np.int64).reshape(-1, 2)

    def completions(self, action: int) -> dict[int, np.ndarray]:
        """The non-empty completion sets that sampling `action` opens: group -> int64 student ids (paper eq. 5)."""
        start = int(self.entry_start[action])
        return {
            int(self.entry_group[e]): self.student_order[self.range_low[e] : self.range_high[e]]
            for e in range(start, start + int(self.entry_count[action]))
            if self.range_high[e] > self.range_low[e]
        }

    def overlap(self) -> Overlap:
        """Tokens of equal bytes, special tokens of equal spelling and the two EOS, paired one to one (paper B.2)."""
        student, teacher = self.student, self.teacher
        mine, theirs = (Counter(b for b in v.token_bytes if b is not None) for v in (student, teacher))
        shared = mine & theirs
        spelled = Counter(student.special_tokens.values()) & Counter(teacher.special_tokens.values())
        count = shared.total() + spelled.total()
        stops = [(vocab, vocab.preferred_stop) for vocab in (student, teacher)]
        unpaired = [stop is not None and vocab.special_tokens.get(stop) not in spelled for vocab, stop in stops]
        count += all(unpaired)
        v_s, v_t = len(student), len(teacher)
        return Overlap(count, count / max(v_t, 1), count / max(v_s, 1), count / max(v_s + v_t - count, 1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write both vocabularies and all tables to one file, whole or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        arrays = {
            **{name: getattr(self, name) for name in _TABLES},
            **self.student.to_arrays("student"),
            **self.teacher.to_arrays("teacher"),
        }
        arrays["digest"] = _digest(arrays)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TokenizerPair:
        """Read a pair written by `save`.

        Raises:
            VocabError: The file is missing, damaged, or of another version.
        """
        arrays = _read(path)
        return cls._from(ByteVocab.from_arrays(arrays, "student"), ByteVocab.from_arrays(arrays, "teacher"), arrays)

    @classmethod
    def cached(
        cls, student: ByteVocab, teacher: ByteVocab, cache_dir: str | os.PathLike[str] | None = None
    ) -> TokenizerPair:
        """The pair from the cache, or built and put there. A stale or damaged file is replaced, never trusted.

        Args:
            student: Student vocabulary.
            teacher: Teacher vocabulary.
            cache_dir: Folder of the cache; `$ESCD_CACHE`, else `~/.cache/escd`. A folder that cannot be written to
                only costs the time to build the pair again.

        Raises:
            VocabError: One of them is no `ByteVocab`.
        """
        _check(student, teacher)
        folder = Path(cache_dir or os.environ.get("ESCD_CACHE") or Path.home() / ".cache" / "escd")
        path = folder / f"pair-{_fingerprint(student, teacher)[:32]}.npz"
        with contextlib.suppress(VocabError):
            return cls._from(student, teacher, _read(path, student, teacher))
        pair = cls(student=student, teacher=teacher)
        with contextlib.suppress(OSError):
            pair.save(path)
        return pair

    @classmethod
    def _from(cls, student: ByteVocab, teacher: ByteVocab, arrays: dict[str, np.ndarray]) -> TokenizerPair:
        pair = cls.__new__(cls)
        pair.student, pair.teacher = student, teacher
        for name in _TABLES:
            setattr(pair, name, arrays[name])
        return pair


def _check(student: Any, teacher: Any) -> None:
    for who, vocab in (("student", student), ("teacher", teacher)):
        if not isinstance(vocab, ByteVocab):
            raise VocabError(f"{who}={reprlib.repr(vocab)} is no ByteVocab; make one with ByteVocab.from_tokenizer")


def _run(keys: list[bytes], prefix: bytes) -> tuple[int, int, int]:
    """In sorted `keys`: where those that start with `prefix` begin, where those equal to it end, where all end."""
    low = bisect_left(keys, prefix)
    exact = low
    while exact < len(keys) and keys[exact] == prefix:
        exact += 1
    # The first string after all that start with `prefix`: its last byte that can grow, grown by one.
    stem = prefix.rstrip(b"\xff")
    after = stem[:-1] + bytes([stem[-1] + 1]) if stem else None
    high = len(keys) if after is None else bisect_left(keys, after, exact)
    return low, exact, high


def _fingerprint(student: ByteVocab, teacher: ByteVocab) -> str:
    """Names a pair of vocabularies (and the format of its tables) in the cache."""
    return hashlib.sha256(f"{_FORMAT}:{student.fingerprint}:{teacher.fingerprint}".encode()).hexdigest()


def _digest(arrays: dict[str, np.ndarray]) -> np.ndarray:
    digest = hashlib.sha256(str(_FORMAT).encode())
    for name in sorted(arrays):
        if name != "digest":
            digest.update(f"{name}{arrays[name].dtype}{arrays[name].shape}".encode())
            digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _read(path: str | os.PathLike[str], *expected: ByteVocab) -> dict[str, np.ndarray]:
    try:
        # Opened here: numpy leaves a damaged file open.
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise VocabError(f"no saved pair at {os.fspath(path)!r}") from error
    except Exception as error:  # whatever a damaged archive makes of itself
        raise VocabError(f"{os.fspath(path)!r} is not a saved pair, or damaged; delete it") from error
    if "digest" not in arrays or not np.array_equal(arrays["digest"], _digest(arrays)):
        raise VocabError(f"{os.fspath(path)!r} is damaged or of another version of escd; delete it")
    for prefix, vocab in zip(("student", "teacher"), expected, strict=False):
        if any(not np.array_equal(arrays[name], value) for name, value in vocab.to_arrays(prefix).items()):
            raise VocabError(f"{os.fspath(path)!r} was made for other vocabularies; delete it")
    return arrays
