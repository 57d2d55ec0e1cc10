"""Every recipe runs for two steps, from the command line, and leaves what the README promises."""

import json
import tomllib
from pathlib import Path

import pytest
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from escd.cli import main
from escd.metrics_file import read_metrics
from escd.training.arguments import recipes
from escd.training.folders import choose_output_dir

SHORT = [
    "--max_steps", "2", "--per_device_train_batch_size", "4", "--lab_prompts", "64", "--eval_problems", "6",
    "--eval_samples", "2", "--save_steps", "1", "--warmup_steps", "0", "--logging_steps", "1",
]  # fmt: skip


@pytest.mark.parametrize("name", recipes())
def test_recipe_is_a_mapping_of_known_flags(name):
    content = yaml.safe_load(recipes()[name].read_text())
    assert {"model_name_or_path", "teacher_model_name_or_path", "dataset_name"} <= set(content)


def test_the_wheel_takes_the_recipes_along():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"] == {"recipes": "escd/recipes"}


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes())
def test_recipe_runs_for_two_steps(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["distill", "--config", f"recipes/{name}.yaml", *SHORT]) == 0
    run = tmp_path / "runs" / name
    out = capsys.readouterr().out
    assert "report" in out
    for file in ("model.safetensors", "tokenizer.json", "README.md", "report.html", "run.json", "metrics.jsonl"):
        assert (run / file).stat().st_size > 0, file
    assert [r["step"] for r in read_metrics(run / "metrics.jsonl") if "loss" in r] == [1, 2]
    assert len(AutoTokenizer.from_pretrained(run)) <= AutoModelForCausalLM.from_pretrained(run).config.vocab_size


@pytest.mark.slow
def test_quickstart_without_arguments_then_resumed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["distill", *SHORT]) == 0
    run = tmp_path / "runs" / "quickstart"
    out = capsys.readouterr().out
    assert "accuracy before" in out
    assert "accuracy after" in out
    before_file = run / "evaluation" / "before" / "lab-math.jsonl"
    rows = [json.loads(line) for line in before_file.read_text().splitlines()]
    assert len(rows) == 12
    assert set(rows[0]) == {
        "problem", "sample", "prompt", "response", "answer", "correct", "reason", "tokens", "finished",
    }  # fmt: skip
    evaluation = {e["task"]: e for e in json.loads((run / "run.json").read_text())["evaluation"]}["lab/math"]
    assert (evaluation["problems"], evaluation["samples"]) == (6, 2)
    assert evaluation["before"]["accuracy"] == pytest.approx(sum(r["correct"] for r in rows) / 12)
    assert evaluation["after"]["pass_at"]["2"]["accuracy"] >= evaluation["after"]["accuracy"]
    # A second run takes a folder of its own; the first can be continued.
    assert choose_output_dir(None, "quickstart", None) == "runs/quickstart-2"
    before = before_file.read_bytes()
    more = [*SHORT[:1], "3", *SHORT[2:], "--output_dir", "runs/quickstart", "--resume_from_checkpoint", "true"]
    assert main(["distill", *more]) == 0
    assert [r["step"] for r in read_metrics(run / "metrics.jsonl") if "loss" in r] == [1, 2, 3]
    assert before_file.read_bytes() == before
    capsys.readouterr()
    other = [*more, "--eval_temperature", "0.5"]
    assert main(["distill", *other]) == 2
    assert "temperature 1.0, not temperature 0.5" in capsys.readouterr().err.splitlines()[-1]
