"""Random tokenizer pairs over tiny alphabets, responses that both can spell, and logits."""

from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from oracle import Vocab

LETTERS = (b"a", b"b", b" ", b"\t", b"\n", b"\xc3", b"\xa9", b"\xff")
rarely = st.sampled_from([False] * 5 + [True])  # the first choices are the likelier ones


class Pair(NamedTuple):
    student: Vocab
    teacher: Vocab


class Response(NamedTuple):
    student: Vocab
    teacher: Vocab
    student_ids: list
    teacher_ids: list


class Scene(NamedTuple):
    """A response with logits: exactly the positional arguments of `oracle.row_losses`."""

    student: Vocab
    teacher: Vocab
    student_logits: np.ndarray
    teacher_logits: np.ndarray
    student_ids: list
    teacher_ids: list


def shuffled(items):
    """Some order of a list; one draw, unlike `st.permutations`."""
    return st.integers(0, 2**16).map(lambda seed: Random(seed).sample(items, len(items)) if seed else items)


def words(pieces, longest, shortest=1):
    return st.lists(st.sampled_from(pieces), min_size=shortest, max_size=longest).map(b"".join)


@st.composite
def vocabularies(draw, letters, parts=()):
    """A vocabulary of tokens over `letters`, and of concatenations of `parts` where given."""
    kinds = [words(letters, 2), words(letters, 4), words(letters, 2), words(letters, 7)]
    tokens = draw(st.lists(st.one_of(*kinds), min_size=1, max_size=8))
    if parts:
        joined = draw(st.lists(words(parts, 3, shortest=2), min_size=1, max_size=4))
        tokens += joined + [joined[0] + tail for tail in draw(st.lists(words(letters, 2), max_size=3))]
    if draw(rarely) is False:  # mostly every single byte is a token, so that every text can be spelled
        tokens += letters
    if draw(rarely):
        tokens += draw(st.lists(st.sampled_from(tokens), max_size=2))  # duplicates
    tokens += draw(st.lists(st.sampled_from([None, None, b""]), max_size=2))
    stops = [None] * draw(st.sampled_from([1, 1, 1, 2, 3, 0]))
    if stops and draw(rarely):
        stops[0] = draw(st.sampled_from(letters))  # a stop that was given bytes is still no content
    slots = draw(shuffled([(b, False) for b in tokens] + [(b, True) for b in stops]))
    stop_ids = tuple(draw(shuffled([i for i, (_, stop) in enumerate(slots) if stop])))
    preferred = draw(st.sampled_from(stop_ids)) if stop_ids and draw(st.booleans()) else None
    silent = [i for i, (b, stop) in enumerate(slots) if stop or not b]
    spellings = dict(zip(silent, draw(shuffled(["<end>", "<pad>", "<s>", None, None])), strict=False))
    special = tuple((i, name) for i, name in spellings.items() if name is not None)
    return Vocab([b for b, _ in slots], stop_ids, preferred, special)


@st.composite
def pairs(draw):
    """A student and a teacher whose tokens prefix each other a lot."""
    letters = draw(st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3, unique=True))
    student = draw(vocabularies(letters))
    parts = sorted(set(student.content().values()))
    return Pair(student, draw(vocabularies(letters, parts)))


@st.composite
def spellings(draw, vocab, text):
    """Ids of a random segmentation of `text`, or of its longest prefix that has one."""
    content = vocab.content()
    reached = {0}
    for end in range(1, len(text) + 1):
        if any(text[:end].endswith(b) and end - len(b) in reached for b in content.values()):
            reached.add(end)
    end, ids = max(reached), []
    while end:  # from the end backwards, so that every choice leads to the start
        ways = [i for i, b in content.items() if text[:end].endswith(b) and end - len(b) in reached]
        ids.insert(0, draw(st.sampled_from(ways)))
        end -= len(content[ids[0]])
    return ids


@st.composite
def responses(draw):
    """Ids of one response on both sides: mostly the same bytes, mostly stopped, sometimes neither."""
    student, teacher = draw(pairs())
    tokens = list(student.content())
    fewest, most = draw(st.sampled_from([(2, 5), (3, 7), (1, 3), (3, 7), (0, 2)]))
    student_ids = draw(st.lists(st.sampled_from(tokens), min_size=fewest, max_size=most)) if tokens else []
    text = b"".join(student.bytes_of(i) for i in student_ids)
    teacher_ids = draw(spellings(teacher, text))
    if draw(st.sampled_from([False, False, True])):  # another tail
        tokens = list(teacher.content())
        del teacher_ids[draw(st.integers(0, len(teacher_ids))) :]
        teacher_ids += draw(st.lists(st.sampled_from(tokens), max_size=3)) if tokens else []
    for vocab, ids in ((student, student_ids), (teacher, teacher_ids)):
        silent = [i for i in range(len(vocab.token_bytes)) if i not in vocab.content()]
        if silent and draw(rarely):
            ids.insert(draw(st.integers(0, len(ids))), draw(st.sampled_from(silent)))
    stopped = draw(st.sampled_from(["both", "both", "both", "student", "neither"]))
    if student.stop_ids and stopped != "neither":
        student_ids.append(draw(st.sampled_from(student.stop_ids)))
    if teacher.stop_ids and stopped == "both":
        teacher_ids.append(draw(st.sampled_from(teacher.stop_ids)))
    return Response(student, teacher, student_ids, teacher_ids)


@st.composite
def scenes(draw, scales=(1.0, 10.0, 60.0, 600.0)):
    """A response with random logits, sometimes with padded columns."""
    student, teacher, student_ids, teacher_ids = draw(responses())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = []
    for vocab, ids in ((student, student_ids), (teacher, teacher_ids)):
        columns = len(vocab.token_bytes) + draw(st.sampled_from([0, 0, 1, 3]))
        tables.append(rng.normal(size=(len(ids), columns)) * draw(st.sampled_from(scales)))
    return Scene(student, teacher, *tables, student_ids, teacher_ids)


@st.composite
def same_vocabulary_scenes(draw):
    """One vocabulary on both sides without duplicates, at most one column beyond content and stop."""
    letters = draw(st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3, unique=True))
    tokens = sorted(set(draw(st.lists(words(letters, 3), min_size=1, max_size=8))))
    vocab = Vocab([*tokens, None], (len(tokens),))
    ids = [*draw(st.lists(st.integers(0, len(tokens) - 1), max_size=6)), len(tokens)]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = (len(ids), len(vocab.token_bytes) + draw(st.integers(0, 1)))
    scale = draw(st.sampled_from([1.0, 10.0]))
    return Scene(vocab, vocab, rng.normal(size=shape) * scale, rng.normal(size=shape) * scale, ids, list(ids))


options = st.fixed_dictionaries(
    {},
    optional={
        "completion": st.sampled_from(["set", "deep", "none", "single", "exact", "minimal"]),
        "completion_weight": st.sampled_from(["mass", "posterior"]),
        "rest_bin": st.booleans(),
        "mask_whitespace_roots": st.booleans(),
    },
)
