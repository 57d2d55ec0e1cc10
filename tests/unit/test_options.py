"""Wrong option values of the Python interface: one line of `EscdError` that names the option and what was given."""

import numpy as np
import pytest
import torch

import escd
from escd.errors import AlignError, ConfigError, EscdError, VocabError
from escd.objectives import objective, objective_names
from escd.objectives.base import objective_class

STUDENT = escd.ByteVocab([b"Br", b"ead", b"eads", b" ", None], stop_ids=[4])
TEACHER = escd.ByteVocab([b"Bread", b"Breads", b" ", None], stop_ids=[3])
IDS, TEACHER_IDS = [0, 1, 4], [0, 3]

NUMBERS = ["0.5", None, [], {}, True, float("nan"), float("inf"), -1, 10**400, 10**5000, 1e308, torch.tensor(0.5)]
WRONG = {
    "beta": [*NUMBERS, 1.5],
    "child_weight": [*NUMBERS, 1_000_001],
    "power": [*NUMBERS, 0, 7],
    "matched_weight": [n for n in NUMBERS if n is not None],
    "top": [*(n for n in NUMBERS if type(n) is not int), -1, 0, 1.5, 2.0],
    "rest_bin": ["false", "true", None, 0, 1, [], torch.tensor(True)],
    "mask_whitespace_roots": ["no", None, 0, 1, np.array([True])],
    "completion": ["sett", None, [], ["set"], {}, 1, np.array(["set"])],
    "completion_weight": ["masses", None, ["mass"], 1],
    "units": ["all", None, ["visited"], 1],
    "merge": ["sum", None, ["mean"], 1],
}


def pair_of(name):
    return escd.TokenizerPair(STUDENT, STUDENT if name == "kl" else TEACHER)


def known(name):
    """Options of an objective and their defaults."""
    return objective_class(name).__init__.__kwdefaults__ or {}


def options():
    return [(name, o) for name in objective_names() for o in known(name)]


def test_every_option_has_wrong_values():
    assert {option for _, option in options()} == {*WRONG}


@pytest.mark.parametrize(("name", "option"), options())
def test_wrong_values_are_named(name, option):
    for value in WRONG[option]:
        with pytest.raises(ConfigError) as error:
            objective(name, pair_of(name), **{option: value})
        said = str(error.value)
        assert said.startswith(f"{option}=")
        assert len(said) < 250
        if isinstance(value, str | bool | float):
            assert said.startswith(f"{option}={value!r} ")


@pytest.mark.parametrize(("name", "option"), options())
def test_what_numpy_makes_is_fine(name, option):
    default = known(name)[option]
    kinds = {bool: np.bool_, int: np.int32, float: np.float32, str: str, type(None): lambda _: np.float32(0.25)}
    losses(objective(name, pair_of(name), **{option: kinds[type(default)](default)}))


@pytest.mark.parametrize("name", objective_names())
def test_the_largest_values_give_finite_losses(name):
    largest = {"child_weight": 1e6, "beta": 1, "power": 1, "top": 10**30, "matched_weight": 1, "rest_bin": True}
    found = losses(objective(name, pair_of(name), **{k: v for k, v in largest.items() if k in known(name)}))
    assert bool(found.total.isfinite().all())


def losses(of, rows=None, **ids):
    """Losses of one response; `rows`: how many rows the logits of student and teacher have."""
    generator = torch.Generator().manual_seed(0)
    ids = {"student_ids": IDS, "teacher_ids": IDS if of.name == "kl" else TEACHER_IDS} | ids
    counts = rows or (len(IDS), len(IDS if of.name == "kl" else TEACHER_IDS))
    vocabs = (of.pair.student, of.pair.teacher)
    return of.row_losses(
        *(torch.randn(n, len(v), generator=generator) for n, v in zip(counts, vocabs, strict=True)), **ids
    )


BAD_IDS = [[0.5] * 3, [1.0], [[0, 1]], torch.tensor([[0, 1, 4]]), np.zeros((1, 0)), [[0], [1, 2]], ["Br"], "Br", None,
           [True], {0}, 3, [None], [2**70], torch.tensor([0.5], requires_grad=True)]  # fmt: skip


@pytest.mark.parametrize("side", ["student", "teacher"])
@pytest.mark.parametrize("ids", BAD_IDS, ids=repr)
def test_ids_that_are_none(side, ids):
    of = objective("escd", pair_of("escd"))
    with pytest.raises(AlignError, match=f"^{side} ids must be one row of whole numbers"):
        losses(of, **{f"{side}_ids": ids})


@pytest.mark.parametrize("bad", [-1, 5, 2**63 - 1])
@pytest.mark.parametrize("side", ["student", "teacher"])
def test_ids_outside(side, bad):
    with pytest.raises(AlignError, match=f"^{side} id {bad} lies outside the {side} vocabulary"):
        losses(objective("escd", pair_of("escd")), **{f"{side}_ids": [0, bad]})


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda x: np.array(x, np.uint8), torch.tensor])
def test_ids_of_every_kind(kind):
    of = objective("escd", pair_of("escd"))
    assert torch.equal(losses(of, student_ids=kind(IDS), teacher_ids=kind(TEACHER_IDS)).total, losses(of).total)


@pytest.mark.parametrize("empty", [[], (), np.zeros(0), torch.zeros(0, dtype=torch.long)])
def test_no_ids(empty):
    assert losses(objective("escd", pair_of("escd")), (0, 0), student_ids=empty, teacher_ids=empty).total.shape == (0,)


@pytest.mark.parametrize("side", ["student", "teacher"])
@pytest.mark.parametrize("bad", [None, [[0.0]], np.zeros((3, 5)), torch.zeros(3, 5, dtype=torch.long)])
def test_logits_that_are_none(side, bad):
    logits = {"student": torch.zeros(3, 5), "teacher": torch.zeros(2, 4), side: bad}
    of = objective("escd", pair_of("escd"))
    with pytest.raises(AlignError, match=f"^{side} logits must be a tensor of floats"):
        of.row_losses(logits["student"], logits["teacher"], IDS, TEACHER_IDS)


@pytest.mark.parametrize("name", [["escd"], None, 3, {}, "escdd", ""])
def test_names_of_objectives(name):
    with pytest.raises(ConfigError, match=r"^unknown objective "):
        objective(name, pair_of("escd"))


@pytest.mark.parametrize("name", objective_names())
@pytest.mark.parametrize("pair", [None, (STUDENT, TEACHER), STUDENT])
def test_pairs_that_are_none(name, pair):
    with pytest.raises(ConfigError, match=r"^pair=.* is no pair; make one with TokenizerPair"):
        objective(name, pair)


@pytest.mark.parametrize("wrong", [None, "student", [b"a"]])
def test_vocabularies_that_are_none(wrong, tmp_path):
    for make in (escd.TokenizerPair, lambda **of: escd.TokenizerPair.cached(**of, cache_dir=tmp_path)):
        with pytest.raises(VocabError, match=r"^teacher=.* is no ByteVocab"):
            make(student=STUDENT, teacher=wrong)
        with pytest.raises(EscdError, match=r"^student=.* is no ByteVocab"):
            make(student=wrong, teacher=TEACHER)
    assert list(tmp_path.iterdir()) == []
