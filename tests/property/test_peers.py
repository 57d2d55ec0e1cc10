"""Row losses and gradients of the peer objectives against brute force, in float64."""

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st

import escd
import oracle
import oracle_peers

from . import build
from .strategies import same_vocabulary_scenes, scenes, spellings

quick = settings(max_examples=30, deadline=None)

ARMS = [
    ("bpm", oracle_peers.bpm, {}),
    ("bpm", oracle_peers.bpm, {"beta": 0.5, "mask_whitespace_roots": False}),
    ("bpm", oracle_peers.bpm, {"beta": 0.9}),
    ("bpm", oracle_peers.bpm, {"beta": 1.0}),
    ("simct", oracle_peers.simct, {}),
    ("simct", oracle_peers.simct, {"units": "realised"}),
    ("gold", oracle_peers.gold, {}),
    ("gold", oracle_peers.gold, {"beta": 0.0, "matched_weight": 0.7}),
    ("gold", oracle_peers.gold, {"beta": 1.0}),
    ("uld", oracle_peers.uld, {}),
    ("xtoken", oracle_peers.xtoken, {}),
    ("xtoken", oracle_peers.xtoken, {"top": 2}),
    ("xtoken", oracle_peers.xtoken, {"merge": "mean"}),
    ("alm", oracle_peers.alm, {}),
    ("alm", oracle_peers.alm, {"power": 1.0}),
    ("strict", oracle_peers.strict, {}),
    ("sft", oracle_peers.likelihood, {}),
    ("seqkd", oracle_peers.likelihood, {}),
]
# Infinite where the teacher excludes a column: reverse KL by its definition, a mean of logarithms by its own.
INFINITE = [("gold", oracle_peers.gold, {"beta": 1.0}), ("xtoken", oracle_peers.xtoken, {"merge": "mean"})]


def label(arm):
    return "-".join([arm[0], *(f"{k}={v}" for k, v in arm[2].items())])


def run(name, scene, dtype=torch.float64, **choice):
    """Losses of the objective, and the student logits that they can be differentiated by."""
    logits = torch.tensor(scene.student_logits, dtype=dtype, requires_grad=True)
    objective = escd.objective(name, build.pair(scene), **choice)
    teacher = torch.tensor(scene.teacher_logits, dtype=dtype)
    return objective.row_losses(logits, teacher, scene.student_ids, scene.teacher_ids), logits


def expect(function, scene, **choice):
    """Losses by brute force [n] and the gradient of their sum."""
    logits = torch.tensor(scene.student_logits, requires_grad=True)
    losses = function(*scene[:2], logits, *scene[3:], **choice)
    losses.sum().backward()
    return losses.detach().numpy(), logits.grad.numpy()


def close(found, expected, tolerance=1e-6):
    found = found.detach().numpy() if isinstance(found, torch.Tensor) else found
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def gradient(losses, logits):
    losses.total.sum().backward()
    return logits.grad.numpy()


@pytest.mark.parametrize("arm", ARMS, ids=label)
@quick
@given(scene=scenes())
def test_losses_and_gradient(arm, scene):
    name, function, choice = arm
    losses, logits = run(name, scene, **choice)
    expected, slope = expect(function, scene, **choice)
    event(f"some loss: {expected.any()}")
    assert losses.root.shape == losses.child.shape == losses.total.shape == (len(scene.student_ids),)
    close(losses.root, expected)
    assert not losses.child.any()
    close(losses.total, expected)
    close(gradient(losses, logits), slope)


@pytest.mark.parametrize("choice", [{}, {"beta": 1.0, "child_weight": 0.5, "completion": "deep"}], ids=str)
@quick
@given(scene=scenes(scales=(1.0, 10.0)), weight=st.sampled_from(["mass", "posterior"]), rest=st.booleans())
def test_bpm_with_child_is_the_rows_of_both(choice, scene, weight, rest):
    arms = {"completion": choice.get("completion", "set"), "completion_weight": weight, "rest_bin": rest}
    losses, logits = run("bpm+child", scene, **choice, completion_weight=weight, rest_bin=rest)
    root, root_slope = expect(oracle_peers.bpm, scene, beta=choice.get("beta", 0.0))
    _, child = oracle.row_losses(*scene, **arms)
    share = choice.get("child_weight", 1.0)
    with_child, without = (oracle.row_gradients(*scene, child_weight=w, **arms) for w in (share, 0.0))
    event(f"child: {child.any()}")
    close(losses.root, root)
    close(losses.child, child)
    close(losses.total, root + share * child)
    close(gradient(losses, logits), root_slope + with_child - without)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@quick
@given(scene=same_vocabulary_scenes(), data=st.data())
def test_kl(beta, scene, data):
    """The teacher may segment the text in another way than the student did."""
    text = b"".join(scene.student.bytes_of(i) for i in scene.student_ids)
    teacher_ids = [*data.draw(spellings(scene.teacher, text)), scene.student_ids[-1]]
    table = np.random.default_rng(0).normal(size=(len(teacher_ids), scene.student_logits.shape[1]))
    scene = scene._replace(teacher_ids=teacher_ids, teacher_logits=table)
    losses, logits = run("kl", scene, beta=beta)
    expected, slope = expect(oracle_peers.kl, scene, beta=beta)
    close(losses.root, expected)
    close(losses.total, expected)
    close(gradient(losses, logits), slope)


@quick
@given(scene=same_vocabulary_scenes())
def test_kl_of_heads_of_which_one_is_padded(scene):
    """A student without padded columns cannot place mass there, so that event is left out."""
    size = len(scene.student.token_bytes)
    logits, more = scene.student_logits[:, :size], np.ones((len(scene.student_ids), 2))
    for student, teacher in ((logits, np.hstack([logits + 1, more])), (np.hstack([logits, more]), logits * 2)):
        changed = scene._replace(student_logits=student, teacher_logits=teacher)
        losses, logits_s = run("kl", changed)
        expected, slope = expect(oracle_peers.kl, changed)
        close(losses.root, expected)
        close(gradient(losses, logits_s), slope)


FORWARD = {
    "escd": {"mask_whitespace_roots": False},
    "bpm": {"mask_whitespace_roots": False},
    "gold": {"beta": 0.0, "matched_weight": 1.0},
    "kl": {},
    "xtoken": {},
}
REVERSE = {"simct": {}, "strict": {}, "kl": {"beta": 1.0}, "gold": {"beta": 1.0, "matched_weight": 1.0}}


@quick
@given(same_vocabulary_scenes())
def test_identical_vocabularies_give_plain_kl(scene):
    size = len(scene.student.token_bytes)  # padded columns belong to no shared token
    scene = scene._replace(
        student_logits=scene.student_logits[:, :size], teacher_logits=scene.teacher_logits[:, :size]
    )
    log_p, log_q = (torch.tensor(z).log_softmax(-1) for z in scene[2:4])
    forward, reverse = (log_q.exp() * (log_q - log_p)).sum(-1), (log_p.exp() * (log_p - log_q)).sum(-1)
    for arms, expected in ((FORWARD, forward), (REVERSE, reverse)):
        for name, choice in arms.items():
            losses, _ = run(name, scene, **choice)
            if name == "xtoken":  # it adds 1e-10 to every probability
                expected = (log_q.exp() * (log_q - (log_p.exp() + 1e-10).log())).sum(-1)
            close(losses.total, expected.numpy())


@pytest.mark.parametrize("arm", ARMS, ids=label)
@settings(max_examples=8, deadline=None)
@given(scene=scenes(scales=(1.0, 2.0)))
def test_single_precision_stays_close(arm, scene):
    name, function, choice = arm
    expected, slope = expect(function, scene, **choice)
    losses, logits = run(name, scene, dtype=torch.float32, **choice)
    close(losses.root, expected, 1e-4)
    close(gradient(losses, logits), slope, 1e-4)


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm not in INFINITE], ids=label)
@settings(max_examples=15, deadline=None)
@given(scene=scenes(scales=(1.0, 10.0)), data=st.data())
def test_an_impossible_teacher_column_gives_no_nan(arm, scene, data):
    """As a served top-k leaves them; the tokens of the response stay possible."""
    name, function, choice = arm
    for row, token in zip(scene.teacher_logits, scene.teacher_ids, strict=True):
        ruled_out = data.draw(st.lists(st.sampled_from(range(len(row))), unique=True))
        row[[j for j in ruled_out if j != token]] = -np.inf
    expected, slope = expect(function, scene, **choice)
    assert np.isfinite(expected).all()
    losses, logits = run(name, scene, **choice)
    close(losses.root, expected)
    close(gradient(losses, logits), slope)


@pytest.mark.parametrize("arm", ARMS, ids=label)
@settings(max_examples=5, deadline=None)
@given(scene=scenes())
def test_no_row_gives_a_zero_that_can_be_back_propagated(arm, scene):
    name, _, choice = arm
    for cut in (
        scene._replace(teacher_ids=[], teacher_logits=scene.teacher_logits[:0]),
        scene._replace(student_ids=[], student_logits=scene.student_logits[:0]),
    ):
        losses, logits = run(name, cut, **choice)
        assert name in ("sft", "seqkd") or not losses.total.any()
        losses.total.sum().backward()
        assert logits.grad.shape == logits.shape
