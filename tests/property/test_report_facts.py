"""Every count of `escd pair` against brute force on random vocabularies and texts."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import oracle
import oracle_report
from escd.analysis.sample import KINDS, ROWS, SPANS, entries_of, sample_facts, unspellable
from escd.analysis.static import EXAMPLES, group_facts, projection, stop_facts
from escd.analysis.vocabulary import Token, vocab_facts

from . import build
from .strategies import Pair, pairs

thorough = settings(max_examples=120, deadline=None)
quick = settings(max_examples=60, deadline=None)


@st.composite
def samples(draw):
    """A pair and a text that is mostly made of its tokens."""
    spec = draw(pairs())
    tokens = [b.decode("utf-8", "ignore") for vocab in spec for b in vocab.content().values()]
    return spec, draw(st.lists(st.sampled_from([*tokens, *"a é"]), max_size=8).map("".join))


@quick
@given(pairs())
def test_facts_of_a_vocabulary(spec):
    for plain in spec:
        facts, content = vocab_facts(build.vocab(plain)), plain.content()
        assert (facts.size, facts.content) == (len(plain.token_bytes), len(content))
        assert facts.silent == facts.size - facts.content
        assert facts.missing_bytes == [b for b in range(256) if bytes([b]) not in content.values()]
        assert set(facts.missing_bytes) - set(facts.missing_in_text) <= {0xC0, 0xC1, *range(0xF5, 256)}
        assert 0xFF not in facts.missing_in_text
        longest = max(map(len, content.values()), default=0)
        assert (facts.longest is None) == (not content)
        if content:
            first = min(i for i, b in content.items() if len(b) == longest)
            assert facts.longest == Token.of(build.vocab(plain), first)
            assert facts.mean_bytes == pytest.approx(sum(map(len, content.values())) / len(content))
        assert {t.id for t in facts.stops} == set(plain.stop_ids)
        assert facts.preferred_stop == plain.stop()
        assert facts.thoughts == []


@thorough
@given(pairs())
def test_projection(spec):
    built = build.pair(spec)
    facts = asdict(projection(built))
    examples = facts.pop("bottom_examples")
    assert facts == pytest.approx(oracle_report.projection(*spec))
    assert len(examples) == min(facts["bottom"], EXAMPLES)
    assert all(oracle.phi(*spec)[t["id"]] == -1 for t in examples)


@thorough
@given(pairs())
def test_groups(spec):
    built = build.pair(spec)
    facts = asdict(group_facts(built))
    largest, stuck = facts.pop("largest"), facts.pop("stuck")
    assert facts == pytest.approx(oracle_report.groups(*spec))
    found = dict(oracle.groups(*spec))
    actions = range(len(spec.student.token_bytes))
    closed = {y for y in found if not any(oracle.completions(spec.student, a, y) for a in actions)}
    for listed, every in ((largest, found), (stuck, closed)):
        sizes = sorted((len(found[y]) for y in every), reverse=True)[:EXAMPLES]
        assert [g["size"] for g in listed] == sizes
        for group in listed:
            y = bytes.fromhex(group["representative"]["hex"])
            assert y in every
            assert {t["id"] for t in group["examples"]} < found[y]


@quick
@given(pairs())
def test_stops(spec):
    student, teacher = spec
    facts = stop_facts(build.pair(spec))
    assert [t and t.id for t in (facts.student, facts.teacher)] == [student.stop(), teacher.stop()]
    joined = {u for v, u in enumerate(oracle.phi(*spec)) if v in teacher.stop_ids}
    assert facts.joined == (joined == {student.stop()} and student.stop() is not None)
    spelled = [dict(v.special_tokens) for v in spec]
    assert facts.shared_specials == sorted(set(spelled[0].values()) & set(spelled[1].values()))
    same = spelled[0].get(student.stop()) == spelled[1].get(teacher.stop()) is not None
    assert facts.same_spelling == (same and facts.joined)


@quick
@given(pairs())
def test_entries_by_action_and_group(spec):
    built = build.pair(spec)
    actions = np.arange(len(spec.student.token_bytes))
    for g, y in enumerate(built.group_bytes):
        found = entries_of(built, actions, np.full(len(actions), g))
        for a, e in zip(actions.tolist(), found.tolist(), strict=True):
            b = spec.student.bytes_of(a)
            assert (e >= 0) == (bool(b) and y.startswith(b) and y != b)
            assert e < 0 or built.entry_group[e] == g


@settings(max_examples=300, deadline=None)
@given(samples())
def test_sample(scene):
    spec, text = scene
    student, teacher = spec
    built = build.pair(spec)
    facts, expected = sample_facts(built, text), oracle_report.sample(student, teacher, text)
    share, n, m = oracle_report.share, expected.get("student", 0), expected.get("teacher", 0)
    assert (facts.bytes, facts.characters) == (len(text.encode()), len(text))
    assert facts.pieces == len(oracle_report.pieces(student, teacher, text))
    for who, vocab in (("student", student), ("teacher", teacher)):
        lost = oracle_report.unspellable(vocab, text)
        assert unspellable(build.vocab(vocab), text) == lost
        found = facts.unspelled[who]
        assert found.characters == lost.total()
        bytes_lost = sum(len(c.encode()) * k for c, k in lost.items()) + expected.get(f"{who}_left", 0)
        assert found.bytes == bytes_lost
        assert found.share == share(lost.total(), len(text))
        assert set(found.examples) <= set(lost)
    assert (facts.student_tokens, facts.teacher_tokens) == (n, m)
    assert facts.student_bytes_per_token == share(expected.get("bytes", 0), n)
    assert facts.teacher_bytes_per_token == share(expected.get("bytes", 0), m)
    assert facts.student_per_teacher == share(n, m)
    assert facts.rows == {name: share(expected["rows"][name], n) for name in ROWS}
    assert facts.idle == share(expected.get("idle", 0), n)
    assert facts.overrun == share(expected.get("overrun", 0), expected.get("roots", 0))
    kinds = expected["kinds"]
    assert facts.tokens == {kind: share(kinds[kind], m) for kind in KINDS}
    assert facts.candidates == share(m - kinds["exact"], m)
    assert facts.one_step == share(kinds["one_step"], kinds["one_step"] + kinds["deeper"])
    assert facts.child_mass == share(kinds["one_step"], expected["rows"]["child"])
    assert facts.bottom == share(expected["bottom"].total(), m)
    assert facts.spans == {name: share(expected["spans"][name], expected["spans"].total()) for name in SPANS}
    uses = expected["uses"]
    extra = sorted((sum(costs) - len(costs) for costs in uses.values()), reverse=True)
    assert [round(u.count * (u.student_tokens - 1)) for u in facts.costly] == [x for x in extra[:EXAMPLES] if x]
    for use in facts.costly:
        costs = uses[use.token.id]
        assert (use.count, use.student_tokens) == (len(costs), sum(costs) / len(costs))
    stuck = {bytes.fromhex(s.group.representative.hex): s.count for s in facts.stuck}
    assert stuck == dict(expected["stuck"].most_common(EXAMPLES)) or len(expected["stuck"]) > EXAMPLES
    at_bottom = {v: count for v, count in expected["bottom"].items() if count}
    assert {x.token.id: x.count for x in facts.bottom_tokens} == at_bottom or len(at_bottom) > EXAMPLES
    event(f"kinds: {sorted(k for k in kinds if kinds[k])}")


@quick
@given(samples())
def test_shares_of_a_kind_add_up(scene):
    spec, text = scene
    facts = sample_facts(build.pair(spec), text)
    for shares in (facts.tokens, facts.spans):
        assert sum(shares.values()) in (0, pytest.approx(1))
    # A row is a root, a child, both, or idle for one reason.
    assert facts.idle == pytest.approx(sum(v for k, v in facts.rows.items() if k not in ("root", "child")))
    assert facts.rows["root"] + facts.rows["child"] + facts.idle >= 1 - 1e-9 or not facts.student_tokens


def test_a_text_that_says_it_all():
    """Bread is completed in one step after Br; Breakfast is not; the cat's tail runs over."""
    letters = [b"B", b"r", b"e", b"a", b"k", b"f", b"s", b"t", b"d", b" "]
    student = oracle.Vocab([*letters, b"Br", b"ead", b"cats", b"c", None], (14,))
    teacher = oracle.Vocab([*letters, b"Bread", b"Breakfast", b"ca", b"c", None], (14,))
    facts = sample_facts(build.pair(Pair(student, teacher)), "Bread Breakfast cats")
    # student: Br ead _ Br e a k f a s t _ cats; teacher: Bread _ Breakfast _ ca t s
    assert (facts.student_tokens, facts.teacher_tokens) == (13, 7)
    assert facts.tokens == pytest.approx(
        {"exact": 4 / 7, "one_step": 1 / 7, "deeper": 1 / 7, "passed": 1 / 7, "inside": 0}
    )
    assert facts.overrun == 1 / 5
    assert facts.rows["interior"] == 6 / 13
    assert [(u.token.text, u.student_tokens) for u in facts.costly] == [("Breakfast", 8.0), ("Bread", 2.0)]
    assert [s.group.representative.text for s in facts.stuck] == ["Breakfast"]
