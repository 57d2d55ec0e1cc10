"""`align` against explicit offsets."""

import numpy as np
from hypothesis import event, given, settings

import escd
import oracle

from . import build
from .strategies import responses

thorough = settings(max_examples=150, deadline=None)
quick = settings(max_examples=40, deadline=None)


@thorough
@given(responses())
def test_roots_are_the_rows_that_stand_at_a_teacher_boundary(scene):
    roots = escd.align(build.pair(scene), scene.student_ids, scene.teacher_ids).roots
    expected = oracle.roots(*scene)
    event(f"roots: {min(len(expected), 4)}")
    assert roots.dtype == np.int64
    assert roots.shape == (len(expected), 2)
    assert [tuple(r) for r in roots.tolist()] == expected


@quick
@given(responses())
def test_the_first_row_is_a_root_and_the_last_pair_of_stops_too(scene):
    student, teacher, student_ids, teacher_ids = scene
    roots = escd.align(build.pair(scene), student_ids, teacher_ids).roots.tolist()
    if student_ids and teacher_ids:
        assert roots[0] == [0, 0]
    ended = student_ids[-1:] and student_ids[-1] in student.stop_ids
    ended = ended and teacher_ids[-1:] and teacher_ids[-1] in teacher.stop_ids
    spelled = [b"".join(v.bytes_of(i) for i in ids) for v, ids in zip(scene[:2], scene[2:], strict=True)]
    if ended and spelled[0] == spelled[1]:
        assert roots[-1][0] == len(student_ids) - 1


@quick
@given(responses())
def test_roots_do_not_depend_on_the_container_of_the_ids(scene):
    built = build.pair(scene)
    plain = escd.align(built, scene.student_ids, scene.teacher_ids).roots
    ids = (np.array(side, np.int64) for side in (scene.student_ids, scene.teacher_ids))
    arrays = escd.align(built, *ids).roots
    np.testing.assert_array_equal(arrays, plain)


@quick
@given(responses())
def test_bytes_after_the_first_difference_change_nothing_before_it(scene):
    """Cutting both sides where they differ leaves the roots that stand before the cut."""
    built = build.pair(scene)
    student, teacher, student_ids, teacher_ids = scene
    limit = oracle.common_prefix(*scene)
    whole = escd.align(built, student_ids, teacher_ids).roots.tolist()
    keep_s = sum(offset <= limit for offset in oracle.starts(student, student_ids))
    keep_t = sum(offset <= limit for offset in oracle.starts(teacher, teacher_ids))
    cut = escd.align(built, student_ids[:keep_s], teacher_ids[:keep_t]).roots.tolist()
    assert whole == cut
