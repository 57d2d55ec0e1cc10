"""Small responses with checked values, and mistakes that other projects made, each with the right outcome."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import escd

CASES = json.loads((Path(__file__).parent / "cases" / "rows.json").read_text())
BY_NAME = {case["name"]: case for case in CASES}
every_case = pytest.mark.parametrize("case", CASES, ids=list(BY_NAME))


def vocab(side, extra=0):
    tokens = [None if h is None else bytes.fromhex(h) for h in side["token_bytes_hex"]] + [None] * extra
    return escd.ByteVocab(tokens, stop_ids=side["stop_ids"], preferred_stop=side["preferred_stop"])


def pair_of(case, extra=0):
    return escd.TokenizerPair(student=vocab(case["student"]), teacher=vocab(case["teacher"], extra))


def options_of(case):
    return {"mask_whitespace_roots": case["options"].get("mask_ws", True)}


def tables(case, dtype=torch.float64):
    return (torch.tensor(case[f"{side}_logits"], dtype=dtype) for side in ("student", "teacher"))


def losses_of(case, student=None, teacher=None, pair=None):
    plain_student, plain_teacher = tables(case)
    student = plain_student if student is None else student
    teacher = plain_teacher if teacher is None else teacher
    objective = escd.objective("escd", pair or pair_of(case), **options_of(case))
    return objective.row_losses(student, teacher, case["student_ids"], case["teacher_ids"])


def check(losses, case, tolerance=1e-4):
    root, child = np.array(case["root"]), np.array(case["child"])
    np.testing.assert_allclose(losses.root.detach().numpy(), root, atol=tolerance)
    np.testing.assert_allclose(losses.child.detach().numpy(), child, atol=tolerance)
    np.testing.assert_allclose(losses.total.detach().numpy(), root + child, atol=2 * tolerance)


@every_case
def test_phi_and_groups(case):
    pair = pair_of(case)
    assert pair.phi.tolist() == case["phi"]
    found = {(y, tuple(np.flatnonzero(pair.group_of == g).tolist())) for g, y in enumerate(pair.group_bytes)}
    assert found == {(bytes.fromhex(g["bytes_hex"]), tuple(g["members"])) for g in case["groups"]}


@every_case
def test_roots(case):
    assert escd.align(pair_of(case), case["student_ids"], case["teacher_ids"]).roots.tolist() == case["roots"]


@every_case
def test_losses_per_row(case):
    check(losses_of(case), case)


@every_case
def test_losses_per_row_in_single_precision(case):
    student, teacher = tables(case, torch.float32)
    check(losses_of(case, student, teacher), case)


# ---------------------------------------------------------------- what goes wrong elsewhere


@every_case
@pytest.mark.parametrize("value", [0.0, -30.0, -np.inf])
def test_padded_columns_of_the_teacher_belong_to_no_set(case, value):
    """Columns beyond the vocabulary take their share of the softmax and give it to the rest bin."""
    _, teacher = tables(case)
    padded = torch.cat([teacher, torch.full((len(teacher), 3), value, dtype=teacher.dtype)], dim=1)
    kept = (teacher.logsumexp(1) - padded.logsumexp(1)).exp()  # what is left for the teacher's own tokens
    losses = losses_of(case, teacher=padded)
    expected = np.array(case["child"])
    for row, teacher_row in case["roots"]:
        if row + 1 < len(expected):
            expected[row + 1] *= kept[teacher_row].item()  # linear in the mass of the groups
    np.testing.assert_allclose(losses.child.numpy(), expected, atol=1e-4)
    assert torch.isfinite(losses.total).all()
    if value != 0:
        check(losses, case)


@every_case
def test_padded_columns_of_the_student_are_part_of_the_softmax_only(case):
    student, _ = tables(case)
    pads = torch.full((len(student), 2), -40.0, dtype=student.dtype)
    check(losses_of(case, student=torch.cat([student, pads], dim=1)), case)
    losses = losses_of(case, student=torch.cat([student, torch.zeros_like(pads)], dim=1))
    widened = torch.cat([student, torch.zeros_like(pads)], dim=1).logsumexp(1)
    lost = (widened - student.logsumexp(1)).numpy()
    plain = losses_of(case)
    grown = (losses.child - plain.child).numpy()
    assert (grown >= -1e-12).all()
    assert (grown <= lost + 1e-12).all()  # group masses sum to at most one


@every_case
def test_minus_infinity_gives_no_nan(case):
    """-inf columns, as some heads pad with: outside every set, and with no teacher mass inside one."""
    student, teacher = tables(case)
    student = torch.cat([student, torch.full((len(student), 2), -torch.inf, dtype=student.dtype)], dim=1)
    teacher = torch.cat([teacher, torch.full((len(teacher), 1), -torch.inf, dtype=teacher.dtype)], dim=1)
    student.requires_grad_(True)
    losses = losses_of(case, student, teacher)
    check(losses, case)
    losses.total.sum().backward()
    assert student.grad is not None
    assert torch.isfinite(student.grad).all()
    assert not student.grad[:, -2:].any()
    plain = next(tables(case)).requires_grad_(True)
    losses_of(case, plain).total.sum().backward()
    torch.testing.assert_close(student.grad[:, :-2], plain.grad)


def test_a_teacher_that_rules_a_group_out_costs_nothing_there():
    case = BY_NAME["bread"]
    student, teacher = tables(case)
    teacher[0, 2] = -torch.inf  # Break
    student[1, 4] = -torch.inf  # eak: 0 * log 0
    student.requires_grad_(True)
    losses = losses_of(case, student, teacher)
    mass = torch.softmax(teacher[0], 0)[:2].sum()
    expected = -mass * (student[1, 2:4].logsumexp(0) - student[1].logsumexp(0))
    torch.testing.assert_close(losses.child[1], expected)
    losses.total.sum().backward()
    assert student.grad is not None
    assert torch.isfinite(student.grad).all()


@every_case
def test_a_bos_of_the_teacher_moves_no_root(case):
    """Offsets count bytes of the response: no bos in the vocabulary or among the ids shifts a row."""
    pair = pair_of(case, extra=1)
    bos = len(case["teacher"]["token_bytes_hex"])
    assert pair.phi[bos] == pair.group_of[bos] == -1
    assert escd.align(pair, case["student_ids"], case["teacher_ids"]).roots.tolist() == case["roots"]
    shifted = escd.align(pair, case["student_ids"], [bos, *case["teacher_ids"]]).roots.tolist()
    # two teacher rows stand at offset 0, the first is the root's
    assert shifted == [[row, other + 1 if row else 0] for row, other in case["roots"]]


def test_rows_are_supervised_up_to_the_first_byte_that_differs():
    student = escd.ByteVocab([b"x", b"y", b"xy", b"z", b"yz", None], stop_ids=[5])
    teacher = escd.ByteVocab([b"xyz", b"x", b"z", b"w", None], stop_ids=[4])
    pair = escd.TokenizerPair(student=student, teacher=teacher)
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(3, 5)))
    q = scores.softmax(1)[0, 0].item()  # teacher's probability of xyz
    # xyz against xzz: row 1 stands at the byte that differs and still counts, as a root and as a child
    logits = torch.tensor(rng.normal(size=(3, 6)))
    assert escd.align(pair, [0, 1, 3], [1, 2, 2]).roots.tolist() == [[0, 0], [1, 1]]
    losses = escd.objective("escd", pair).row_losses(logits, scores, [0, 1, 3], [1, 2, 2])
    assert losses.root.count_nonzero() == 2
    expected = [0.0, -q * logits.log_softmax(1)[1, 4].item(), 0.0]
    np.testing.assert_allclose(losses.child.numpy(), expected, atol=1e-9)
    # the token xy runs past that byte: its own row counts, the row after it does not
    assert escd.align(pair, [2, 3, 5], [1, 2, 2]).roots.tolist() == [[0, 0]]
    losses = escd.objective("escd", pair).row_losses(logits, scores, [2, 3, 5], [1, 2, 2])
    assert losses.root.count_nonzero() == 1
    assert not losses.child.any()
    # while the bytes agree, the same action opens xyz
    losses = escd.objective("escd", pair).row_losses(logits, scores[:1], [2, 3, 5], [0])
    assert losses.child[1].item() == pytest.approx(-q * logits.log_softmax(1)[1, 3].item())


@every_case
def test_ids_may_be_arrays_or_tensors(case):
    pair = pair_of(case)
    for kind in (np.array, torch.tensor, tuple):
        ids = kind(case["student_ids"]), kind(case["teacher_ids"])
        assert escd.align(pair, *ids).roots.tolist() == case["roots"]
        objective = escd.objective("escd", pair, **options_of(case))
        check(objective.row_losses(*tables(case), *ids), case)


@pytest.mark.parametrize(("student_stop", "teacher_stop"), [(6, 6), (6, 7), (7, 6), (7, 7)])
def test_all_stop_ids_are_one_event(student_stop, teacher_stop):
    """Whichever stops were used, the same rows are trained: all the teacher's stop mass is one cell."""
    case = dict(BY_NAME["two_stops"])
    case["student_ids"] = [*case["student_ids"][:-1], student_stop]
    case["teacher_ids"] = [*case["teacher_ids"][:-1], teacher_stop]
    pair = pair_of(case)
    assert pair.phi[6] == pair.phi[7] == 7
    assert escd.align(pair, case["student_ids"], case["teacher_ids"]).roots.tolist() == case["roots"]
    check(losses_of(case), case)


def test_the_stop_row_pulls_the_student_to_its_preferred_stop():
    case = BY_NAME["two_stops"]
    student, teacher = tables(case)
    teacher[2, :] = torch.tensor([-20.0] * 6 + [3.0, 3.0])
    student.requires_grad_(True)
    losses_of(case, student, teacher).root[3].backward()
    assert student.grad is not None
    p = torch.softmax(student[3].detach(), 0)
    torch.testing.assert_close(student.grad[3, 7], p[7] - 1, atol=1e-6, rtol=0)
    assert (student.grad[3, :7] >= 0).all()  # the other stop id included


def test_a_pad_token_that_is_also_the_stop_is_trained():
    """Rows are masked by position, never by the id they predict."""
    case = BY_NAME["bread"]
    assert case["student_ids"][-1] == case["student"]["stop_ids"][0]
    assert losses_of(case).root[-1] > 1


def planted(ids, columns):
    """Logits that put all their mass on the realised ids."""
    table = torch.full((len(ids), columns), -30.0, dtype=torch.float64)
    table[torch.arange(len(ids)), torch.tensor(ids)] = 30.0
    return table


@every_case
def test_row_i_predicts_id_i(case):
    """Scores written one position off are silently wrong: with the answer planted in both tables the loss is
    nil wherever the two tokenisations make the same choice, and large once a table is rolled by one row."""
    student = planted(case["student_ids"], len(case["student"]["token_bytes_hex"]))
    teacher = planted(case["teacher_ids"], len(case["teacher"]["token_bytes_hex"]))
    pair = pair_of(case)
    agree = [row for row, other in case["roots"] if pair.phi[case["teacher_ids"][other]] == case["student_ids"][row]]
    right = losses_of(case, student, teacher, pair)
    assert right.root[agree].abs().max() < 1e-6
    for rolled in (
        losses_of(case, student.roll(1, 0), teacher, pair),
        losses_of(case, student, teacher.roll(1, 0), pair),
    ):
        assert rolled.root[agree].max() > 10
    if case["name"] == "bread":  # Bread(s) was the teacher's token, Br and eads the student's
        assert right.child.abs().max() < 1e-6
        assert losses_of(case, student.roll(1, 0), teacher, pair).child[1] > 10


def test_a_response_without_rows_gives_a_zero_that_can_be_back_propagated():
    case = BY_NAME["bread"]
    student, teacher = tables(case)
    student.requires_grad_(True)
    objective = escd.objective("escd", pair_of(case))
    for losses in (
        objective.row_losses(student, teacher[:0], case["student_ids"], []),
        objective.row_losses(student[:0], teacher, [], case["teacher_ids"]),
    ):
        total = losses.total.sum()
        assert total.item() == 0
        total.backward()
    assert student.grad is not None
    assert not student.grad.any()


def test_the_same_vocabulary_with_tokens_of_equal_bytes_is_plain_kl():
    vocab = escd.ByteVocab([b"aa", b"aa", b"a", None], [3])
    pair = escd.TokenizerPair(student=vocab, teacher=vocab)
    assert pair.phi.tolist() == [0, 1, 2, 3]
    rng = torch.Generator().manual_seed(0)
    student, teacher = (torch.randn(3, 4, generator=rng, dtype=torch.float64) for _ in range(2))
    losses = escd.objective("escd", pair).row_losses(student, teacher, [1, 0, 3], [1, 0, 3])
    q, log_p = teacher.softmax(-1), student.log_softmax(-1)
    torch.testing.assert_close(losses.root, (q * (q.log() - log_p)).sum(-1))
    assert losses.child.tolist() == [0, 0, 0]
