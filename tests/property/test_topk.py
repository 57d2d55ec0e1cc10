"""ESCD with a sparse teacher against brute force: groups, representatives, masses and U of retained tokens only."""

import numpy as np
import pytest
import torch
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

import escd
import oracle
from escd.objectives.rows import Rows
from escd.objectives.tiles import Head, SparseHead, logits_of, tiled_losses
from escd.pair import TokenizerPair

from . import build
from .strategies import scenes

options = st.fixed_dictionaries(
    {},
    optional={
        "completion": st.sampled_from(["set", "none", "single", "exact"]),
        "mask_whitespace_roots": st.booleans(),
    },
)


@st.composite
def sparse_scenes(draw, scales=(1.0, 10.0)):
    """A scene whose teacher keeps any k of its tokens in each row, and the rows as a served teacher gives them.

    Returns:
        The scene, with log-probabilities over the vocabulary and one column for what is missing, and [m, 2 K] rows.
    """
    scene = draw(scenes(scales=scales))
    size, k = len(scene.teacher.token_bytes), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = np.full((len(scene.teacher_ids), size + 1), -np.inf)
    rows = np.zeros((len(scene.teacher_ids), 2, k + 1))
    for row, logits in enumerate(scene.teacher_logits):
        q = np.exp(logits[:size] - oracle.log_sum(logits, range(len(logits))))
        kept = rng.permutation(size)[:k]
        table[row, kept] = np.log(np.maximum(q[kept], 1e-300))
        missing = 1 - np.exp(table[row, kept]).sum()
        if missing > 0:
            table[row, size] = np.log(missing)
        columns = [*kept, *[size] * (k + 1 - len(kept))]
        rows[row] = columns, table[row, columns]
    return scene._replace(teacher_logits=table), rows.reshape(len(rows), 2 * (k + 1))


@settings(max_examples=150, deadline=None)
@given(sparse_scenes(), options)
def test_row_losses_and_gradients(given_scene, choice):
    scene, _ = given_scene
    logits = torch.tensor(scene.student_logits, requires_grad=True)
    objective = escd.objective("escd-topk", build.pair(scene), child_weight=0.7, **choice)
    losses = objective.row_losses(logits, torch.tensor(scene.teacher_logits), scene.student_ids, scene.teacher_ids)
    root, child = oracle.row_losses(*scene, sparse=True, **choice)
    event(f"child: {child.any()}")
    np.testing.assert_allclose(losses.root.detach(), root, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(losses.child.detach(), child, rtol=1e-6, atol=1e-6)
    losses.total.sum().backward()
    expected = oracle.row_gradients(*scene, child_weight=0.7, sparse=True, **choice)
    np.testing.assert_allclose(logits.grad, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=150, deadline=None)
@given(sparse_scenes(), options, st.sampled_from([1, 2000, 2**28]))
def test_tiles_agree_with_the_dense_reference(given_scene, choice, tile_bytes):
    scene, sparse = given_scene
    assume(len(scene.student_ids))
    pair = build.pair(scene)
    objective = escd.objective("escd-topk", pair, child_weight=0.7, **choice)
    hidden = torch.tensor(scene.student_logits, requires_grad=True)  # the head is the identity
    weight = torch.eye(hidden.shape[1], dtype=torch.float64)
    dense = objective.row_losses(hidden, torch.tensor(scene.teacher_logits), scene.student_ids, scene.teacher_ids)
    (expected,) = torch.autograd.grad(dense.total.sum(), hidden)
    rows = objective.rows(escd.align(pair, scene.student_ids, scene.teacher_ids))
    teacher, head = torch.tensor(sparse)[torch.from_numpy(rows.teacher)], SparseHead(scene.teacher_logits.shape[1])
    tiled = tiled_losses(objective, Rows.stack([rows], [0]), hidden, Head(weight), teacher, head, 1.0, tile_bytes)
    index = torch.from_numpy(rows.student)
    torch.testing.assert_close(tiled.root, dense.root[index])
    torch.testing.assert_close(tiled.child, dense.child[index])
    assert not len(tiled.bad_student)
    assert not len(tiled.bad_teacher)
    (found,) = torch.autograd.grad(tiled.loss, hidden)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-8)


@settings(max_examples=40, deadline=None)
@given(scenes(scales=(1.0, 10.0)), options)
def test_with_all_tokens_retained_it_is_the_dense_loss(scene, choice):
    """Where every token of the teacher is retained, groups are the static ones."""
    size = len(scene.teacher.token_bytes)
    full = np.append(scene.teacher_logits[:, :size], np.full((len(scene.teacher_ids), 1), -np.inf), axis=1)
    found, expected = (
        escd.objective(name, build.pair(scene), **choice).row_losses(
            torch.tensor(scene.student_logits), torch.tensor(full), scene.student_ids, scene.teacher_ids
        )
        for name in ("escd-topk", "escd")
    )
    torch.testing.assert_close(found.root, expected.root)
    torch.testing.assert_close(found.child, expected.child)


def test_a_group_without_its_minimal_member():
    """Bre is not retained: Bread alone is the group, and Brea leads into it although it is no prefix of Bre."""
    student = escd.ByteVocab([b"Brea", b"d", b"Br", b"e", None], stop_ids=[4])
    teacher = escd.ByteVocab([b"Bre", b"Bread", None], stop_ids=[2])
    objective = escd.objective("escd-topk", TokenizerPair(student=student, teacher=teacher))
    q = torch.tensor([[0.0, 0.6, 0.0, 0.4], [0.0, 0.0, 1.0, 0.0]]).log()
    z = torch.zeros(3, 5)
    losses = objective.row_losses(z, q, [0, 1, 4], [1, 2])
    assert losses.child[1] == pytest.approx(0.6 * np.log(5))
    z_t = logits_of(SparseHead(4), torch.tensor([[1.0, 3.0, np.log(0.6), np.log(0.4)]]))
    assert z_t[:, 0].exp().tolist() == pytest.approx([0, 0.6, 0, 0.4])
