"""TRL's own losses as oracles of the objectives that name them: ULDLoss of `gold` and `uld`, the JSD of `kl`.

Where the definitions agree: both align the response by bytes, pair tokens by spelling, and merge units by the chain
rule. TRL clamps probabilities at 1e-8, so logits are mild here.
"""

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # it warns on import

import numpy as np
import pytest
import torch
from trl.experimental.gold import GOLDConfig
from trl.experimental.gold.gold_trainer import GOLDTrainer, ULDLoss

import escd

pytestmark = pytest.mark.filterwarnings("ignore:.gradient_checkpointing. is deprecated:FutureWarning")  # TRL's own

# "</s>" ends a response, "<pad>" is no text; all others stand for their bytes.
STUDENT = ["a", "b", "c", "ab", " x", "x", "<pad>", "abca", "</s>"]
TEACHER = ["<pad>", "a", "bc", "b", "abc", " ", "</s>", "x", "c", "ca x"]
SIDES = (STUDENT, TEACHER)
RESPONSES = {
    "one to one": (["a", "b", "x", "c", "</s>"], ["a", "b", "x", "c", "</s>"]),
    "student splits": (["a", "b", "c", "x", "</s>"], ["abc", "x", "</s>"]),
    "teacher splits": (["ab", " x", "abca", "</s>"], ["a", "b", " ", "x", "a", "bc", "a", "</s>"]),
    "both split": (["ab", "c", "abca", " x", "b", "</s>"], ["a", "bc", "abc", "a", " ", "x", "b", "</s>"]),
    "across": (["x", "ab", "c", "a", " x", "</s>"], ["x", "a", "bc", "a", " ", "x", "</s>"]),
}
SPELLED = {name: [[tokens.index(t) for t in side] for tokens, side in zip(SIDES, r, strict=True)]
           for name, r in RESPONSES.items()}  # fmt: skip


class Spelling:
    """All that ULDLoss asks of a tokenizer."""

    def __init__(self, tokens):
        self.tokens = tokens

    def get_vocab(self):
        return {token: i for i, token in enumerate(self.tokens)}


def vocab(tokens):
    silent = {i: t for i, t in enumerate(tokens) if t.startswith("<")}
    data = [None if i in silent else t.encode() for i, t in enumerate(tokens)]
    return escd.ByteVocab(data, stop_ids=[tokens.index("</s>")], special_tokens=silent)


PAIR = escd.TokenizerPair(student=vocab(STUDENT), teacher=vocab(TEACHER))


def tables(ids, padding=(2, 3)):
    """Logits of a response, with padded columns."""
    rng = np.random.default_rng(len(ids[0]))
    student, teacher = (
        torch.tensor(rng.normal(size=(len(i), len(t) + more))) for i, t, more in zip(ids, SIDES, padding, strict=True)
    )
    return student.requires_grad_(), teacher


def byte_offsets(ids, tokens):
    ends = np.cumsum([0 if tokens[i].startswith("<") else len(tokens[i]) for i in ids])
    return torch.from_numpy(np.stack([np.append(0, ends[:-1]), ends], 1))[None]


def trl(ids, student, teacher, **options):
    """Value of ULDLoss on rows that predict the tokens at their own place; a mean over units."""
    config = GOLDConfig(
        "unused", use_uld_loss=True, use_extended_uld=True, uld_skip_student_eos=False, uld_skip_teacher_eos=False,
        uld_token_merge_strategy="observed", use_cpu=True, bf16=False, report_to="none", **options,
    )  # fmt: skip
    loss = ULDLoss(config, Spelling(STUDENT), Spelling(TEACHER), torch.device("cpu"))
    labels = [torch.tensor([side]) for side in ids]
    offsets = [byte_offsets(side, tokens) for side, tokens in zip(ids, SIDES, strict=True)]
    return loss(student[None], teacher[None], *labels, *labels, *offsets)


def compare(name, ids, options, reference):
    """Values and gradients of the objective and of the reference, which is a mean over units."""
    student, teacher = tables(ids)
    value = reference(student, teacher)
    (expected,) = torch.autograd.grad(value, student)
    # Ends of tokens on both sides; the stop ends where the text does, and is a unit of its own.
    ends = [set(byte_offsets(side, tokens)[0, :, 1].tolist()) for side, tokens in zip(ids, SIDES, strict=True)]
    units = len(ends[0] & ends[1]) + 1
    losses = escd.objective(name, PAIR, **options).row_losses(student, teacher, *ids)
    (found,) = torch.autograd.grad(losses.total.sum(), student)
    assert losses.total.sum().item() == pytest.approx(units * value.item(), rel=1e-6)
    torch.testing.assert_close(found, units * expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("ids", SPELLED.values(), ids=SPELLED.keys())
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_gold_is_the_hybrid_uld_loss(ids, beta):
    options = {"uld_use_hybrid_loss": True, "beta": beta}
    compare("gold", ids, {"beta": beta}, lambda student, teacher: trl(ids, student, teacher, **options))


def test_gold_with_a_weight():
    ids = SPELLED["both split"]
    options = {"uld_use_hybrid_loss": True, "uld_hybrid_matched_weight": 0.3, "uld_hybrid_unmatched_weight": 0.7}
    compare("gold", ids, {"matched_weight": 0.3}, lambda student, teacher: trl(ids, student, teacher, **options))


def test_uld_is_the_uld_loss_where_units_are_single_tokens():
    ids = SPELLED["one to one"]
    compare("uld", ids, {}, lambda student, teacher: trl(ids, student, teacher))


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 1.0])
def test_kl_is_the_generalised_jsd(beta):
    side = SPELLED["one to one"][0]
    rng = np.random.default_rng(0)
    student, teacher = (torch.tensor(rng.normal(size=(len(side), len(STUDENT)))) for _ in range(2))
    objective = escd.objective("kl", escd.TokenizerPair(vocab(STUDENT), vocab(STUDENT)), beta=beta)
    expected = GOLDTrainer.generalized_jsd_loss(student, teacher, beta=beta, reduction="none").sum(-1)
    torch.testing.assert_close(objective.row_losses(student, teacher, side, side).total, expected)
