"""A cached pair is rebuilt when it is stale or damaged, never trusted."""

import numpy as np
import pytest

import escd

STUDENT = escd.ByteVocab([b"Br", b"Cat", b"ead", b"eads", b"eak", None], stop_ids=[5])
TEACHER = escd.ByteVocab([b"Bread", b"Breads", b"Break", b"Cat", None], stop_ids=[4])


def cached(tmp_path, student=STUDENT):
    return escd.TokenizerPair.cached(student, TEACHER, tmp_path)


def only(tmp_path):
    (path,) = tmp_path.glob("*.npz")
    return path


def test_second_time_comes_from_disk(tmp_path, monkeypatch):
    first = cached(tmp_path)
    monkeypatch.setattr(escd.TokenizerPair, "_build_phi", lambda self: pytest.fail("built again"))
    second = cached(tmp_path)
    assert second.group_bytes == first.group_bytes
    assert np.array_equal(second.phi, first.phi)
    assert [p.suffix for p in tmp_path.iterdir()] == [".npz"]


@pytest.mark.parametrize("damage", ["cut", "flip", "garbage", "empty"])
def test_damaged_files_are_replaced(tmp_path, damage):
    good = cached(tmp_path)
    path = only(tmp_path)
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        at = raw.find(np.ascontiguousarray(good.phi).tobytes())
        raw[at] ^= 1
    path.write_bytes({"cut": raw[: len(raw) // 2], "flip": raw, "garbage": b"not a pair", "empty": b""}[damage])
    with pytest.raises(escd.VocabError):
        escd.TokenizerPair.load(path)
    assert np.array_equal(cached(tmp_path).phi, good.phi)
    assert np.array_equal(escd.TokenizerPair.load(path).phi, good.phi)


def test_a_file_of_other_vocabularies_is_not_used(tmp_path):
    other = escd.ByteVocab([b"Bre", b"Cat", b"ad", b"ads", b"ak", None], stop_ids=[5])
    cached(tmp_path, other)
    wrong = only(tmp_path).read_bytes()
    only(tmp_path).unlink()
    right = cached(tmp_path)
    only(tmp_path).write_bytes(wrong)
    again = cached(tmp_path)
    assert np.array_equal(again.student_order, right.student_order)
    assert again.student == STUDENT


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert escd.TokenizerPair.cached(STUDENT, TEACHER, blocked).phi.tolist() == [0, 0, 0, 1, 5]


def test_missing_file():
    with pytest.raises(escd.VocabError, match="no saved pair"):
        escd.TokenizerPair.load("/nowhere/pair.npz")
