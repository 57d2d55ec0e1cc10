"""What two vocabularies have to do with each other before any text is seen: projection, groups, stops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..pair import TokenizerPair
from .vocabulary import Token

# How many examples a list of tokens or groups holds.
EXAMPLES = 8


@dataclass(frozen=True)
class Projection:
    """How the teacher's content tokens enter the student's vocabulary (phi, method section 2).

    Attributes:
        content: Content tokens of the teacher.
        exact: Those whose bytes are one student token.
        shortened: Those that enter by a shorter student token.
        bottom: Those that no student token begins: they map to ⊥.
        coverage: Share of the content tokens that enter a student token.
        bottom_examples: The shortest of those at ⊥.
        reached: Content tokens of the student that some teacher token enters by (U without the stop).
        reached_share: Share of the student's content tokens; the mass that the student has on the others is in ⊥.
    """

    content: int
    exact: int
    shortened: int
    bottom: int
    coverage: float
    bottom_examples: list[Token]
    reached: int
    reached_share: float


@dataclass(frozen=True)
class Group:
    """A group of candidates.

    Attributes:
        index: Its number in the pair.
        representative: Its shortest member.
        size: Number of its members.
        examples: Some further members.
    """

    index: int
    representative: Token
    size: int
    examples: list[Token]


@dataclass(frozen=True)
class GroupFacts:
    """Groups and their completion sets (method section 3).

    Attributes:
        candidates: Content tokens of the teacher that are not one student token.
        groups: Number of groups.
        mean_size, max_size: Members of a group.
        singletons: Share of the groups with one member.
        branchable: Share of the groups whose representative strictly extends some student token.
        completable: Share of the groups that have a one-step completion after some action.
        entries: Pairs (group, action) such that the action is a strict prefix of the representative.
        completable_entries: Share of the entries with C_g ≠ ∅.
        overshooting_entries: Share of the entries whose completion set holds tokens longer than the residual.
        largest: The groups with the most members.
        stuck: The groups with the most members among those that have no one-step completion.
    """

    candidates: int
    groups: int
    mean_size: float
    max_size: int
    singletons: float
    branchable: float
    completable: float
    entries: int
    completable_entries: float
    overshooting_entries: float
    largest: list[Group]
    stuck: list[Group]


@dataclass(frozen=True)
class StopFacts:
    """What ends a response on both sides, and the special tokens of equal spelling (paper A.2).

    Attributes:
        student, teacher: The preferred stop of each, None if it has none.
        joined: Whether the teacher's stops map to the student's.
        same_spelling: Whether both preferred stops are spelled alike.
        shared_specials: Spellings of tokens without bytes that both vocabularies have.
    """

    student: Token | None
    teacher: Token | None
    joined: bool
    same_spelling: bool
    shared_specials: list[str]


def share(part: float, whole: float) -> float:
    """`part / whole`, 0 of nothing."""
    return float(part / whole) if whole else 0.0


def projection(pair: TokenizerPair) -> Projection:
    """Measure phi."""
    teacher, student = pair.teacher.byte_lengths, pair.student.byte_lengths
    content = int((teacher > 0).sum())
    lost = np.flatnonzero((teacher > 0) & (pair.phi < 0))
    exact = content - len(pair.candidates)
    reached = int((pair.image & (student > 0)).sum())
    shortest = lost[np.argsort(teacher[lost], kind="stable")][:EXAMPLES]
    return Projection(
        content=content,
        exact=exact,
        shortened=content - exact - len(lost),
        bottom=len(lost),
        coverage=share(content - len(lost), content),
        bottom_examples=[Token.of(pair.teacher, v) for v in shortest.tolist()],
        reached=reached,
        reached_share=share(reached, (student > 0).sum()),
    )


def group_facts(pair: TokenizerPair) -> GroupFacts:
    """Measure groups and completion sets."""
    sizes = np.diff(pair.group_start)
    groups, entries = len(sizes), len(pair.entry_group)
    has = pair.range_high > pair.range_low
    completable = np.zeros(groups, bool)
    completable[pair.entry_group[has]] = True
    by_size = np.argsort(-sizes, kind="stable")
    return GroupFacts(
        candidates=len(pair.candidates),
        groups=groups,
        mean_size=share(sizes.sum(), groups),
        max_size=int(sizes.max(initial=0)),
        singletons=share((sizes == 1).sum(), groups),
        branchable=share(len(np.unique(pair.entry_group)), groups),
        completable=share(completable.sum(), groups),
        entries=entries,
        completable_entries=share(has.sum(), entries),
        overshooting_entries=share((pair.range_high > pair.range_exact).sum(), entries),
        largest=describe_groups(pair, by_size[:EXAMPLES]),
        stuck=describe_groups(pair, by_size[~completable[by_size]][:EXAMPLES]),
    )


def describe_groups(pair: TokenizerPair, groups: Iterable[int]) -> list[Group]:
    """Groups by number, each with a few of its members."""
    found = []
    for g in map(int, groups):
        start, end = pair.group_start[g : g + 2].tolist()
        first, *others = (Token.of(pair.teacher, v) for v in pair.candidates[start : min(end, start + 4)].tolist())
        found.append(Group(g, first, end - start, others))
    return found


def stop_facts(pair: TokenizerPair) -> StopFacts:
    """Measure what ends a response and what control tokens are shared."""
    student, teacher = (
        None if vocab.preferred_stop is None else Token.of(vocab, vocab.preferred_stop)
        for vocab in (pair.student, pair.teacher)
    )
    specials = (set(vocab.special_tokens.values()) for vocab in (pair.student, pair.teacher))
    return StopFacts(
        student=student,
        teacher=teacher,
        joined=student is not None and teacher is not None,
        same_spelling=student is not None and teacher is not None and student.text == teacher.text != "",
        shared_specials=sorted(set.intersection(*specials)),
    )
