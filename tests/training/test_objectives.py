"""Every objective trains: its options reach it, its responses come from where it says, a step moves the student."""

import pytest
import torch
from datasets import Dataset

import escd
from escd.errors import ConfigError
from escd.metrics_file import read_metrics
from escd.objectives import objective_names
from training.test_trainer import PROMPTS, config, trainer

pytestmark = pytest.mark.slow

COMPLETIONS = PROMPTS.add_column("completion", ["the dog ran to the park."] * len(PROMPTS))
CROSS = [name for name in objective_names() if name not in ("kl", "sft", "escd-topk")]  # that one is served


def figures(folder):
    return [row for row in read_metrics(folder / "metrics.jsonl") if "loss" in row]


@pytest.mark.parametrize("name", CROSS)
def test_a_step_moves_the_student(pair_dir, tmp_path, name):
    run = trainer(pair_dir, tmp_path, objective=name, max_steps=1)
    before = {k: v.clone() for k, v in run.model.state_dict().items()}
    run.train()
    (row,) = figures(tmp_path)
    assert row["loss"] > 0
    assert row["loss"] == pytest.approx(row["root"] + row["child"], rel=1e-4)
    assert any(not torch.equal(v, before[k]) for k, v in run.model.state_dict().items())


@pytest.mark.parametrize("options", [{"completion": "deep"}, {"completion_weight": "posterior"}, {"rest_bin": True}])
def test_arms_of_escd_train(pair_dir, tmp_path, options):
    run = trainer(pair_dir, tmp_path, max_steps=1, **options)
    run.train()
    (row,) = figures(tmp_path)
    assert row["child"] > 0
    assert row["loss"] == pytest.approx(row["root"] + row["child"], rel=1e-4)


def test_kl_distils_a_model_into_another_with_its_tokenizer(pair_dir, tmp_path):
    # The same weights on both sides leave nothing to learn; retokenised responses may differ in their tokens.
    run = trainer(pair_dir, tmp_path, teacher=str(pair_dir / "student"), objective="kl", max_steps=1)
    run.train()
    assert figures(tmp_path)[0]["loss"] == pytest.approx(0, abs=0.1)


def test_sft_learns_the_completions_of_the_dataset(pair_dir, tmp_path):
    run = trainer(pair_dir, tmp_path, data=COMPLETIONS, objective="sft", max_steps=30, max_completion_length=40)
    seen = []
    score = run._generate_and_score_completions
    run._generate_and_score_completions = lambda inputs: seen.append(score(inputs)) or seen[-1]
    run.train()
    ids = [c.response for c in seen[0]["student"]]
    assert {run.student_vocab.decode(r) for r in ids} == {b"the dog ran to the park."}
    assert {r[-1] for r in ids} == {run.student_vocab.preferred_stop}
    rows = figures(tmp_path)
    assert rows[-1]["loss"] < 0.5 * rows[0]["loss"]


def test_seqkd_learns_what_the_teacher_writes(pair_dir, tmp_path):
    run = trainer(pair_dir, tmp_path, objective="seqkd", max_steps=1, max_completion_length=12)
    said, seen = [], []
    generate, score = run.teacher.generate, run._generate_and_score_completions
    run.teacher.generate = lambda *a: said.append(generate(*a)) or said[-1]
    run._generate_and_score_completions = lambda inputs: seen.append(score(inputs)) or seen[-1]
    run.train()
    for teacher_ids, conversation in zip(said[0], seen[0]["student"], strict=True):
        assert len(conversation.response) <= 12
        whole = run.teacher_vocab.decode(teacher_ids)
        assert whole.startswith(run.student_vocab.decode(conversation.response))
        assert len(teacher_ids) <= 12


def test_options_reach_the_objective(tmp_path):
    args = config(tmp_path, objective="alm", objective_kwargs={"power": 0.5})
    assert args.objective_options() == {"power": 0.5}
    args = config(tmp_path, objective="bpm", beta=1.0)
    assert args.objective_options() == {"beta": 1.0, "mask_whitespace_roots": True}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"objective": "gold", "completion": "none"}, "completion='none' has no effect: objective 'gold'"),
        ({"objective": "escd", "beta": 0.5}, "beta=0.5 has no effect"),
        ({"objective": "bpm", "beta": 1.5}, "beta"),
        ({"objective": "alm", "objective_kwargs": {"powr": 1}}, "did you mean 'power'"),
        ({"objective": "alm", "objective_kwargs": {"power": 7}}, "power=7"),
        ({"objective": "simct", "objective_kwargs": {"units": "all"}}, "units='all'"),
        ({"completion_weight": "masses"}, "did you mean 'mass'"),
    ],
)
def test_bad_options_are_one_line(tmp_path, options, says):
    with pytest.raises((ConfigError, ValueError), match=says.replace("(", r"\(")):
        config(tmp_path, **options)


def test_kl_refuses_another_tokenizer(pair_dir, tmp_path):
    with pytest.raises(ConfigError, match="one tokenizer on both sides"):
        trainer(pair_dir, tmp_path, objective="kl")


def test_dataset_without_completions_is_named(pair_dir, tmp_path):
    data = Dataset.from_dict({"prompt": ["the cat"] * 8})
    with pytest.raises(ConfigError, match="no column 'completion'"):
        trainer(pair_dir, tmp_path, data=data, objective="sft").train()


def test_every_objective_names_its_paper():
    for name in objective_names():
        kind = escd.objectives.base.objective_class(name)
        assert kind.title
        assert len(kind.paper.split(".")) == 2
