"""Bad input to `escd compare`: one clear line, exit code 2, nothing run and nothing written."""

import os

import pytest

from escd.cli import main
from escd.compare import recipe as reading
from escd.compare.recipe import read_plan
from escd.errors import ConfigError
from escd.training.arguments import recipes


def fails(recipe, capsys, *argv, says, **changes):
    assert main(["compare", recipe(**changes), *argv]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert err.startswith("escd: error: compare: ")
    for word in [says] if isinstance(says, str) else says:
        assert word in err
    assert list(recipe.work.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"arms": None}, ["recipe.yaml", "arms missing"]),
        ({"seeds": None, "reference": None}, "seeds, reference missing"),
        ({"eval_task": None}, ["eval_task missing", "eval_task: lab"]),
        ({"model_name_or_path": None}, "--model_name_or_path is missing"),
        ({"arms": ["escd", "escdd"]}, ["'escdd' is no objective", "did you mean 'escd'"]),
        ({"arms": ["escd", "escd"]}, "names 'escd' twice"),
        ({"arms": []}, "arms is a mapping"),
        ({"arms": "escd"}, "arms is a mapping"),
        ({"arms": {"escd": "completion"}}, ["arm 'escd'", "mapping of flags"]),
        ({"arms": {"a/b": {}}}, "arm 'a/b': a name has letters"),
        ({"arms": {"..": {}}}, "arm '..'"),
        ({"arms": {"escd": {}, "base": {}}}, ["arm 'base'", "writes something else there"]),
        ({"arms": {"escd": {}, "Base": {}}}, "arm 'Base'"),
        ({"arms": {"escd": {}, "a" * 61: {}}}, ["arm 'aaa", "60 characters at most"]),
        ({"arms": {"escd": {}, "ß" * 300: {}}}, "60 characters at most"),
        ({"arms": {"escd": {}, "Escd": {}}}, "arms 'escd' and 'Escd' differ in case only"),
        ({"output_dir": ""}, "output_dir: '' is no folder"),
        ({"output_dir": "o/" + "a" * 300}, ["cannot be written to", "too long"]),
        ({"output_dir": "o\0o"}, ["cannot be written to", "null"]),
        ({"eval_task": []}, ["eval_task names no task", "eval_task: lab"]),
        ({"eval_task": ""}, "unknown task ''"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be a number, at least 0, and finite"),
        ({"learning_rate": -1}, "learning_rate=-1"),
        ({"arms": {"escd": {}, "b": {"learning_rate": float("inf")}}}, ["arm 'b'", "learning_rate=inf"]),
        ({"dataloader_num_workers": -1}, "dataloader_num_workers=-1 must be a whole number, at least 0"),
        ({"max_steps": 0}, "max_steps=0 must be a whole number, at least 1"),
        ({"save_steps": 0}, "save_steps=0 must be a number, over 0"),
        ({"logging_steps": -1}, "logging_steps=-1"),
        ({"arms": {"escd": {}, "b": {"objective": "alm", "objective_kwargs": "{bad"}}}, "objective_kwargs='{bad'"),
        ({"arms": {1: {}}}, "arm 1: a name"),
        ({"arms": {"escd": {}, "b": {"objective": "bpmm"}}}, ["arm 'b'", "unknown objective 'bpmm'"]),
        ({"arms": {"escd": {}, "b": {"completon": "set"}}}, ["arm 'b'", "did you mean 'completion'"]),
        ({"arms": {"escd": {}, "b": {"completion": "sett"}}}, ["arm 'b'", "did you mean 'set'"]),
        ({"arms": {"escd": {}, "b": {"learning_rate": "fast"}}}, ["arm 'b'", "'fast' is not a value"]),
        ({"arms": {"escd": {"child_weight": -1}, "b": {"completion": "x"}}}, ["arm 'escd'", "; arm 'b'"]),
        ({"arms": {"escd": {}, "b": {"seed": 3}}}, ["arm 'b': seed cannot be given", "`seeds`"]),
        ({"arms": {"escd": {}, "b": {"max_steps": 3}}}, ["arm 'b': max_steps", "the same for all arms"]),
        ({"arms": {"escd": {}, "b": {"output_dir": "x"}}}, "arm 'b': output_dir"),
        ({"learning_rat": 1}, ["recipe.yaml: unknown key 'learning_rat'", "did you mean"]),
        ({"learning_rate": "soon"}, "recipe.yaml: learning_rate: 'soon'"),
        ({"env": 3}, "env must be a mapping"),
        ({"seed": 1}, "seed cannot be given"),
        ({"data_seed": 1}, "data_seed cannot be given"),
        ({"resume_from_checkpoint": "true"}, "resumes its runs by itself"),
        ({"push_to_hub": True}, "overwrite each other"),
        ({"seeds": [1, 2, 1]}, "seed 1 is there twice"),
        ({"seeds": []}, "seeds: []"),
        ({"seeds": 0}, "seeds: 0"),
        ({"seeds": [1, -1]}, "seeds"),
        ({"seeds": [1, True]}, "seeds"),
        ({"seeds": "1 2"}, "seeds: '1 2'"),
        ({"seeds": 2.5}, "seeds: 2.5"),
        ({"reference": "escdd"}, ["'escdd' is none of the arms", "did you mean 'escd'"]),
        ({"reference": ["escd"]}, "is none of the arms"),
        ({"processes": 0}, "processes=0"),
        ({"processes": "two"}, "processes='two'"),
        ({"output_dir": 3}, "output_dir: 3 is no folder"),
        ({"dataset_name": "nowhere.jsonl"}, "no such file"),
        ({"model_name_or_path": "./nowhere"}, ["student './nowhere'", "no such folder"]),
        ({"arms": {"escd": {}, "b": {"teacher_model_name_or_path": "/no/where"}}}, "teacher '/no/where'"),
    ],
)
def test_wrong_recipes(recipe, capsys, changes, says):
    fails(recipe, capsys, **changes, says=says)


@pytest.mark.parametrize("name", sorted(reading.TAKEN))
def test_no_arm_takes_the_place_of_a_file_of_the_comparison(recipe, capsys, name):
    for spelt in (name, name.upper()):
        fails(recipe, capsys, arms={"escd": {}, spelt: {}}, says=[f"arm '{spelt}'", "rename"])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--seeds", "one"], "invalid int value: 'one'"),
        (["--seeds", "1", "1"], "seed 1 is there twice"),
        (["--seeds"], "expected at least one argument"),
        (["--arms", "escd", "bpm"], "--arms 'bpm' is none of the arms"),
        (["--arms", "escd", "escd"], "twice"),
        (["--arms", "escd-none"], "reference 'escd' is none of the arms that run"),
        (["--reference", "nobody"], "'nobody' is none of the arms"),
        (["--processes", "0"], "processes=0"),
        (["--max_stepss", "3"], ["unknown flag '--max_stepss'", "did you mean '--max_steps'"]),
        (["--max_steps", "few"], "few"),
        (["--completion", "set"], ["--completion", "arm 'escd'"]),
        (["--seed", "3"], "command line: seed cannot be given"),
        (["--config", "x.yaml"], "config cannot be given"),
        (["other.yaml"], "unknown argument 'other.yaml'"),
        (["--output_dir=recipe.yaml/x"], "cannot be written to"),
        (["--output_dir="], "output_dir: '' is no folder"),
        (["--output_dir", "a" * 300], "too long"),
        (["--learning_rate", "nan"], "learning_rate=nan"),
    ],
)
def test_wrong_flags(recipe, capsys, argv, says):
    if "recipe.yaml" in argv[0]:  # a folder below a file
        argv = [f"--output_dir={recipe.work.parent}/recipe.yaml/x"]
    fails(recipe, capsys, *argv, says=says)


@pytest.mark.parametrize(
    ("text", "says"),
    [("- a\n", "YAML mapping"), ("arms: [\n", "not readable as YAML"), ("seeds: 1\nseeds: 2\n", "there twice")],
)
def test_wrong_files(recipe, tmp_path, capsys, text, says):
    path = tmp_path / "other.yaml"
    path.write_text(text)
    assert main(["compare", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_the_recipe_comes_first(recipe, capsys):
    for argv in ([], ["--seeds", "1"], ["nowhere.yaml"], ["labb"], ["a" * 300], ["a/" * 5000]):
        assert main(["compare", *argv]) == 2
    err = capsys.readouterr().err
    assert err.count("the recipe comes first") == 2
    assert "did you mean 'lab'" in err


def test_help_tells_the_format(capsys):
    assert main(["compare", "--help"]) == 0
    assert "reference: escd" in capsys.readouterr().out


def test_flags_override_the_recipe(recipe):
    plan = read_plan([recipe(), "--seeds", "5", "3", "--max_steps=7", "--output-dir", "there", "--processes", "1"])
    assert plan.seeds == (5, 3)
    assert (plan.steps, plan.processes, str(plan.folder)) == (7, 1, "there")
    assert plan.requests["escd"].training.max_steps == 7
    assert read_plan([recipe(), "--arms", "escd"]).arms == {"escd": {"completion": "set"}}


def test_defaults(recipe, monkeypatch):
    plan = read_plan([recipe(seeds=3, output_dir=None, processes=None, arms=["escd"])])
    assert plan.seeds == (1, 2, 3)
    assert str(plan.folder) == "runs/compare-recipe"
    assert plan.arms == {"escd": {"objective": "escd"}}
    assert plan.processes >= 1
    monkeypatch.setattr(reading.os, "sched_getaffinity", lambda _: set(range(7)))
    assert reading._processes(None, 2) == 3
    assert reading._processes(None, 16) == 1


def test_each_run_has_its_seed_and_its_arm(recipe):
    content = read_plan([recipe(env={"A_VARIABLE": "1"})]).content("escd-none", 2)
    assert (content["seed"], content["data_seed"], content["completion"]) == (2, 2, "none")
    assert content["env"] == {"A_VARIABLE": "1"}
    assert "arms" not in content
    assert "A_VARIABLE" not in os.environ


def test_settings_are_what_differs_from_the_defaults(recipe):
    shared, arms = read_plan([recipe(), "--weight_decay", "0.1", "--max_grad_norm", "1.0"]).settings()
    assert shared["weight_decay"] == 0.1
    assert "max_grad_norm" not in shared
    assert (shared["max_steps"], shared["gradient_checkpointing"]) == (3, False)
    assert arms == {"escd": {}, "escd-none": {"completion": "none"}}
    off, _ = read_plan([recipe(), "--no_mask_whitespace_roots"]).settings()
    assert off["mask_whitespace_roots"] is False


@pytest.mark.parametrize("name", recipes("compare"))
def test_shipped_recipes_can_be_read_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for spelt in (name, f"{name}.yaml", f"recipes/compare/{name}.yaml"):
        plan = read_plan([spelt])
        assert plan.name == name
    assert plan.reference in plan.arms
    with pytest.raises(ConfigError, match="no such file"):
        read_plan([f"elsewhere/{name}.yaml"])
