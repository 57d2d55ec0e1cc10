"""What the inspector tells of every row, against brute force."""

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st

import escd
import oracle
from escd.inspector import record
from escd.inspector.record import Inspector

from . import build
from .strategies import scenes

choices = st.fixed_dictionaries(
    {},
    optional={
        "completion": st.sampled_from(["set", "deep", "none", "single", "exact", "minimal"]),
        "completion_weight": st.sampled_from(["mass", "posterior"]),
        "mask_whitespace_roots": st.booleans(),
    },
)


def inspect(scene, whole, choice, static=False):
    """The record and its inspector; `whole`: nothing is left out of lists."""
    inspector = Inspector(escd.objective("escd", build.pair(scene), **choice))
    tables = [torch.tensor(x) for x in (scene.student_logits, scene.teacher_logits)]
    scores = None if static else tuple(lambda rows, x=x: x[torch.from_numpy(rows)] for x in tables)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TARGETS", "GROUPS", "TOKENS") if whole else ():
            patch.setattr(record, name, 10**6)
        patch.setattr(record, "_LEAST", 0.0 if whole else record._LEAST)
        return inspector.record(scene.student_ids, scene.teacher_ids, scores), inspector


def close(found, expected, atol=1e-9):
    np.testing.assert_allclose(np.array(found, float), expected, rtol=2e-5, atol=atol)


@settings(max_examples=100, deadline=None)
@given(scenes(scales=(1.0, 5.0)), choices)
def test_rows_losses_and_events(scene, choice):
    found, inspector = inspect(scene, True, choice)
    what = oracle.supervision(
        scene.student, scene.teacher, scene.teacher_logits, scene.student_ids, scene.teacher_ids,
        scene.student_logits.shape[1], **choice,
    )  # fmt: skip
    root, child = oracle.row_losses(*scene, **choice)
    close(found["root"], root)
    close(found["child"], child)
    p = [oracle.softmax(z) for z in scene.student_logits]
    phi = oracle.phi(scene.student, scene.teacher)
    q_of = {row: oracle.softmax(scene.teacher_logits[j]) for row, j in oracle.roots(*scene[:2], *scene[4:])}
    for row, kind in enumerate(found["kind"]):
        assert (kind in ("root", "both")) == (what.root[row] is not None)
        assert (kind in ("child", "both")) == bool(what.child[row])
        assert (row in found["entries"]) == (what.root[row] is not None)
    for row, entry in found["entries"].items():
        cells, bottom, outside = what.root[row]
        assert [t[0] for t in entry["targets"] if t[0] < 0] == [-1]
        assert {t[0] for t in entry["targets"]} == {*cells, -1}
        for u, number, tokens, t, probability, _, q in entry["targets"]:
            close(t, bottom if u < 0 else cells[u])
            close(probability, sum(p[row][j] for j in (outside if u < 0 else [u])))
            assert sorted(tokens) == [v for v, cell in enumerate(phi) if cell == u]
            assert number == len(tokens)
            close(q, [q_of[row][v] for v in tokens])
        # Parts have six digits each and may cancel.
        close(sum(t[5] for t in entry["targets"]), root[row], 1e-5 * max(1, *(abs(t[5]) for t in entry["targets"])))
        assert entry["phi"] == phi[scene.teacher_ids[found["teacher_row"][row]]]
    names = inspector.pair.group_bytes
    groups = dict(oracle.groups(scene.student, scene.teacher))
    for row in range(len(p)):
        links = [link for link in found["links"] if link["child"] == row]
        sets = [g for link in links for g in link["groups"]]
        event(f"sets: {min(len(sets), 3)}")
        told = sorted((sorted(members), weight) for _, _, members, _, weight, _, _, _ in sets)
        wanted = sorted((sorted(c.columns), c.mass) for c in what.child[row])
        assert [m for m, _ in told] == [m for m, _ in wanted]
        close([w for _, w in told], [w for _, w in wanted])
        for link in links:
            q = q_of[link["root"]]
            text = b"".join(scene.student.bytes_of(i) for i in scene.student_ids[link["root"] : row])
            assert link["path"] == len(text)
            assert link["rest"] is None
            assert [g[3] for g in link["groups"]] == sorted((g[3] for g in link["groups"]), reverse=True)
            for g, size, members, mass, _, chance, _, each in link["groups"]:
                assert each == sorted(each, reverse=True)
                assert names[g].startswith(text)
                assert size == len(members)
                close(mass, sum(q[v] for v in groups[names[g]]))
                close(chance, sum(p[row][u] for u in members))
                close(each, [p[row][u] for u in members])
        close(sum(g[6] for g in sets), child[row])


@settings(max_examples=60, deadline=None)
@given(scenes(scales=(1.0, 5.0)), choices)
def test_groups_that_nothing_completes(scene, choice):
    found, inspector = inspect(scene, True, choice)
    option = choice.get("completion", "set")
    expected = {}
    for row, j in oracle.roots(*scene[:2], *scene[4:]):
        a = scene.student_ids[row]
        path, q = scene.student.bytes_of(a), oracle.softmax(scene.teacher_logits[j])
        opened = [x for x in oracle.groups(*scene[:2]) if path and x[0].startswith(path) and x[0] != path]
        empty = {y: sum(q[v] for v in m) for y, m in opened if not oracle.completions(scene.student, a, y, option)}
        if empty and row + 1 < len(scene.student_ids):
            expected[row] = empty
    assert found["unfinished"].keys() == expected.keys()
    for row, (number, groups, mass, each) in found["unfinished"].items():
        assert {inspector.pair.group_bytes[g] for g in groups} == expected[row].keys()
        assert number == len(groups)
        if mass is not None:
            close(mass, sum(expected[row].values()))
            close(each, [expected[row][inspector.pair.group_bytes[g]] for g in groups])


@settings(max_examples=60, deadline=None)
@given(scenes(scales=(1.0, 5.0)), choices)
def test_what_is_not_listed_is_summed_up(scene, choice):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TARGETS", "GROUPS", "TOKENS"):
            patch.setattr(record, name, 1)
        found, _ = inspect(scene, False, choice)
    for row, entry in found["entries"].items():
        rest = entry["rest"] or [0, 0.0, 0.0, 0.0]
        np.testing.assert_allclose(sum(t[3] for t in entry["targets"]) + rest[1], 1, atol=1e-5)
        np.testing.assert_allclose(sum(t[4] for t in entry["targets"]) + rest[2], 1, atol=1e-5)
        np.testing.assert_allclose(
            sum(t[5] for t in entry["targets"]) + rest[3], found["root"][row], rtol=1e-5, atol=1e-5
        )
        shown = {t[0] for t in entry["targets"]}
        assert entry["phi"] in shown
    for row, loss in enumerate(found["child"]):
        links = [link for link in found["links"] if link["child"] == row]
        told = sum(g[6] for link in links for g in link["groups"]) + sum(
            (link["rest"] or [0, 0, 0])[2] for link in links
        )
        np.testing.assert_allclose(told, loss, rtol=1e-5, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(scenes(scales=(1.0,)), choices)
def test_without_scores_the_same_rows_and_sets(scene, choice):
    scored, _ = inspect(scene, True, choice)
    static, inspector = inspect(scene, True, choice, static=True)
    assert static["root"] is static["child"] is None
    for name in ("student", "teacher", "common", "status", "kind", "teacher_row"):
        assert static[name] == scored[name]
    assert static["entries"].keys() == scored["entries"].keys()
    for row, entry in static["entries"].items():
        full = {t[0]: (t[1], sorted(t[2])) for t in scored["entries"][row]["targets"]}
        cells = {entry["phi"], static["student"][row]} & full.keys()
        assert {t[0]: (t[1], sorted(t[2])) for t in entry["targets"]} == {u: full[u] for u in cells}
    for a, b in zip(static["links"], scored["links"], strict=True):
        assert [a[k] for k in ("root", "child", "path")] == [b[k] for k in ("root", "child", "path")]
        assert {g: (n, sorted(m)) for g, n, m in a["groups"]} == {x[0]: (x[1], sorted(x[2])) for x in b["groups"]}
    names = inspector.names()
    assert {*static["student"]} <= names["student"].keys()
    for i, name in names["student"].items():
        content = scene.student.bytes_of(i)
        assert name == content.hex() if content else isinstance(name, list)


def test_not_a_number_is_refused():
    pair = escd.TokenizerPair(student=escd.ByteVocab([b"a", b"b"]), teacher=escd.ByteVocab([b"ab", b"b"]))
    inspector = Inspector(escd.objective("escd", pair))
    bad, good = torch.full((2, 2), torch.nan), torch.zeros(2, 2)
    with pytest.raises(escd.StudentError, match="row 0"):
        inspector.record([0, 1], [0], (lambda rows: bad[rows], lambda rows: good[rows]))
    with pytest.raises(escd.TeacherError, match="row 0"):
        inspector.record([0, 1], [0], (lambda rows: good[rows], lambda rows: bad[rows]))
    with pytest.raises(escd.ConfigError, match="rest_bin"):
        Inspector(escd.objective("escd", pair, rest_bin=True))
