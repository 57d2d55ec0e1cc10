"""The peer objectives and the arms of ESCD on vocabularies of a few tokens, computed by hand."""

from math import log

import pytest
import torch

import escd


def row_losses(name, student, teacher, p, q, student_ids, teacher_ids, **options):
    """Losses under given distributions; vocabularies are token bytes, the last token the stop if it has none."""
    vocabs = [escd.ByteVocab(t, stop_ids=[len(t) - 1] if t[-1] is None else []) for t in (student, teacher)]
    objective = escd.objective(name, escd.TokenizerPair(*vocabs), **options)
    p, q = (torch.tensor(x, dtype=torch.float64).log() for x in (p, q))
    return objective.row_losses(p, q, student_ids, teacher_ids)


def kl(a, b):
    """KL of two lists of masses."""
    return sum(x * log(x / y) for x, y in zip(a, b, strict=True) if x > 0)


# ---------------------------------------------------------------- the paper's worked example (B.5)

BREAD_S = [b"Br", b"Cat", b"ead", b"eads", b"eak", b"other"]
BREAD_T = [b"Bread", b"Breads", b"Break", b"Cat"]
ROOT = [0.5, 0.2, 0.0, 0.0, 0.0, 0.3]
CHILD = [0.0, 0.0, 0.2, 0.3, 0.1, 0.4]
MOVED = [0.0, 0.0, 0.1, 0.5, 0.1, 0.3]


def bread(name, root=ROOT, child=CHILD, **options):
    """The student spells Breads as Br, eads."""
    return row_losses(name, BREAD_S, BREAD_T, [root, child], [[0.4, 0.2, 0.3, 0.1]], [0, 3], [1], **options)


def test_worked_example_bpm():
    found = bread("bpm")
    assert found.root.tolist() == pytest.approx([0.4597, 0.6895], abs=5e-5)
    assert found.total.tolist() == found.root.tolist()
    assert bread("bpm", child=MOVED).root.tolist() == pytest.approx([0.4597, 0.8841], abs=5e-5)


def test_worked_example_simct():
    assert bread("simct").root.tolist() == pytest.approx([0.1062, 0.0], abs=5e-5)
    halved = bread("simct", [0.25, 0.1, 0.0, 0.0, 0.0, 0.65], [0.0, 0.0, 0.1, 0.15, 0.05, 0.7])
    assert halved.root.tolist() == pytest.approx([0.1062, 0.0], abs=5e-5)


def test_worked_example_bpm_with_child():
    found = bread("bpm+child", child_weight=0.5)
    assert found.root.tolist() == pytest.approx([0.4597, 0.6895], abs=5e-5)
    assert found.child.tolist() == pytest.approx([0.0, 1.1067], abs=5e-5)
    assert found.total.sum().item() == pytest.approx(0.4597 + 0.6895 + 0.5 * 1.1067, abs=1e-4)


def test_worked_example_posterior():
    """Teacher tokens that start with Br hold .9."""
    found = bread("escd", completion_weight="posterior")
    assert found.child.tolist() == pytest.approx([0.0, -(0.6 * log(0.5) + 0.3 * log(0.1)) / 0.9], abs=1e-9)
    assert found.root.tolist() == pytest.approx([0.4597, 0.0], abs=5e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("arm", [{"completion_weight": "posterior"}, {"rest_bin": True}], ids=str)
def test_a_share_of_masses_too_small_for_a_float(arm, dtype):
    """All that starts with a is ab, with a probability of e^-1000; b completes it."""
    vocabs = [escd.ByteVocab(t) for t in ([b"a", b"b", b"c"], [b"ab", b"c"])]
    objective = escd.objective("escd", escd.TokenizerPair(*vocabs), **arm)
    p, q = torch.tensor([[0.5, 0.3, 0.2]] * 2, dtype=dtype).log(), torch.tensor([[-1000.0, 0.0]], dtype=dtype)
    assert objective.row_losses(p, q, [0, 1], [0]).child.tolist() == pytest.approx([0.0, -log(0.3)])
    # Where the teacher rules it out, there is nothing to share.
    q[0, 0] = -torch.inf
    assert not objective.row_losses(p, q, [0, 1], [0]).child.any()


def test_worked_example_rest_bin():
    """Nothing that starts with Br is outside the two groups; Cat and other tokens hold .4."""
    found = bread("escd", rest_bin=True)
    assert found.child.tolist() == pytest.approx([0.0, kl([2 / 3, 1 / 3, 0.0], [0.5, 0.1, 0.4])], abs=1e-9)


# ---------------------------------------------------------------- arms of ESCD


def test_deep_waits_for_the_first_row_that_completes():
    """After a, ac is completed in one step, by c, cd and cde; abcd needs b first, then cd or cde."""
    student, teacher = [b"a", b"b", b"cd", b"cde", b"c"], [b"abcd", b"ac", b"b"]
    p = [[0.2] * 5, [0.1, 0.5, 0.1, 0.2, 0.1], [0.1, 0.2, 0.3, 0.15, 0.25]]
    q = [[0.6, 0.3, 0.1]]
    given = student, teacher, p, q, [0, 1, 2], [0]
    first, second = -0.3 * log(0.4), -0.6 * log(0.45)
    assert row_losses("escd", *given).child.tolist() == pytest.approx([0.0, first, 0.0], abs=1e-9)
    found = row_losses("escd", *given, completion="deep")
    assert found.child.tolist() == pytest.approx([0.0, first, second], abs=1e-9)
    # Tokens that start with a hold .9, those that start with ab are the group itself.
    found = row_losses("escd", *given, completion="deep", completion_weight="posterior")
    assert found.child.tolist() == pytest.approx([0.0, first / 0.9, second / 0.6], abs=1e-9)
    found = row_losses("escd", *given, completion="deep", rest_bin=True)
    rest = kl([1 / 3, 2 / 3], [0.4, 0.6])
    assert found.child.tolist() == pytest.approx([0.0, rest, kl([1.0], [0.45])], abs=1e-9)
    # Another path leaves the group behind.
    left = row_losses("escd", student, teacher, p, q, [0, 4, 2], [1], completion="deep")
    assert left.child.tolist() == pytest.approx([0.0, first, 0.0], abs=1e-9)


def test_the_rest_bin_takes_what_the_groups_leave():
    """After a: ab (.4) is completed by b, acd (.2) by nothing, a itself (.2) by nothing."""
    student, teacher = [b"a", b"b", b"c"], [b"ab", b"acd", b"a", b"c"]
    q = [[0.4, 0.2, 0.2, 0.2]]
    found = row_losses("escd", student, teacher, [[0.5, 0.3, 0.2]] * 2, q, [0, 1], [0], rest_bin=True)
    assert found.child.tolist() == pytest.approx([0.0, kl([0.5, 0.5], [0.3, 0.7])], abs=1e-9)
    # A student that has nothing else leaves the rest out.
    sure = [[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]]
    found = row_losses("escd", student, teacher, sure, q, [0, 1], [0], rest_bin=True)
    assert found.child.tolist() == pytest.approx([0.0, 0.5 * log(0.5)], abs=1e-9)


# ---------------------------------------------------------------- one response for every peer

# ab|c|stop as the teacher spells it, a|b|c|stop as the student does. Shared: a, c and the stop.
STUDENT = [b"a", b"b", b"c", b"ca", None]
TEACHER = [b"ab", b"c", b"a", None]
P = [[0.5, 0.2, 0.1, 0.1, 0.1], [0.1, 0.6, 0.1, 0.1, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1], [0.1, 0.1, 0.2, 0.1, 0.5]]
Q = [[0.6, 0.1, 0.2, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.1, 0.7]]


def spelled(name, **options):
    found = row_losses(name, STUDENT, TEACHER, P, Q, [0, 1, 2, 4], [0, 1, 3], **options)
    assert not found.child.any() or name == "bpm+child"
    return found.root.tolist()


def check(found, expected):
    assert found == pytest.approx(expected, abs=1e-9)


def test_bpm():
    # ab and a enter by a; inside ab, of ab (.6) and a (.2) one goes on with b.
    root = kl([0.8, 0.1, 0.1, 0.0], [0.5, 0.1, 0.1, 0.3])
    inside = kl([0.75, 0.25], [0.6, 0.4])
    second, stop = kl([0.3, 0.6, 0.1], [0.1, 0.6, 0.1]), kl([0.2, 0.1, 0.7], [0.1, 0.2, 0.5])
    check(spelled("bpm"), [root, inside, second, stop])


def test_bpm_reverse_but_for_the_stop():
    root = kl([0.5, 0.1, 0.1, 0.3], [0.8, 0.1, 0.1, 1e-8])
    inside = kl([0.6, 0.4], [0.75, 0.25])
    second = kl([0.1, 0.6, 0.1, 0.2], [0.3, 0.6, 0.1, 1e-8])
    check(spelled("bpm", beta=1.0), [root, inside, second, kl([0.2, 0.1, 0.7], [0.1, 0.2, 0.5])])


def test_bpm_between():
    def between(t, p):
        mixed = [0.3 * x + 0.7 * y for x, y in zip(t, p, strict=True)]
        return 0.3 * kl(t, mixed) + 0.7 * kl(p, mixed)

    found = spelled("bpm", beta=0.3)
    assert found[1] == pytest.approx(between([0.75, 0.25], [0.6, 0.4]), abs=1e-9)
    assert found[0] == pytest.approx(between([0.8, 0.1, 0.1, 1e-8], [0.5, 0.1, 0.1, 0.3]), abs=1e-9)


def test_bpm_spanning_token():
    """ca covers the teacher's c and a: .3 * .5 moves from c to ca."""
    q = [[0.2, 0.3, 0.4, 0.1], [0.1, 0.2, 0.5, 0.2], Q[2]]
    found = row_losses("bpm", STUDENT, TEACHER, [P[0], P[3]], q, [3, 4], [1, 2, 3])
    root = kl([0.6, 0.15, 0.15, 0.1, 0.0], [0.5, 0.1, 0.1, 0.1, 0.2])
    check(found.root.tolist(), [root, kl([0.2, 0.1, 0.7], [0.1, 0.2, 0.5])])
    # The teacher went on otherwise: nothing spans, and what follows the first byte is not supervised.
    found = row_losses("bpm", STUDENT, TEACHER, [P[0], P[3]], q[:2], [3, 4], [1, 1])
    check(found.root.tolist(), [kl([0.6, 0.3, 0.1, 0.0], [0.5, 0.1, 0.1, 0.3]), 0.0])


def test_bpm_inside_a_token_no_longer_than_its_rest():
    """After a of ab only b fits, although bc would be the longest match for abc; acd has no token."""
    student, teacher = [b"a", b"b", b"bc"], [b"ab", b"abc", b"acd", b"b"]
    p, q = [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]], [[0.3, 0.2, 0.1, 0.4]]
    found = row_losses("bpm", student, teacher, p, q, [0, 1], [0])
    check(found.root.tolist(), [kl([0.6, 0.4, 0.0], [0.2, 0.3, 0.5]), kl([5 / 6, 1 / 6], [0.3, 0.7])])
    # Realised as abc: both fit.
    found = row_losses("bpm", student, teacher, p, q, [0, 2], [1])
    assert found.root[1].item() == pytest.approx(kl([0.5, 1 / 3, 1 / 6], [0.3, 0.5, 0.2]), abs=1e-9)
    # A student that has nothing else leaves the rest out.
    found = row_losses("bpm", student, teacher, [p[0], [0.0, 1.0, 0.0]], q, [0, 1], [0])
    assert found.root[1].item() == pytest.approx(5 / 6 * log(5 / 6), abs=1e-9)


def test_bpm_leaves_out_blank_roots():
    vocabulary = [b" ", b"a"]
    given = vocabulary, vocabulary, [[0.5, 0.5]], [[0.8, 0.2]], [0], [0]
    check(row_losses("bpm", *given).root.tolist(), [0.0])
    shown = row_losses("bpm", *given, mask_whitespace_roots=False)
    check(shown.root.tolist(), [kl([0.8, 0.2], [0.5, 0.5])])


@pytest.mark.parametrize("units", ["visited", "realised"])
def test_simct(units):
    # Unit ab: the geometric mean of .5 and .6 against .6; next to it a, c and the stop at its first row.
    mine, theirs = [0.5, 0.1, 0.1, 0.3**0.5], [0.2, 0.1, 0.1, 0.6]
    first = kl([x / sum(mine) for x in mine], theirs)
    second = kl([1 / 8, 6 / 8, 1 / 8], [2 / 9, 6 / 9, 1 / 9])
    stop = kl([1 / 8, 2 / 8, 5 / 8], [1 / 9, 1 / 9, 7 / 9])
    check(spelled("simct", units=units), [first, 0.0, second, stop])


def test_simct_units_of_more_than_one_teacher_token():
    """ca is one token of the student, c and a two of the teacher."""
    q = [[0.2, 0.3, 0.4, 0.1], [0.1, 0.2, 0.5, 0.2], Q[2]]
    found = row_losses("simct", STUDENT, TEACHER, [P[0], P[3]], q, [3, 4], [1, 2, 3])
    mine, theirs = [0.5, 0.1, 0.1, 0.1], [0.4, 0.3, 0.1, 0.15**0.5]
    expected = kl([x / sum(mine) for x in mine], [x / sum(theirs) for x in theirs])
    assert found.root[0].item() == pytest.approx(expected, abs=1e-9)


def test_strict():
    second = kl([1 / 8, 6 / 8, 1 / 8], [2 / 9, 6 / 9, 1 / 9])
    stop = kl([1 / 8, 2 / 8, 5 / 8], [1 / 9, 1 / 9, 7 / 9])
    check(spelled("strict"), [0.0, 0.0, second, stop])


def test_gold():
    # Shared a, c, stop: three of four teacher columns. Unit ab: the student's first row times .6.
    def jsd(q, p):
        return sum(0.5 * x * log(2 * x / (x + y)) + 0.5 * y * log(2 * y / (x + y)) for x, y in zip(q, p, strict=True))

    first = 0.75 * jsd([0.2, 0.1, 0.1], [0.3, 0.06, 0.06]) + 0.25 * (abs(0.6 - 0.12) + 0.06)
    second = 0.75 * jsd([0.2, 0.6, 0.1], [0.1, 0.6, 0.1]) + 0.25 * 0.1
    stop = 0.75 * jsd([0.1, 0.1, 0.7], [0.1, 0.2, 0.5]) + 0.25 * 0.1
    check(spelled("gold"), [first, 0.0, second, stop])
    forward = 0.4 * kl([0.2, 0.1, 0.1], [0.3, 0.06, 0.06]) + 0.6 * 0.54
    assert spelled("gold", beta=0.0, matched_weight=0.4)[0] == pytest.approx(forward, abs=1e-9)
    reverse = 0.75 * kl([0.3, 0.06, 0.06], [0.2, 0.1, 0.1]) + 0.25 * 0.54
    assert spelled("gold", beta=1.0)[0] == pytest.approx(reverse, abs=1e-9)


def test_uld():
    # .6 .2 .1 .1 against .5 .2 .1 .1 .1, the same against .6 .1 .1 .1 .1, and .7 .1 .1 .1 against .5 .2 .1 .1 .1
    check(spelled("uld"), [0.2, 0.0, 0.2, 0.4])


def test_xtoken():
    # ca is spelled c, a by the teacher: ten elevenths of its probability for c, one for a. b has no spelling.
    def loss(q, p, later=1.0):
        p = [p["ab"], p["c"], p["a"], p["stop"]]
        return sum(x * log(x / ((y + 1e-10) * later)) for x, y in zip(q, p, strict=True))

    first = loss(Q[0], {"ab": 0.0, "c": 0.1 + 0.1 * 10 / 11, "a": 0.5 + 0.1 / 11, "stop": 0.1}, 0.6)
    second = loss(Q[1], {"ab": 0.0, "c": 0.6 + 0.1 * 10 / 11, "a": 0.1 + 0.1 / 11, "stop": 0.1})
    stop = loss(Q[2], {"ab": 0.0, "c": 0.2 + 0.1 * 10 / 11, "a": 0.1 + 0.1 / 11, "stop": 0.5})
    check(spelled("xtoken"), [first, 0.0, second, stop])
    whole = loss(Q[1], {"ab": 0.0, "c": 0.7, "a": 0.1, "stop": 0.1})
    assert spelled("xtoken", top=1)[2] == pytest.approx(whole, abs=1e-9)


def test_xtoken_with_averaged_rows():
    """As the authors merge: here ab is a, b, each probability the root of two rows' product, normalised."""
    p = [(x * y) ** 0.5 for x, y in zip(P[0], P[1], strict=True)]
    a, _, c, ca, stop = (x / sum(p) for x in p)
    expected = kl(Q[0], [1e-10, 1e-10 + c + ca * 10 / 11, 1e-10 + a + ca / 11, 1e-10 + stop])
    found, product = spelled("xtoken", merge="mean"), spelled("xtoken")
    check(found, [expected, 0.0, product[2], product[3]])


def test_alm():
    def loss(q, p):
        return -q * log(p) - (1 - q) * log(1 - p)

    chosen = [loss(0.6, 0.3), 0.0, loss(0.6, 0.6), loss(0.7, 0.5)]
    check(spelled("alm", power=1.0), chosen)
    tenth = [loss(0.6**0.1, 0.3**0.1), 0.0, loss(0.6**0.1, 0.6**0.1), loss(0.7**0.1, 0.5**0.1)]
    check(spelled("alm", power=0.1), tenth)
    hundredth = [loss(0.6**0.01, 0.3**0.01), 0.0, loss(0.6**0.01, 0.6**0.01), loss(0.7**0.01, 0.5**0.01)]
    check(spelled("alm"), hundredth)


def test_alm_of_a_student_that_is_sure():
    """The complement has no probability left: its logarithm stops at machine epsilon."""
    found = row_losses("alm", [b"a", b"b"], [b"a", b"b"], [[1.0, 0.0]], [[0.5, 0.5]], [0], [0], power=1.0)
    check(found.root.tolist(), [-0.5 * log(torch.finfo(torch.float64).eps)])


@pytest.mark.parametrize("name", ["sft", "seqkd"])
def test_likelihood(name):
    check(spelled(name), [-log(0.5), -log(0.6), -log(0.6), -log(0.5)])


def test_kl():
    vocabulary = [b"a", b"b", None]
    p, q = [[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]], [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]
    given = vocabulary, vocabulary, p, q, [0, 2], [0, 2]
    check(row_losses("kl", *given).root.tolist(), [kl(q[0], p[0]), kl(q[1], p[1])])
    check(row_losses("kl", *given, beta=1.0).root.tolist(), [kl(p[0], q[0]), kl(p[1], q[1])])


def test_special_tokens_of_equal_spelling_are_shared_though_one_side_has_no_stop():
    """The stop of the teacher is a special token like any other for a student without stops."""
    names = {1: "<end>"}
    student = escd.ByteVocab([b"a", None], special_tokens=names)
    teacher = escd.ByteVocab([b"a", None], stop_ids=[1], special_tokens=names)
    objective = escd.objective("strict", escd.TokenizerPair(student, teacher))
    p, q = [0.25, 0.75], [0.5, 0.5]
    logits = (torch.tensor([x], dtype=torch.float64).log() for x in (p, q))
    check(objective.row_losses(*logits, [0], [0]).root.tolist(), [kl(p, q)])
