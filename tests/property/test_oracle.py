"""The oracle itself: against the hand-checked cases and against finite differences."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, event, given, settings

import oracle

from .strategies import options, scenes

CASES = json.loads((Path(__file__).resolve().parents[1] / "unit" / "cases" / "rows.json").read_text())


def vocab(spec):
    tokens = [None if h is None else bytes.fromhex(h) for h in spec["token_bytes_hex"]]
    return oracle.Vocab(tokens, tuple(spec["stop_ids"]), spec["preferred_stop"])


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_oracle_gives_the_checked_values(case):
    s, t = vocab(case["student"]), vocab(case["teacher"])
    ids = case["student_ids"], case["teacher_ids"]
    assert oracle.phi(s, t) == case["phi"]
    expected = {(bytes.fromhex(g["bytes_hex"]), frozenset(g["members"])) for g in case["groups"]}
    assert set(oracle.groups(s, t)) == expected
    assert [list(r) for r in oracle.roots(s, t, *ids)] == case["roots"]
    mask = case["options"].get("mask_ws", True)
    root, child = oracle.row_losses(
        s, t, case["student_logits"], case["teacher_logits"], *ids, mask_whitespace_roots=mask
    )
    np.testing.assert_allclose(root, case["root"], atol=1e-4)
    np.testing.assert_allclose(child, case["child"], atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(scenes(scales=(1.0, 3.0)), options)
def test_closed_form_gradient_is_the_slope_of_the_loss(scene, choice):
    assume(scene.student_ids)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=scene.student_logits.shape)
    step = 1e-5

    def loss(shift):
        moved = scene._replace(student_logits=scene.student_logits + shift * direction)
        root, child = oracle.row_losses(*moved, **choice)
        return (root + 0.7 * child).sum()

    event(f"child: {oracle.row_losses(*scene, **choice)[1].any()}")
    slope = (loss(step) - loss(-step)) / (2 * step)
    gradient = oracle.row_gradients(*scene, child_weight=0.7, **choice)
    assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-6)
