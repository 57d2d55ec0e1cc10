"""The tiled path agrees with the dense reference, values and gradients, whatever the tiles, heads and batches are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import escd
from escd.objectives.completion import COMPLETIONS
from escd.objectives.rows import Rows
from escd.objectives.tiles import Head, tiled_losses

PIECES = [b"a", b"b", b" ", b"ab", b"ba", b"aab", b" a", b"  ", b"bab", b"abba", b"\n", b"b\n", b"a\n\n", b" ab\n"]


def vocabulary(rng: np.random.Generator) -> escd.ByteVocab:
    """Single bytes and a random choice of longer tokens, with holes and two stops."""
    longer = [p for p in PIECES if len(p) > 1 and rng.random() < 0.6]
    table = [b"a", b"b", b" ", b"\n", None, *longer, None, None]
    rng.shuffle(table)
    holes = [i for i, b in enumerate(table) if b is None]
    return escd.ByteVocab(table, holes[:2], holes[int(rng.integers(2))])


def segmentation(rng: np.random.Generator, vocab: escd.ByteVocab, data: bytes) -> list[int]:
    ids = []
    while data:
        fits = [i for i, b in enumerate(vocab.token_bytes) if b is not None and data.startswith(b)]
        ids.append(int(rng.choice(fits)))
        data = data[len(vocab.token_bytes[ids[-1]]) :]
    return ids


class Case:
    """A batch of responses with random heads and hidden states."""

    def __init__(self, seed: int, responses: int, padding: int, dtype=torch.float64, width: int = 5):
        rng = np.random.default_rng(seed)
        student, teacher = vocabulary(rng), vocabulary(rng)
        self.pair = escd.TokenizerPair(student=student, teacher=teacher)
        self.ids = []
        for _ in range(responses):
            data = bytes(rng.choice(list(b"ab \n"), int(rng.integers(0, 9))).astype(np.uint8))
            ids_s, ids_t = segmentation(rng, student, data), segmentation(rng, teacher, data)
            if rng.random() < 0.7:
                ids_s.append(student.preferred_stop)
                ids_t.append(teacher.preferred_stop)
            self.ids.append((ids_s, ids_t))

        def random(*shape, scale=1.0):
            return torch.from_numpy(rng.normal(size=shape) * scale).to(dtype)

        rows_s, rows_t = (sum(len(pair[k]) for pair in self.ids) for k in (0, 1))
        self.hidden = random(rows_s, width).requires_grad_()
        self.weight = random(len(student) + padding, width, scale=2.0).requires_grad_()
        self.bias = random(len(student) + padding).requires_grad_()
        self.teacher_hidden = random(rows_t, width + 1)
        self.teacher_weight = random(len(teacher) + padding, width + 1, scale=2.0)

    def rows(self, objective) -> tuple[Rows, torch.Tensor]:
        each = [objective.rows(escd.align(self.pair, s, t)) for s, t in self.ids]
        starts_s, starts_t = (np.cumsum([0, *(len(pair[k]) for pair in self.ids)]) for k in (0, 1))
        picked = np.concatenate(
            [np.zeros(0, np.int64), *(r.teacher + t for r, t in zip(each, starts_t, strict=False))]
        )
        return Rows.stack(each, starts_s[:-1].tolist()), self.teacher_hidden[torch.from_numpy(picked)]

    def dense(self, objective, scale, softcap):
        z = (self.hidden @ self.weight.T + self.bias) * scale
        z = z if softcap is None else softcap * torch.tanh(z / softcap)
        z_t = self.teacher_hidden @ self.teacher_weight.T
        at_s = at_t = 0
        out = []
        for ids_s, ids_t in self.ids:
            part = z[at_s : at_s + len(ids_s)], z_t[at_t : at_t + len(ids_t)]
            out.append(objective.row_losses(*part, ids_s, ids_t))
            at_s, at_t = at_s + len(ids_s), at_t + len(ids_t)
        return [torch.cat([getattr(x, name) for x in out]) for name in ("total", "root", "child")]


ARMS = [
    *(("escd", {"completion": arm}) for arm in COMPLETIONS),
    ("escd", {"child_weight": 0.25, "mask_whitespace_roots": False}), ("escd", {"child_weight": 0.0}),
    ("escd", {"completion_weight": "posterior"}), ("escd", {"completion": "deep", "completion_weight": "posterior"}),
    ("escd", {"rest_bin": True}), ("bpm", {}), ("bpm", {"beta": 0.5}), ("bpm", {"beta": 1.0}), ("bpm+child", {}),
    ("bpm+child", {"completion": "deep", "child_weight": 0.5}), ("simct", {}), ("simct", {"units": "realised"}),
    ("gold", {}), ("gold", {"beta": 0.0, "matched_weight": 0.7}), ("uld", {}), ("xtoken", {}), ("alm", {}),
    ("strict", {}), ("sft", {}), ("seqkd", {}),
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6), responses=st.integers(1, 4), padding=st.sampled_from([0, 3]),
    arm=st.sampled_from(ARMS), scale=st.sampled_from([1.0, 0.3]), softcap=st.sampled_from([None, 3.0]),
    tile_bytes=st.sampled_from([1, 500, 2000, 2**28]),
)  # fmt: skip
def test_tiles_agree_with_the_dense_reference(seed, responses, padding, arm, scale, softcap, tile_bytes):
    case = Case(seed, responses, padding)
    objective = escd.objective(arm[0], case.pair, **arm[1])
    total, root, child = case.dense(objective, scale, softcap)
    leaves = (case.hidden, case.weight, case.bias)
    loss = total.sum() / 7
    expected = torch.autograd.grad(loss, leaves, allow_unused=True)
    rows, teacher = case.rows(objective)
    tiled = tiled_losses(
        objective, rows, case.hidden, Head(case.weight, case.bias, scale, softcap), teacher, Head(case.teacher_weight),
        denominator=7, tile_bytes=tile_bytes,
    )  # fmt: skip
    torch.testing.assert_close(tiled.loss, loss)
    index = torch.from_numpy(rows.student)
    torch.testing.assert_close(tiled.root, root[index])
    torch.testing.assert_close(tiled.child, child[index])
    assert not len(tiled.bad_student)
    assert not len(tiled.bad_teacher)
    # A factor in front, as a gradient scaler puts it, reaches every gradient.
    found = torch.autograd.grad(tiled.loss * 3, leaves)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a / 3, torch.zeros_like(a) if b is None else b, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_inputs_are_summed_in_fp32(dtype):
    case = Case(3, 6, 2, dtype=dtype, width=48)
    objective = escd.objective("escd", case.pair)
    rows, teacher = case.rows(objective)

    def run(to):
        leaves = [x.detach().to(to).requires_grad_() for x in (case.hidden, case.weight, case.bias)]
        out = tiled_losses(
            objective, rows, leaves[0], Head(leaves[1], leaves[2]), teacher.to(to), Head(case.teacher_weight.to(to))
        )
        return out, torch.autograd.grad(out.loss, leaves)

    (low, low_grads), (exact, exact_grads) = run(dtype), run(torch.float64)
    assert low.loss.dtype == torch.float32
    torch.testing.assert_close(low.loss.double(), exact.loss, rtol=1e-5, atol=1e-5)
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    for a, b in zip(low_grads, exact_grads, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * float(b.abs().max()))


def test_nothing_supervised_gives_a_zero_that_can_be_back_propagated():
    case = Case(1, 2, 0)
    objective = escd.objective("escd", case.pair)
    none = Rows.stack([], [])
    out = tiled_losses(
        objective, none, case.hidden, Head(case.weight, case.bias), case.teacher_hidden[:0], Head(case.teacher_weight)
    )
    assert out.loss.item() == 0
    grads = torch.autograd.grad(out.loss, (case.hidden, case.weight, case.bias))
    assert all(bool((g == 0).all()) for g in grads)


def test_frozen_head_and_hidden_states_get_no_gradient():
    case = Case(5, 2, 0)
    objective = escd.objective("escd", case.pair)
    rows, teacher = case.rows(objective)
    frozen = Head(case.weight.detach(), case.bias.detach())
    out = tiled_losses(objective, rows, case.hidden, frozen, teacher, Head(case.teacher_weight))
    out.loss.backward()
    assert case.hidden.grad is not None
    assert case.weight.grad is None
    with torch.no_grad():
        plain = tiled_losses(objective, rows, case.hidden, frozen, teacher, Head(case.teacher_weight))
    torch.testing.assert_close(plain.loss, out.loss.detach())


def test_entropy_mass_and_completion_are_those_of_the_softmax():
    case = Case(11, 3, 1)
    objective = escd.objective("escd", case.pair)
    rows, teacher = case.rows(objective)
    out = tiled_losses(
        objective, rows, case.hidden, Head(case.weight, case.bias), teacher, Head(case.teacher_weight), tile_bytes=700
    )
    log_p = (case.hidden @ case.weight.T + case.bias).log_softmax(-1)[torch.from_numpy(rows.student)]
    torch.testing.assert_close(out.entropy, -(log_p.exp() * log_p).sum(-1).detach())
    q = (teacher @ case.teacher_weight.T).softmax(-1)
    links = {
        i: (parent, action)
        for i, parent, action in zip(rows.links.child, rows.links.parent, rows.links.action, strict=True)
    }
    for i in range(len(rows.student)):
        masses, completed = 0.0, 0.0
        parent, action = links.get(i, (-1, -1))
        for group, members in (case.pair.completions(int(action)) if i in links else {}).items():
            mass = float(q[parent][torch.from_numpy(np.flatnonzero(case.pair.group_of == group))].sum())
            masses += mass
            completed += mass * float(log_p[i, torch.from_numpy(members)].detach().exp().sum())
        assert float(out.mass[i]) == pytest.approx(masses)
        assert float(out.completed[i]) == pytest.approx(completed)


@pytest.mark.parametrize("who", ["student", "teacher"])
def test_rows_with_nan_logits_are_named(who):
    case = Case(11, 3, 0)
    objective = escd.objective("escd", case.pair)
    rows, teacher = case.rows(objective)
    hidden = case.hidden.detach().clone()
    if who == "student":
        hidden[rows.student[4]] = torch.nan
    else:
        teacher[2] = torch.inf
    out = tiled_losses(
        objective, rows, hidden, Head(case.weight, case.bias), teacher, Head(case.teacher_weight), tile_bytes=900
    )
    assert out.bad_student.tolist() == ([4] if who == "student" else [])
    assert out.bad_teacher.tolist() == ([2] if who == "teacher" else [])


@pytest.mark.parametrize("weights", [torch.bfloat16, torch.float32])
def test_half_precision_products_are_summed_in_fp32(monkeypatch, weights):
    """The path of devices that multiply halves and sum in fp32, with that product played by widening."""

    def addmm(total, a, b, *, beta, out_dtype, out):
        assert a.dtype == b.dtype == torch.bfloat16
        assert out_dtype == out.dtype == torch.float32
        product = a.float() @ b.float()
        return out.copy_(total + product if beta else product)

    case = Case(3, 6, 2, dtype=torch.bfloat16, width=48)
    objective = escd.objective("escd", case.pair)
    rows, teacher = case.rows(objective)

    def run():
        leaves = [x.detach().to(weights).requires_grad_() for x in (case.weight, case.bias)]
        hidden = case.hidden.detach().requires_grad_()
        out = tiled_losses(
            objective, rows, hidden, Head(*leaves), teacher, Head(case.teacher_weight.to(weights)), tile_bytes=900
        )
        return out.loss, torch.autograd.grad(out.loss, (hidden, *leaves))

    loss, grads = run()
    monkeypatch.setattr("escd.objectives.tiles._sums_halves_exactly", lambda tensor: True)
    monkeypatch.setattr(torch, "addmm", addmm)
    fast_loss, fast_grads = run()
    torch.testing.assert_close(fast_loss, loss)
    for a, b in zip(fast_grads, grads, strict=True):
        torch.testing.assert_close(a.float(), b.float(), rtol=3e-2, atol=3e-2 * float(b.abs().max()))
