"""A text as a response: how both tokenizers cut it, which rows are supervised, which teacher tokens cost the student.

Without a model nothing is known of the teacher's probabilities. What stands in for them is the text: the token that
the teacher's tokenizer writes at a row is one that the teacher would give mass there.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ..align import Alignment, align
from ..objectives.escd import ESCD
from ..pair import TokenizerPair
from ..vocab import ByteVocab
from .static import EXAMPLES, Group, describe_groups, share
from .vocabulary import Token


@dataclass(frozen=True)
class Unspelled:
    """What of a text a vocabulary cannot spell.

    Attributes:
        characters: Number of such characters in the text.
        bytes: Their bytes, and those that longest match cannot spell after a character that it can.
        share: Of the characters of the text.
        examples: The most frequent ones.
    """

    characters: int
    bytes: int
    share: float
    examples: list[str]


@dataclass(frozen=True)
class Use:
    """A teacher token in the text.

    Attributes:
        token: The teacher token.
        count: How often it starts at a row of the student.
        student_tokens: Mean number of student tokens that start inside it.
    """

    token: Token
    count: int
    student_tokens: float


@dataclass(frozen=True)
class Seen:
    """A teacher token, and how often the text holds it."""

    token: Token
    count: int


@dataclass(frozen=True)
class Stuck:
    """A group that the text enters without a one-step completion.

    Attributes:
        group: The group.
        count: How often.
    """

    group: Group
    count: int


@dataclass(frozen=True)
class SampleFacts:
    """What `sample_facts` measures.

    Attributes:
        bytes, characters: Size of the text.
        pieces: Parts of it that both vocabularies can spell; each is taken as one response.
        unspelled: For `student` and `teacher`, what the text holds that it cannot spell.
        student_tokens, teacher_tokens: Tokens of the pieces.
        student_bytes_per_token, teacher_bytes_per_token: Bytes of the pieces by these.
        student_per_teacher: Student tokens per teacher token.
        rows: Shares of the student's rows by what happens to them, as `Rows.counts` of ESCD names it: `root` and
            `child` (a row can be both), and the reasons of rows without a loss.
        idle: Share of the rows without any loss.
        overrun: Share of the root rows whose student token runs past the end of the teacher's token.
        tokens: Shares of the teacher's tokens in the text:
            `exact`: its bytes are one student token;
            `one_step`: a candidate that the student's token begins and some student token completes;
            `deeper`: a candidate that the student's token begins and no single token completes;
            `passed`: a candidate whose representative the student's token does not strictly prefix, so that
            its group is not entered;
            `inside`: a candidate that starts inside a student token, where no row of the student stands.
        candidates: Share of the teacher's tokens that are candidates: all but `exact`.
        one_step: Share with a one-step completion of the tokens that are entered (`one_step` and `deeper`).
        child_mass: Tokens of kind `one_step` per child row: what the teacher's mass on a child row is expected to be.
        bottom: Share of the teacher's tokens that map to ⊥.
        spans: Share of the teacher's tokens that start at a row, by how many student tokens start inside: `1`, `2`,
            `3`, `4+`.
        costly: Teacher tokens that take the student the most extra tokens in all.
        stuck: Groups that are entered most often without a one-step completion.
        bottom_tokens: Teacher tokens at ⊥ that occur most often.
    """

    bytes: int
    characters: int
    pieces: int
    unspelled: dict[str, Unspelled]
    student_tokens: int
    teacher_tokens: int
    student_bytes_per_token: float
    teacher_bytes_per_token: float
    student_per_teacher: float
    rows: dict[str, float]
    idle: float
    overrun: float
    tokens: dict[str, float]
    candidates: float
    one_step: float
    child_mass: float
    bottom: float
    spans: dict[str, float]
    costly: list[Use]
    stuck: list[Stuck]
    bottom_tokens: list[Seen]


KINDS = ("exact", "one_step", "deeper", "passed", "inside")
SPANS = ("1", "2", "3", "4+")
ROWS = ("root", "child", "blank", "interior", "no_teacher_row", "diverged")


@dataclass
class _Counts:
    """Sums over the pieces."""

    student: int = 0
    teacher: int = 0
    bytes: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    idle: int = 0
    roots: int = 0
    overrun: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    spans: Counter[str] = field(default_factory=Counter)
    token_count: Counter[int] = field(default_factory=Counter)
    token_rows: Counter[int] = field(default_factory=Counter)
    stuck: Counter[int] = field(default_factory=Counter)
    bottom: Counter[int] = field(default_factory=Counter)


def sample_facts(pair: TokenizerPair, text: str) -> SampleFacts:
    """Measure a text, taken as what the student generates in its own tokenizer's cut.

    A character that one of the vocabularies cannot spell by itself ends a piece.

    Args:
        pair: The vocabularies.
        text: What to measure on.
    """
    both = {"student": pair.student, "teacher": pair.teacher}
    lost = {who: unspellable(vocab, text) for who, vocab in both.items()}
    objective, counts = ESCD(pair), _Counts()
    lost_bytes = {who: sum(len(c.encode()) * n for c, n in found.items()) for who, found in lost.items()}
    pieces = _pieces(text, set().union(*lost.values()))
    for piece in pieces:
        student, left = pair.student.encode(piece)
        lost_bytes["student"] += left
        teacher, left = pair.teacher.encode(pair.student.decode(student))
        lost_bytes["teacher"] += left
        alignment = align(pair, student, teacher)
        rows = objective.rows(alignment)
        counts.rows.update(rows.counts)
        counts.idle += rows.total - len(rows.student)
        _count(pair, alignment, counts)
    characters = len(text)
    entered = counts.kinds["one_step"] + counts.kinds["deeper"]
    return SampleFacts(
        bytes=len(text.encode()),
        characters=characters,
        pieces=len(pieces),
        unspelled={
            who: Unspelled(
                found.total(), lost_bytes[who], share(found.total(), characters),
                [c for c, _ in found.most_common(EXAMPLES)],
            )
            for who, found in lost.items()
        },
        student_tokens=counts.student,
        teacher_tokens=counts.teacher,
        student_bytes_per_token=share(counts.bytes, counts.student),
        teacher_bytes_per_token=share(counts.bytes, counts.teacher),
        student_per_teacher=share(counts.student, counts.teacher),
        rows={name: share(counts.rows[name], counts.student) for name in ROWS},
        idle=share(counts.idle, counts.student),
        overrun=share(counts.overrun, counts.roots),
        tokens={kind: share(counts.kinds[kind], counts.teacher) for kind in KINDS},
        candidates=share(counts.teacher - counts.kinds["exact"], counts.teacher),
        one_step=share(counts.kinds["one_step"], entered),
        child_mass=share(counts.kinds["one_step"], counts.rows["child"]),
        bottom=share(counts.bottom.total(), counts.teacher),
        spans={name: share(counts.spans[name], counts.spans.total()) for name in SPANS},
        costly=_costly(pair, counts),
        stuck=[
            Stuck(describe_groups(pair, [g])[0], count) for g, count in counts.stuck.most_common(EXAMPLES)
        ],
        bottom_tokens=[Seen(Token.of(pair.teacher, v), n) for v, n in counts.bottom.most_common(EXAMPLES)],
    )  # fmt: skip


def unspellable(vocab: ByteVocab, text: str) -> Counter[str]:
    """Characters of a text that a vocabulary cannot spell by themselves, with how often they occur."""
    lengths = vocab.byte_lengths
    single = set(vocab.blob[vocab.byte_starts[lengths == 1]].tolist())
    counts = Counter(text)
    # A character whose bytes are all tokens can be spelled; only the others are worth encoding.
    doubtful = [c for c in counts if not single.issuperset(c.encode())]
    return Counter({c: counts[c] for c in doubtful if vocab.encode(c.encode())[1]})


def _pieces(text: str, unspelled: set[str]) -> list[bytes]:
    """The text in UTF-8, cut at and without some characters."""
    parts = re.split(f"[{re.escape(''.join(sorted(unspelled)))}]", text) if unspelled else [text]
    return [part.encode() for part in parts if part]


def _count(pair: TokenizerPair, alignment: Alignment, counts: _Counts) -> None:
    """Add one piece."""
    ids_s, ids_t, roots = alignment.student_ids, alignment.teacher_ids, alignment.roots
    starts, starts_t = alignment.offsets, alignment.teacher_offsets
    ends_t = starts_t + pair.teacher.byte_lengths[ids_t]
    counts.student += len(ids_s)
    counts.teacher += len(ids_t)
    counts.bytes += alignment.lengths[0]

    # Rows at which a teacher token starts, and the teacher token that starts there.
    row, column = roots.T
    action, token = ids_s[row], ids_t[column]
    counts.roots += len(row)
    counts.overrun += int((starts[row] + pair.student.byte_lengths[action] > ends_t[column]).sum())
    cost = np.searchsorted(starts, ends_t[column]) - row
    counts.spans.update(dict(zip(SPANS, np.bincount(np.minimum(cost, 4), minlength=5)[1:].tolist(), strict=True)))
    tokens, place, times = np.unique(token, return_inverse=True, return_counts=True)
    counts.token_count.update(dict(zip(tokens.tolist(), times.tolist(), strict=True)))
    totals = np.bincount(place, weights=cost, minlength=len(tokens)).astype(int)
    counts.token_rows.update(dict(zip(tokens.tolist(), totals.tolist(), strict=True)))

    candidate = pair.group_of[ids_t] >= 0
    counts.kinds["exact"] += int((~candidate).sum())
    at_row = np.zeros(len(ids_t), bool)
    at_row[column] = True
    counts.kinds["inside"] += int((candidate & ~at_row).sum())
    action, token = action[candidate[column]], token[candidate[column]]
    entry = entries_of(pair, action, pair.group_of[token])
    entered = entry >= 0
    completed = entered & (pair.range_high[entry] > pair.range_low[entry])
    counts.kinds["passed"] += int((~entered).sum())
    counts.kinds["one_step"] += int(completed.sum())
    counts.kinds["deeper"] += int((entered & ~completed).sum())
    counts.stuck.update(pair.group_of[token[entered & ~completed]].tolist())
    counts.bottom.update(ids_t[pair.phi[ids_t] < 0].tolist())


def entries_of(pair: TokenizerPair, action: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Which entry of the pair an action and a group are, -1 if the action is no strict prefix of its representative.

    The groups behind one action are consecutive.

    Args:
        pair: The vocabularies.
        action: int64 [N], student tokens.
        group: int64 [N], groups.
    """
    start, count = pair.entry_start[action], pair.entry_count[action]
    some = count > 0
    step = np.full(len(action), -1)
    step[some] = group[some] - pair.entry_group[start[some]]
    return np.where((step >= 0) & (step < count), start + step, -1)


def _costly(pair: TokenizerPair, counts: _Counts) -> list[Use]:
    """Teacher tokens by how many student tokens beyond one they take in all."""
    extra = Counter({v: rows - counts.token_count[v] for v, rows in counts.token_rows.items()})
    return [
        Use(Token.of(pair.teacher, v), counts.token_count[v], share(counts.token_rows[v], counts.token_count[v]))
        for v, more in extra.most_common(EXAMPLES)
        if more > 0
    ]
