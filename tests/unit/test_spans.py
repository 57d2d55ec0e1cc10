"""Several responses in one conversation: one span per answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import escd

STUDENT = escd.ByteVocab([b"a", b"b", b"ab", b"c", None, None], stop_ids=[4])
TEACHER = escd.ByteVocab([b"ab", b"abc", b"a", b"b", b"c", None, None], stop_ids=[5])
PAIR = escd.TokenizerPair(STUDENT, TEACHER)
BYTES = st.binary(min_size=0, max_size=6).map(lambda b: bytes(b"abc"[x % 3] for x in b))


def test_prompt_answer_user_turn_answer():
    """The second answer is scored against itself, whatever stands before and between."""
    #          prompt | a   b   stop | user turn | ab  c  stop
    student = [5, 3, 0, 1, 4, 5, 3, 3, 2, 3, 4]
    mask_s = [0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]
    #          prompt    | ab  stop | user turn (longer) | abc stop
    teacher = [6, 4, 4, 0, 5, 6, 6, 4, 4, 6, 1, 5]
    mask_t = [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1]
    first, second = escd.align_spans(PAIR, student, teacher, mask_s, mask_t)
    assert (first.student_row, first.teacher_row) == (2, 3)
    assert first.alignment.roots.tolist() == [[0, 0], [2, 1]]
    assert (second.student_row, second.teacher_row) == (8, 10)
    assert second.alignment.roots.tolist() == [[0, 0], [2, 1]]
    # Row i predicts token i of the whole sequence.
    for span in (first, second):
        n, m = len(span.alignment.student_ids), len(span.alignment.teacher_ids)
        assert student[span.student_row : span.student_row + n] == span.alignment.student_ids.tolist()
        assert teacher[span.teacher_row : span.teacher_row + m] == span.alignment.teacher_ids.tolist()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(BYTES, st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=5),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_every_span_is_what_its_response_alone_would_be(turns, tail):
    """Conversations of any prompts and answers, taken apart again."""
    student, teacher, mask_s, mask_t, expected = [], [], [], [], []
    for data, gap_s, gap_t, ended in turns:
        ids_s, ids_t = STUDENT.encode(data)[0], TEACHER.encode(data)[0]
        ids_s, ids_t = ([*ids_s, 4], [*ids_t, 5]) if ended or not data else (ids_s, ids_t)
        for ids, gap, token, sequence, mask in (
            (ids_s, gap_s, 3, student, mask_s),
            (ids_t, gap_t, 4, teacher, mask_t),
        ):
            sequence += [token] * gap
            mask += [False] * gap
            start = len(sequence)
            sequence += ids
            mask += [True] * len(ids)
            if sequence is student:
                expected.append([escd.align(PAIR, ids_s, ids_t), start])
            else:
                expected[-1].append(start)
    student, mask_s = student + [3] * tail[0], mask_s + [False] * tail[0]
    teacher, mask_t = teacher + [4] * tail[1], mask_t + [False] * tail[1]
    spans = escd.align_spans(PAIR, np.array(student), teacher, np.array(mask_s), mask_t)
    assert len(spans) == len(expected)
    for span, (alignment, start_s, start_t) in zip(spans, expected, strict=True):
        assert (span.student_row, span.teacher_row) == (start_s, start_t)
        assert span.alignment.roots.tolist() == alignment.roots.tolist()
        assert span.alignment.status.tolist() == alignment.status.tolist()
        assert span.alignment.student_ids.tolist() == alignment.student_ids.tolist()


def test_no_response_at_all():
    assert escd.align_spans(PAIR, [0, 1], [0], [0, 0], [0]) == []
    assert escd.align_spans(PAIR, [], [], [], []) == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([0, 1], [0], [1], [1]), "the student's mask has 1 entries for 2 ids"),
        (([0, 1], [0], [1, 1], [1, 1]), "the teacher's mask has 2 entries for 1 ids"),
        (([0, 3, 1], [0, 4], [1, 0, 1], [1, 0]), "student's mask marks 2 responses, the teacher's 1"),
        (([9], [0], [1], [1]), "student id 9 lies outside"),
    ],
)
def test_masks_that_do_not_fit(arguments, error):
    with pytest.raises(escd.AlignError, match=error):
        escd.align_spans(PAIR, *arguments)
