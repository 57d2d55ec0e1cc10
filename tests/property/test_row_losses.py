"""Row losses and gradients of the ESCD objective against brute force, in float64 unless said."""

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st

import escd
import oracle

from . import build
from .strategies import options, same_vocabulary_scenes, scenes

thorough = settings(max_examples=100, deadline=None)
quick = settings(max_examples=40, deadline=None)


def run(scene, dtype=torch.float64, **choice):
    """Losses, and the student logits that they can be differentiated by."""
    logits = torch.tensor(scene.student_logits, dtype=dtype, requires_grad=True)
    teacher = torch.tensor(scene.teacher_logits, dtype=dtype)
    objective = escd.objective("escd", build.pair(scene), **choice)
    return objective.row_losses(logits, teacher, scene.student_ids, scene.teacher_ids), logits


def some_columns(columns):
    """None, all, or any of them."""
    columns = list(columns)
    parts = st.lists(st.sampled_from(columns), unique=True) if columns else st.just([])
    return st.one_of(st.just(columns), st.just([]), parts)


def values(tensor):
    return tensor.detach().numpy()


def close(found, expected, tolerance=1e-6):
    np.testing.assert_allclose(values(found), expected, rtol=tolerance, atol=tolerance)


@thorough
@given(scenes(), options)
def test_row_losses(scene, choice):
    losses, _ = run(scene, **choice)
    root, child = oracle.row_losses(*scene, **choice)
    event(f"child: {child.any()}")
    for found in (losses.root, losses.child, losses.total):
        assert found.shape == (len(scene.student_ids),)
    close(losses.root, root)
    close(losses.child, child)
    close(losses.total, root + child)


@thorough
@given(scenes(), options, st.sampled_from([0.0, 0.5, 1.0, 3.0]))
def test_gradient_is_the_closed_form(scene, choice, weight):
    losses, logits = run(scene, child_weight=weight, **choice)
    losses.total.sum().backward()
    expected = oracle.row_gradients(*scene, child_weight=weight, **choice)
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-6, atol=1e-6)
    close(losses.total, values(losses.root) + weight * values(losses.child))


@quick
@given(scenes(scales=(1.0, 10.0)), options)
def test_single_precision_stays_close(scene, choice):
    losses, logits = run(scene, dtype=torch.float32, **choice)
    root, child = oracle.row_losses(*scene, **choice)
    close(losses.root, root, 1e-4)
    close(losses.child, child, 1e-4)
    losses.total.sum().backward()
    np.testing.assert_allclose(logits.grad.numpy(), oracle.row_gradients(*scene, **choice), atol=1e-4)


@quick
@given(scenes(), st.data())
def test_minus_infinity_gives_no_nan(scene, data):
    """Columns ruled out: any of the teacher's but one a row, and the student's where the loss stays finite."""
    for row in scene.teacher_logits:
        row[data.draw(some_columns(range(len(row) - 1)))] = -np.inf
    rows, columns = scene.student_logits.shape
    what = oracle.supervision(*scene[:2], *scene[3:], columns)
    for row in range(rows):
        wanted = set()  # columns whose probability the loss asks for
        if what.root[row] is not None:
            cells, bottom, outside = what.root[row]
            wanted.update(u for u, t in cells.items() if t > 0)
            wanted.update(outside if bottom > 0 else ())
        for mass, chosen, _ in what.child[row]:
            wanted.update(chosen if mass > 0 else ())
        free = [j for j in range(columns) if j not in wanted]
        scene.student_logits[row, data.draw(some_columns(free if wanted else free[1:]))] = -np.inf
    root, child = oracle.row_losses(*scene)
    assert np.isfinite(root + child).all()
    losses, logits = run(scene)
    close(losses.root, root)
    close(losses.child, child)
    losses.total.sum().backward()
    np.testing.assert_allclose(logits.grad.numpy(), oracle.row_gradients(*scene), rtol=1e-6, atol=1e-6)


@quick
@given(same_vocabulary_scenes())
def test_identical_vocabularies_give_plain_kl(scene):
    losses, _ = run(scene, mask_whitespace_roots=False)
    student, teacher = (torch.tensor(z).log_softmax(-1) for z in scene[2:4])
    kl = torch.nn.functional.kl_div(student, teacher, reduction="none", log_target=True).sum(-1)
    close(losses.root, kl.numpy())
    assert not losses.child.any()


@quick
@given(scenes())
def test_options_only_touch_their_own_term(scene):
    plain, _ = run(scene)
    off, _ = run(scene, completion="none")
    shown, _ = run(scene, mask_whitespace_roots=False)
    assert not off.child.any()
    close(off.root, values(plain.root))
    close(off.total, values(plain.root))
    close(shown.child, values(plain.child))
    sampled = [scene.student.bytes_of(i) for i in scene.student_ids]
    blank = np.array([bool(b) and not b.strip(b" \t") for b in sampled], bool)
    assert not values(plain.root)[blank].any()
    close(shown.root[torch.tensor(~blank)], values(plain.root)[~blank])


@quick
@given(scenes())
def test_a_smaller_completion_set_never_costs_less_per_group(scene):
    """Every option chooses subsets of the sets C_g; compared where it leaves none of them empty."""
    about = *scene[:2], *scene[3:], scene.student_logits.shape[1]
    whole = oracle.supervision(*about)
    lost, _ = run(scene)
    for completion in ("exact", "minimal", "single"):
        part = oracle.supervision(*about, completion=completion)
        losses, _ = run(scene, completion=completion)
        for row, (a, b) in enumerate(zip(whole.child, part.child, strict=True)):
            if len(a) == len(b):
                assert losses.child[row] >= lost.child[row] - 1e-9


@quick
@given(scenes())
def test_the_teacher_is_a_constant(scene):
    logits = torch.tensor(scene.student_logits, requires_grad=True)
    teacher = torch.tensor(scene.teacher_logits, requires_grad=True)
    objective = escd.objective("escd", build.pair(scene))
    objective.row_losses(logits, teacher, scene.student_ids, scene.teacher_ids).total.sum().backward()
    assert logits.grad is not None
    assert teacher.grad is None or not teacher.grad.any()


@quick
@given(scenes(), st.randoms(use_true_random=False))
def test_numbering_of_the_vocabularies_does_not_matter(scene, random):
    """Renaming ids on both sides changes no loss, as long as tokens of equal bytes keep their order."""
    moved = list(scene)
    for side in (0, 1):
        tokens, stops, preferred, special = scene[side]
        new = list(range(len(tokens)))
        random.shuffle(new)  # new[i]: the new id of token i
        for same in {b: [i for i, c in enumerate(tokens) if c == b] for b in tokens}.values():
            for i, k in zip(same, sorted(new[i] for i in same), strict=True):
                new[i] = k
        moved[side] = oracle.Vocab(
            [tokens[new.index(k)] for k in range(len(tokens))],
            tuple(new[s] for s in stops),
            None if preferred is None else new[preferred],
            tuple((new[i], name) for i, name in special),
        )
        table = scene[2 + side].copy()
        table[:, new] = scene[2 + side][:, : len(new)]
        moved[2 + side] = table
        moved[4 + side] = [new[i] for i in scene[4 + side]]
    before, _ = run(scene)
    after, _ = run(type(scene)(*moved))
    close(after.root, values(before.root))
    close(after.child, values(before.child))


@quick
@given(scenes(), options)
def test_no_root_gives_a_zero_that_can_be_back_propagated(scene, choice):
    for cut in (
        scene._replace(teacher_ids=[], teacher_logits=scene.teacher_logits[:0]),
        scene._replace(student_ids=[], student_logits=scene.student_logits[:0]),
    ):
        losses, logits = run(cut, **choice)
        assert not losses.total.any()
        losses.total.sum().backward()
        assert logits.grad.shape == logits.shape
        assert not logits.grad.any()


WORDS = oracle.Vocab([b"a", b"ab", b"b", b" ", b"bc", None, b"c", None], (5,))
TEXTS = oracle.Vocab([b"abc", b"abcc", b"ab", b" ab", b"c", b" ", None], (6,))


@pytest.mark.parametrize("completion", ["set", "deep", "none", "single", "exact", "minimal"])
def test_gradcheck(completion):
    rng = np.random.default_rng(5)
    student_ids, teacher_ids = [0, 4, 3, 1, 6, 5], [0, 5, 0, 6]
    pair = escd.TokenizerPair(student=build.vocab(WORDS), teacher=build.vocab(TEXTS))
    objective = escd.objective("escd", pair, child_weight=0.5, completion=completion)
    teacher = torch.tensor(rng.normal(size=(4, 7)))

    def total(z):
        return objective.row_losses(z, teacher, student_ids, teacher_ids).total

    logits = torch.tensor(rng.normal(size=(6, 9)), requires_grad=True)
    child = objective.row_losses(logits, teacher, student_ids, teacher_ids).child
    assert bool(child.any()) == (completion != "none")
    assert torch.autograd.gradcheck(total, (logits,))
