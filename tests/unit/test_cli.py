"""Bad input to `escd distill`: one clear line, exit code 2, nothing half written."""

import json
import subprocess
import sys

import pytest

from escd.cli import main


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"the cat {i}"}) + "\n" for i in range(16)))
    return path


@pytest.fixture
def run(pair_dir, tmp_path, prompts, capsys, monkeypatch):
    """Runs `escd distill` in an empty folder; flags set to None are left out."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def call(*extra, **flags):
        options = {
            "model_name_or_path": pair_dir / "student", "teacher_model_name_or_path": pair_dir / "teacher",
            "dataset_name": prompts, "output_dir": "out", "max_steps": 1, "per_device_train_batch_size": 4,
            "max_completion_length": 6, "report_to": "none", **flags,
        }  # fmt: skip
        argv = [w for k, v in options.items() if v is not None for w in (f"--{k}", str(v))]
        code = main(["distill", *argv, *extra])
        return code, capsys.readouterr().err

    call.work = work
    return call


def fails(run, *extra, says, **flags):
    code, err = run(*extra, **flags)
    error = [line for line in err.splitlines() if line.startswith("escd: error:")]
    assert code == 2
    assert len(error) == 1
    assert err.splitlines()[-1] == error[0]
    assert "Traceback" not in err
    for word in [says] if isinstance(says, str) else says:
        assert word in error[0]
    assert list(run.work.iterdir()) == []


def test_unknown_flag(run):
    fails(run, "--learning_rat", "1e-3", says=["--learning_rat", "did you mean '--learning_rate'"])
    fails(run, "--learn=1e-3", says="--learn")


def test_answers_that_cannot_be_taken_over(run, tmp_path):
    fails(run, eval_task="lab", eval_before_from=tmp_path / "nowhere", says=["--eval_before_from", "no answers"])


def test_wrong_values(run):
    fails(run, learning_rate="fast", says=["learning_rate", "fast"])
    fails(run, objective="escdd", says="did you mean 'escd'")
    fails(run, completion="exactly", says="did you mean 'exact'")
    fails(run, child_weight=-1, says="child_weight")
    fails(run, eval_task="gsm9k", says=["gsm9k", "did you mean 'gsm8k'"])
    fails(run, eval_samples=0, says="eval_samples=0 must be at least 1")
    fails(run, eval_top_p=1.5, says="eval_top_p=1.5")
    fails(run, eval_temperature=0, says=["eval_samples=4", "temperature=0"])
    fails(run, eval_batch_size=0, says="eval_batch_size")
    fails(run, lr_scheduler_type="cosinus", says="cosinus")
    fails(run, deepspeed="nowhere.json", says="deepspeed")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"objective": "alm", "objective_kwargs": '{"power": "x"}'}, "power='x' must be a number"),
        (
            {"objective": "alm", "objective_kwargs": '{"pair": 1}'},
            "objective 'alm' has no option 'pair'; known: power",
        ),
        ({"objective": "gold", "objective_kwargs": '{"matched_weight": "a"}'}, "matched_weight='a' must be a number"),
        ({"objective": "xtoken", "objective_kwargs": '{"top": 1.5}'}, "top=1.5 must be a whole number, at least 1"),
        ({"objective": "xtoken", "objective_kwargs": '{"top": NaN}'}, "top=nan must be a whole number"),
        ({"objective": "bpm", "objective_kwargs": '{"beta": 1}'}, ["objective_kwargs", "give --beta 1"]),
        (
            {"objective_kwargs": '{"child_weight": 2}', "child_weight": 1},
            ["objective_kwargs", "give --child_weight 2"],
        ),
        ({"objective_kwargs": "{bad"}, "objective_kwargs='{bad' is no JSON"),
        ({"objective_kwargs": "bad"}, "objective_kwargs='bad' must be a JSON dictionary"),
        ({"model_init_kwargs": "{bad json"}, "model_init_kwargs='{bad json' is no JSON"),
        ({"teacher_chat_template_kwargs": "[1]"}, "teacher_chat_template_kwargs='[1]' must be a JSON dictionary"),
        ({"child_weight": "1e308"}, "child_weight=1e+308 must be a number, at least 0 and at most 1000000"),
        ({"learning_rate": "nan"}, "learning_rate=nan must be a number"),
        ({"learning_rate": -1}, "learning_rate=-1.0"),
        ({"dataloader_num_workers": -1}, "dataloader_num_workers=-1 must be a whole number, at least 0"),
        ({"max_steps": 0}, "max_steps=0 must be a whole number, at least 1"),
        ({"max_steps": -1, "num_train_epochs": 0}, "num_train_epochs=0.0 must be a number, over 0"),
        ({"save_steps": 0}, "save_steps=0.0 must be a number, over 0"),
        ({"temperature": 0}, "temperature=0.0 must be a number, over 0"),
        ({"seed": -1}, "seed=-1 must be a whole number"),
        ({"torch_threads": 0}, "torch_threads=0 must be a whole number"),
        ({"output_dir": ""}, "--output_dir '' is no folder"),
        ({"output_dir": "a" * 300}, ["--output_dir", "too long"]),
        ({"output_dir": "o/" + "a" * 300}, ["--output_dir", "too long"]),
        ({"output_dir": "a" * 300, "resume_from_checkpoint": "true"}, "no complete checkpoint"),
        ({"resume_from_checkpoint": "a" * 300}, "is no checkpoint"),
        ({"config": "a" * 300}, "there is no such file"),
    ],
)
def test_wrong_values_are_found_before_anything_is_loaded(run, monkeypatch, flags, says):
    monkeypatch.setattr("escd.training.distill._trainer", None)
    fails(run, says=says, **flags)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("learning_rat: 1\n", ["learning_rat", "did you mean 'learning_rate'"]),
        ("learning_rate: [1\n", "not readable as YAML"),
        ("- a\n- b\n", "mapping"),
        ("learning_rate: soon\n", "soon"),
        ("env: 3\n", "env"),
        ("run_name: 2020-99-99\n", "not readable as YAML"),
        ("bf16: !!bool x\n", "not readable as YAML"),
        ('output_dir: "o\\0o"\n', ["--output_dir", "null"]),
    ],
)
def test_wrong_recipes(run, tmp_path, text, says):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(text)
    fails(run, "--config", str(recipe), says=says, output_dir=None)
    fails(run, f"--config={recipe}", says=says, output_dir=None)


def test_missing_recipe(run):
    fails(run, "--config", "recipes/nowhere.yaml", says="no such file")
    fails(run, "--config", says="--config needs")


def test_missing_pieces(run):
    for flag in ("model_name_or_path", "teacher_model_name_or_path", "dataset_name"):
        fails(run, **{flag: None}, says=f"--{flag} is missing")


def test_paths_that_do_not_exist(run):
    fails(run, teacher_model_name_or_path="/nowhere/teacher", says=["teacher", "/nowhere/teacher", "no such folder"])
    fails(run, model_name_or_path="./student", says=["student", "no such folder"])


def test_hub_ids_that_are_not_there(run):
    fails(run, teacher_model_name_or_path="nobody/nothing", says="nobody/nothing")
    fails(run, model_name_or_path="nobody/nothing", says="nobody/nothing")
    fails(run, dataset_name="nobody/nothing", says="nobody/nothing")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.jsonl", "", "is empty"),
        ("columns.jsonl", '{"question": "a", "answer": "b"}\n', ["no column 'prompt'", "question, answer"]),
        ("broken.jsonl", '{"prompt": "a"}\n{"prompt": \n', "cannot be loaded"),
        ("kind.jsonl", '{"prompt": 3}\n', ["row 0", "text or messages"]),
        ("roles.jsonl", '{"prompt": [{"content": "a"}]}\n', ["row 0", "role and text content"]),
        ("hole.jsonl", '{"prompt": "a"}\n{"prompt": null}\n', "row 1"),
        ("blank.jsonl", '{"prompt": "a"}\n{"prompt": ""}\n', ["row 1", "empty"]),
        ("notes.txt", "a\n", "must end in"),
    ],
)
def test_bad_datasets(run, tmp_path, name, content, says):
    path = tmp_path / name
    path.write_text(content)
    fails(run, dataset_name=path, says=says)


def test_missing_dataset_file(run):
    fails(run, dataset_name="prompts.jsonl", says="no such file")
    fails(run, dataset_name="lab/sciences", says="did you mean 'lab/science'")


def test_student_without_tokenizer(run, pair_dir, tmp_path):
    from transformers import AutoModelForCausalLM

    AutoModelForCausalLM.from_pretrained(pair_dir / "student").save_pretrained(tmp_path / "bare")
    fails(run, model_name_or_path=tmp_path / "bare", says=["student", "no tokenizer"])


def test_teacher_head_smaller_than_its_tokenizer(run, pair_dir, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(pair_dir / "teacher")
    model.resize_token_embeddings(99)
    model.save_pretrained(tmp_path / "small")
    AutoTokenizer.from_pretrained(pair_dir / "teacher").save_pretrained(tmp_path / "small")
    fails(run, teacher_model_name_or_path=tmp_path / "small", says=["lm_head has 99 rows", "teacher"])


def test_folder_of_another_run(run):
    (run.work / "out").mkdir()
    (run.work / "out" / "metrics.jsonl").write_text("{}\n")
    code, err = run()
    assert code == 2
    assert "holds another run" in err
    assert "--resume_from_checkpoint" in err
    assert (run.work / "out" / "metrics.jsonl").read_text() == "{}\n"


def test_nothing_to_resume(run):
    fails(run, resume_from_checkpoint="true", says="no complete checkpoint")
    fails(run, resume_from_checkpoint="/nowhere/checkpoint-3", says="is no checkpoint")


def test_unknown_command(capsys):
    assert main(["distil"]) == 2
    assert "unknown command 'distil'" in capsys.readouterr().err


def test_help_and_version(capsys):
    assert main([]) == 0
    assert "escd distill" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("escd 0.")


@pytest.mark.slow
def test_nan_weights_end_the_run_with_one_line(run, pair_dir, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(pair_dir / "teacher")
    with torch.no_grad():
        model.model.norm.weight[0] = torch.nan
    model.save_pretrained(tmp_path / "nan")
    AutoTokenizer.from_pretrained(pair_dir / "teacher").save_pretrained(tmp_path / "nan")
    code, err = run(teacher_model_name_or_path=tmp_path / "nan")
    assert code == 2
    assert "its logits are NaN or infinite at response 0 of this batch, row 0 (step 1)" in err.splitlines()[-1]


@pytest.mark.slow
def test_the_installed_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "escd.cli", "distill", "--config", "nowhere.yaml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("escd: error: distill: recipe 'nowhere.yaml'")
    assert len(done.stderr.splitlines()) == 1


def test_output_folders_that_cannot_be(run, tmp_path):
    (tmp_path / "file").write_text("")
    fails(run, output_dir="", says="no folder")
    fails(run, output_dir=tmp_path / "file", says="no folder")
    fails(run, output_dir=tmp_path / "file" / "below", says="cannot be written to")
    fails(run, output_dir="n" * 300, says="cannot be written to")


def test_recipe_values_of_the_wrong_kind(run, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    for text in (
        "learning_rate: null", "learning_rate: [1, 2]", "learning_rate: {a: 1}", "max_steps: 1.5", "output_dir: 7",
        "mask_whitespace_roots: 3", "help: true", "env: {A: [1]}", "max_steps: 1\nmax_steps: 2",
    ):  # fmt: skip
        recipe.write_text(text)
        fails(run, "--config", str(recipe), says=str(recipe))
    recipe.write_text("max_steps: 1\n")
    fails(run, "--config", str(recipe), "--config", str(recipe), says="twice")


def test_recipe_numbers_may_be_written_as_yaml_reads_them(tmp_path, pair_dir, prompts):
    from escd.training.arguments import parse

    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"model_name_or_path: {pair_dir / 'student'}\nteacher_model_name_or_path: {pair_dir / 'teacher'}\n"
        f"dataset_name: {prompts}\nlearning_rate: 1e-4\nmax_steps: 7\nreport_to: none\nuse_peft: true\n"
        "lora_target_modules: [q_proj, v_proj]\ngeneration_kwargs: {top_k: 5}\n"
    )
    request = parse(["--config", str(recipe), "--max_steps", "9"])
    assert (request.training.learning_rate, request.training.max_steps) == (1e-4, 9)
    assert request.model.lora_target_modules == ["q_proj", "v_proj"]
    assert request.training.generation_kwargs == {"top_k": 5}
    assert (request.run, request.output_dir) == ("recipe", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        {"per_device_train_batch_size": 64}, {"gradient_accumulation_steps": 20}, {"per_device_train_batch_size": -1},
        {"per_device_train_batch_size": 0}, {"max_completion_length": 0}, {"learning_rate": -1}, {"temperature": 0},
        {"report_to": "nope"}, {"optim": "adamw_bnb_8bit"}, {"attn_implementation": "magic"}, {"beta": 0.5},
        {"use_peft": "true", "lora_target_modules": "nope"}, {"model_init_kwargs": '{"foo": 1}'},
        {"chat_template_kwargs": "5"},
    ],
)  # fmt: skip
def test_values_that_only_a_run_finds_wrong(run, flags):
    fails(run, **flags, says="")


@pytest.mark.slow
def test_broken_weights(run, pair_dir, tmp_path):
    import shutil

    for who in ("student", "teacher"):
        broken = tmp_path / who
        shutil.copytree(pair_dir / who, broken)
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:500])
        flag = "model_name_or_path" if who == "student" else "teacher_model_name_or_path"
        fails(run, **{flag: broken}, says="")


@pytest.mark.slow
def test_templates_are_tried_before_anything_is_written(run, pair_dir, tmp_path):
    from transformers import AutoTokenizer

    messages = tmp_path / "messages.jsonl"
    messages.write_text("".join(json.dumps({"prompt": [{"role": "user", "content": "a"}]}) + "\n" for _ in range(8)))
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "teacher")
    tokenizer.chat_template = None
    tokenizer.save_pretrained(tmp_path / "plain")
    fails(run, dataset_name=messages, teacher_tokenizer_name_or_path=tmp_path / "plain", says="no chat template")


@pytest.mark.slow
def test_only_the_same_run_is_resumed(run, pair_dir, tmp_path):
    assert run(save_steps=1)[0] == 0
    for change, says in (
        ({"completion": "exact"}, "options"),
        ({"teacher_model_name_or_path": pair_dir / "student"}, "teacher"),
        ({"resume_from_checkpoint": "out"}, "no checkpoint"),
    ):
        code, err = run(**{"resume_from_checkpoint": "true", "max_steps": 2, **change})
        assert code == 2
        assert says in err.splitlines()[-1]
    code, err = run(output_dir="other", resume_from_checkpoint="out/checkpoint-1")
    assert code == 2
    assert "not of the run" in err
    damaged = run.work / "out" / "checkpoint-1" / "optimizer.pt"
    good = damaged.read_bytes()
    damaged.write_bytes(b"damaged")
    code, err = run(resume_from_checkpoint="true", max_steps=2)
    assert code == 2
    assert "cannot go on" in err.splitlines()[-1]
    damaged.write_bytes(good)
    # A checkpoint that was cut off while it was written is passed over.
    (run.work / "out" / "checkpoint-9").mkdir()
    (run.work / "out" / "checkpoint-9" / "model.safetensors").write_bytes(b"half")
    assert run(resume_from_checkpoint="true", max_steps=2)[0] == 0
    for damage in ("{", "[]", "\udcff"):
        (run.work / "out" / "run.json").write_bytes(damage.encode(errors="surrogateescape"))
        code, err = run(resume_from_checkpoint="true", max_steps=3)
        assert code == 2
        assert "'out/run.json' is damaged; delete it" in err.splitlines()[-1]
    (run.work / "out" / "run.json").unlink()
    assert run(resume_from_checkpoint="true", max_steps=3)[0] == 0
