"""The paper's worked example (B.5), to four decimals."""

import math

import pytest
import torch

import escd

STUDENT = [b"Br", b"Cat", b"ead", b"eads", b"eak", b"other"]
TEACHER = [b"Bread", b"Breads", b"Break", b"Cat"]
Q = [0.4, 0.2, 0.3, 0.1]
ROOT = {"Br": 0.5, "Cat": 0.2, "other": 0.3}
CHILD = {"ead": 0.2, "eads": 0.3, "eak": 0.1, "other": 0.4}


def logits(probabilities):
    """One row of student logits; what is not named has no probability."""
    return [math.log(probabilities[u]) if (u := b.decode()) in probabilities else -math.inf for b in STUDENT]


def losses(child=CHILD, **options):
    """Row 0 predicts Br under the example's distributions, row 1 the token after it."""
    pair = escd.TokenizerPair(student=escd.ByteVocab(STUDENT), teacher=escd.ByteVocab(TEACHER))
    student = torch.tensor([logits(ROOT), logits(child)], dtype=torch.float64)
    teacher = torch.tensor([Q], dtype=torch.float64).log()
    return escd.objective("escd", pair, **options).row_losses(student, teacher, [0, 3], [1])


def test_groups_and_entries():
    pair = escd.TokenizerPair(student=escd.ByteVocab(STUDENT), teacher=escd.ByteVocab(TEACHER))
    assert pair.phi.tolist() == [0, 0, 0, 1]
    bread, break_ = pair.group_of[0], pair.group_of[2]
    assert pair.group_of.tolist() == [bread, bread, break_, -1]
    assert bread != break_
    assert {bread, break_} == {0, 1}
    assert (pair.group_bytes[bread], pair.group_bytes[break_]) == (b"Bread", b"Break")
    found = {pair.group_bytes[g]: sorted(ids.tolist()) for g, ids in pair.completions(0).items()}
    assert found == {b"Bread": [2, 3], b"Break": [4]}
    assert [pair.completions(u) for u in range(1, 6)] == [{}] * 5


def test_root_child_and_total():
    found = losses()
    assert found.root.tolist() == pytest.approx([0.4597, 0.0], abs=5e-5)
    assert found.child.tolist() == pytest.approx([0.0, 1.1067], abs=5e-5)
    assert found.total.sum().item() == pytest.approx(1.5664, abs=5e-5)


def test_the_child_row_carries_the_child_loss_only():
    found = losses()
    assert found.total.tolist() == pytest.approx([0.4597, 1.1067], abs=5e-5)


def test_halving_every_displayed_child_probability():
    halved = {u: p / 2 for u, p in CHILD.items() if u != "other"}
    found = losses(halved | {"other": 1 - sum(halved.values())})
    assert found.child.sum().item() == pytest.approx(1.7305, abs=5e-5)
    assert found.root.sum().item() == pytest.approx(0.4597, abs=5e-5)


def test_reallocation_between_ead_and_eads():
    found = losses({"ead": 0.1, "eads": 0.5, "eak": 0.1, "other": 0.3})
    assert found.child.sum().item() == pytest.approx(0.9973, abs=5e-5)


@pytest.mark.parametrize(
    ("completion", "first_set"),
    [("none", None), ("single", 0.2), ("exact", 0.2), ("minimal", 0.2), ("set", 0.5)],
)
def test_options_of_the_child_target(completion, first_set):
    expected = 0.0 if first_set is None else -0.6 * math.log(first_set) - 0.3 * math.log(0.1)
    assert losses(completion=completion).child.sum().item() == pytest.approx(expected, abs=1e-9)


def test_child_weight_scales_the_child_only():
    found = losses(child_weight=0.25)
    assert found.child.sum().item() == pytest.approx(1.1067, abs=5e-5)
    assert found.total.sum().item() == pytest.approx(0.4597 + 0.25 * 1.1067, abs=5e-5)


def test_gradient_at_both_rows():
    pair = escd.TokenizerPair(student=escd.ByteVocab(STUDENT), teacher=escd.ByteVocab(TEACHER))
    table = torch.tensor([logits(ROOT), logits(CHILD)], dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor([Q], dtype=torch.float64).log()
    escd.objective("escd", pair).row_losses(table, teacher, [0, 3], [1]).total.sum().backward()
    root = [0.5 - 0.9, 0.2 - 0.1, 0.0, 0.0, 0.0, 0.3]
    child = [0.0, 0.0, 0.18 - 0.6 * 0.4, 0.27 - 0.6 * 0.6, 0.09 - 0.3, 0.36]
    assert table.grad is not None
    torch.testing.assert_close(table.grad, torch.tensor([root, child], dtype=torch.float64))
