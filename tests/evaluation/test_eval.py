"""`evaluate` and `escd eval`: what is written, resumed, refused, and left behind when something goes wrong."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from escd import lab
from escd.cli import main
from escd.errors import ConfigError, StudentError
from escd.evaluation import command
from escd.evaluation.rows import RowFile
from escd.evaluation.run import evaluate, fingerprint
from escd.evaluation.sampling import Sampling, sample
from escd.evaluation.tasks import Question, Task

COLUMNS = ["problem", "sample", "prompt", "response", "answer", "correct", "reason", "tokens", "finished"]
QUESTIONS = tuple(
    Question(f"q{i}", [{"role": "user", "content": "the cat " + "sat " * i}], {"answer": "A"}) for i in range(6)
)
TASK = Task("mine/cats", "choice", QUESTIONS, max_new_tokens=5)


@pytest.fixture(scope="module")
def student(pair_dir):
    folder = pair_dir / "student"
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(student, path, task=TASK, **options):
    return evaluate(*student, task, path, **{"samples": 2, "batch_size": 4, **options})


def test_rows_and_settings(student, tmp_path):
    found = run(student, tmp_path / "new" / "cats.jsonl")
    rows = read(tmp_path / "new" / "cats.jsonl")
    assert sorted(os.listdir(tmp_path / "new")) == ["cats.jsonl", "cats.settings.json"]
    assert [(r["problem"], r["sample"]) for r in rows] == [(f"q{i}", k) for i in range(6) for k in range(2)]
    assert all(list(row) == COLUMNS for row in rows)
    assert all(row["tokens"] <= 5 for row in rows)
    assert (found.problems, found.samples, list(found.pass_at)) == (6, 2, [1, 2])
    assert found.average.accuracy == pytest.approx(sum(r["correct"] for r in rows) / 12)
    settings = json.loads((tmp_path / "new" / "cats.settings.json").read_text())
    assert settings["weights"] == fingerprint(student[0])
    assert (settings["task"], settings["problems"], settings["max_new_tokens"]) == ("mine/cats", 6, 5)


def test_a_broken_off_evaluation_becomes_what_it_would_have_been(student, tmp_path):
    path = tmp_path / "cats.jsonl"
    run(student, path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in (0, 1, 5, 11, 12):
        for torn in (b"", b'{"problem": "q5", "sam', lines[-1][:-1]):
            path.write_bytes(b"".join(lines[:kept]) + torn)
            run(student, path)
            assert path.read_bytes() == whole
    # What is there is not sampled again.
    changed = [json.loads(line) | {"response": "kept", "correct": True} for line in lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in changed[:12]))
    assert run(student, path).average.accuracy == 1


def test_random_numbers_belong_to_problem_and_sample(student, tmp_path):
    run(student, tmp_path / "a.jsonl")
    torch.manual_seed(7)
    torch.rand(3)
    state = torch.get_rng_state()
    fewer = Task(TASK.name, TASK.grader, QUESTIONS[:3], TASK.max_new_tokens)
    run(student, tmp_path / "b.jsonl", task=fewer, samples=1, batch_size=1)
    assert torch.equal(torch.get_rng_state(), state)
    texts = {(r["problem"], r["sample"]): r["response"] for r in read(tmp_path / "a.jsonl")}
    for row in read(tmp_path / "b.jsonl"):
        assert row["response"] == texts[row["problem"], row["sample"]]
    assert len(set(texts.values())) > 6
    run(student, tmp_path / "c.jsonl", seed=1)
    assert [r["response"] for r in read(tmp_path / "c.jsonl")] != list(texts.values())


def test_sampling_follows_the_distribution(student):
    """One token after one prompt, drawn 4,000 times, against the softmax; and its restrictions."""
    model, tokenizer = student
    prompt = [{"role": "user", "content": "the cat"}]
    ids = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    with torch.no_grad():
        logits = model(**ids).logits[0, -1, : len(tokenizer)]

    def shares(n=4000, **how):
        found = sample(model, tokenizer, [prompt], n, max_new_tokens=1, batch_size=2000, **how)[0]
        return {text: sum(s.text == text for s in found) / n for text in {s.text for s in found}}

    texts = [tokenizer.decode([token], skip_special_tokens=True) for token in range(len(tokenizer))]
    for temperature in (1.0, 0.5):
        expected = dict.fromkeys(texts, 0.0)  # several tokens may have one text
        for text, probability in zip(texts, (logits / temperature).softmax(-1).tolist(), strict=True):
            expected[text] += probability
        found = shares(temperature=temperature)
        assert found.keys() <= expected.keys()
        for text, probability in expected.items():
            deviation = (probability * (1 - probability) / 4000) ** 0.5
            assert found.get(text, 0) == pytest.approx(probability, abs=5 * deviation + 1e-3)
    greedy = tokenizer.decode([int(logits.argmax())], skip_special_tokens=True)
    assert shares(n=50, top_k=1) == {greedy: 1}
    assert shares(n=50, top_p=1e-6) == {greedy: 1}
    assert len(shares(n=400, top_k=3)) <= 3
    assert sample(model, tokenizer, [prompt], max_new_tokens=1, temperature=0)[0][0].text == greedy


def test_the_generation_config_of_the_model_changes_nothing(student, tmp_path, monkeypatch):
    model, _ = student
    run(student, tmp_path / "a.jsonl")
    changed = GenerationConfig(
        do_sample=True, temperature=0.1, top_p=0.1, top_k=2, repetition_penalty=5.0,
        eos_token_id=model.generation_config.eos_token_id,
    )  # fmt: skip
    monkeypatch.setattr(model, "generation_config", changed)
    run(student, tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"samples": 3}, "samples 2, not samples 3"),
        ({"temperature": 0.5}, "temperature 1.0, not temperature 0.5"),
        ({"seed": 1}, "seed 0, not seed 1"),
        ({"top_k": 5}, "top_k 0, not top_k 5"),
        ({"max_new_tokens": 4}, "max_new_tokens 5, not max_new_tokens 4"),
        ({"task": Task("mine/cats", "choice", QUESTIONS[:5], 5)}, "problems 6, not problems 5"),
        ({"task": Task("mine/cats", "choice", (*QUESTIONS[:5], QUESTIONS[0]), 5)}, "content"),
    ],
)
def test_samples_of_another_evaluation_are_not_mixed_in(student, tmp_path, change, says):
    path = tmp_path / "cats.jsonl"
    run(student, path)
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        run(student, path, **change)
    assert says in str(caught.value)
    assert path.read_bytes() == before
    if "samples" in change:
        run(student, path, keep=False, **change)
        assert len(read(path)) == 18


def test_other_weights_are_another_model(student, tmp_path):
    path = tmp_path / "cats.jsonl"
    run(student, path)
    model, tokenizer = student
    other = AutoModelForCausalLM.from_pretrained(model.name_or_path)
    run((other, tokenizer), path)
    with torch.no_grad():
        next(iter(other.parameters())).mul_(1.01)
    with pytest.raises(ConfigError, match=r"samples with model .*student.* \(weights "):
        run((other, tokenizer), path)


def test_a_file_of_something_else(student, tmp_path):
    path = tmp_path / "cats.jsonl"
    path.write_text('{"problem": "q0", "sample": 0, "correct": true}\n')
    with pytest.raises(ConfigError, match=r"cats.settings.json cannot be read"):
        run(student, path)
    run(student, path, keep=False)
    good = path.read_text()
    for bad, says in (
        (good.splitlines()[0] + "\n" + good, "there twice"), ("3\n" + good, "line 1: not a sample"),
        ("\0\0\n" + good, "line 1: not a sample"), (good.replace('"q0"', '"other"'), "none of this evaluation"),
    ):  # fmt: skip
        path.write_text(bad)
        with pytest.raises(ConfigError, match=says):
            run(student, path)
        assert path.read_text() == bad


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("problem", "[1]"), ("problem", "{}"), ("problem", "null"), ("sample", "true"), ("correct", '"yes"'),
        ("correct", "null"), ("correct", "[]"), ("correct", "7"), ("correct", "NaN"), ("response", None),
        ("reason", None), ("response", "5"), ("tokens", "NaN"), ("finished", "1"), ("answer", "3"), ("prompt", "[]"),
    ],
)  # fmt: skip
def test_damaged_rows(student, tmp_path, name, value):
    path = tmp_path / "cats.jsonl"
    run(student, path)
    rows = read(path)
    if value is None:
        del rows[1][name]
    else:
        rows[1][name] = json.loads(value)
    bad = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(bad)
    with pytest.raises(ConfigError) as caught:
        run(student, path)
    assert "cats.jsonl, line 2: " in str(caught.value)
    assert "--overwrite" in str(caught.value)
    assert path.read_text() == bad


def test_files_of_brackets(student, cli):
    """Nested so deeply that reading them is an error of another kind."""
    path = cli.work / "cats.jsonl"
    run(student, path)
    good = path.read_text()
    path.write_text("[" * 100_000 + "\n" + good)
    with pytest.raises(ConfigError, match="line 1: not a sample"):
        run(student, path)
    path.write_text(good)
    (cli.work / "cats.settings.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match=r"cats.settings.json cannot be read"):
        run(student, path)
    (cli.work / "out").mkdir()
    (cli.work / "out" / "results.json").write_text("[" * 100_000)
    assert "results.json cannot be read" in cli()[2]


@pytest.mark.parametrize("room", [600, 1500])
def test_a_file_that_cannot_grow_keeps_whole_rows(student, tmp_path, room):
    """As on a full disk, part of a row is written before the system says that there is no room."""
    path = tmp_path / "cats.jsonl"
    run(student, path)
    whole = path.read_bytes()
    path.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        with pytest.raises(ConfigError, match=r"cats.jsonl cannot be written: File too large"):
            run(student, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert all(list(row) == COLUMNS for row in read(path))
    assert path.read_bytes()[-1:] in (b"", b"\n")
    run(student, path)
    assert path.read_bytes() == whole


def test_numbers_out_of_range():
    for wrong, says in (
        ({"samples": 0}, "samples=0"), ({"temperature": -1}, "temperature=-1"), ({"temperature": float("nan")}, "nan"),
        ({"top_p": 0}, "top_p=0"), ({"top_p": 1.1}, "top_p=1.1"), ({"top_k": -1}, "top_k=-1"), ({"seed": -1}, "seed"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"), ({"samples": 2, "temperature": 0}, "the same response"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=says):
            Sampling(**wrong)


def test_prompts_that_fill_the_context(student, tmp_path, caplog):
    long = Question("long", [{"role": "user", "content": "x" * 220}], {"answer": "A"})
    run(student, tmp_path / "a.jsonl", task=Task("long", "choice", (long,), 500), samples=1)
    assert "responses end at" in caplog.text
    settings = json.loads((tmp_path / "a.settings.json").read_text())
    assert settings["max_new_tokens"] < 36
    too_long = Question("long", [{"role": "user", "content": "x" * 400}], {"answer": "A"})
    with pytest.raises(ConfigError, match=r"the shortest prompt has \d+ tokens, the model's context only 256"):
        run(student, tmp_path / "b.jsonl", task=Task("long", "choice", (too_long,), 5))
    # Among others it is a wrong answer with its reason, and the others are what they would be without it.
    mixed = Task("mine/cats", "choice", (*QUESTIONS, too_long), 5)
    assert run(student, tmp_path / "c.jsonl", task=mixed).problems == 7
    run(student, tmp_path / "d.jsonl")
    *rows, first, second = read(tmp_path / "c.jsonl")
    assert rows == read(tmp_path / "d.jsonl")
    assert re.fullmatch(r"the prompt has \d+ tokens, the model's context only 256", first["reason"])
    assert (first["correct"], first["response"], first["tokens"], second["sample"]) == (False, "", 0, 1)
    whole = (tmp_path / "c.jsonl").read_bytes()
    (tmp_path / "c.jsonl").write_bytes(whole[: len(whole) // 2])
    run(student, tmp_path / "c.jsonl", task=mixed)
    assert (tmp_path / "c.jsonl").read_bytes() == whole


def test_a_model_without_a_chat_template_gets_plain_text(pair_dir, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    tokenizer.chat_template = None
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "student")
    assert run((model, tokenizer), tmp_path / "a.jsonl").problems == 6


def test_nan_weights(pair_dir, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "student")
    with torch.no_grad():
        model.model.norm.weight[0] = torch.nan
    for temperature, samples in ((1.0, 2), (0.0, 1)):
        with pytest.raises(StudentError, match="NaN"):
            run((model, AutoTokenizer.from_pretrained(pair_dir / "student")), tmp_path / "a.jsonl",
                temperature=temperature, samples=samples)  # fmt: skip


# -- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def cli(pair_dir, tmp_path, capsys, monkeypatch):
    """Runs `escd eval` in an empty folder; flags set to None are left out."""
    pytest.importorskip("math_verify")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def call(*extra, **flags):
        options = {"model_name_or_path": "lab/student", "tasks": "lab/math", "limit": 4, "samples": 2,
                   "output_dir": "out", "batch_size": 3, **flags}  # fmt: skip
        argv = [w for k, v in options.items() if v is not None for w in (f"--{k}", str(v))]
        code = main(["eval", *argv, *extra])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    call.work = work
    return call


def test_the_table_and_the_files(cli):
    code, out, _ = cli()
    assert code == 0
    lines = out.splitlines()
    assert lines[1].split() == ["task", "problems", "samples", "measure", "score", "95", "%", "interval"]
    assert [word for line in lines[2:5] for word in line.split() if "@" in word] == ["avg@2", "pass@1", "pass@2"]
    assert sorted(os.listdir(cli.work / "out")) == ["lab-math.jsonl", "lab-math.settings.json", "results.json"]
    results = json.loads((cli.work / "out" / "results.json").read_text())
    assert results["settings"]["model"] == "lab/student"
    assert {"escd", "torch", "transformers", "math-verify"} <= set(results["versions"])
    about = results["tasks"]["lab/math"]
    rows = read(cli.work / "out" / about["file"])
    assert about["scores"]["avg@2"]["accuracy"] == pytest.approx(sum(r["correct"] for r in rows) / 8)
    # Once more: nothing to do, the same answer.
    files = {p.name: p.read_bytes() for p in (cli.work / "out").iterdir()}
    assert cli()[1] == out
    assert {p.name: p.read_bytes() for p in (cli.work / "out").iterdir()} == files


def test_a_second_task_joins_and_other_settings_do_not(cli, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"question": "2 + 3?", "answer": "#### 5"}\n')
    assert cli()[0] == 0
    task = tmp_path / "mine.yaml"
    task.write_text("dataset_name: rows.jsonl\nprompt: '{{ question }}'\ngrader: math\nanswer: answer\n")
    assert cli(tasks=task, max_new_tokens=None)[0] == 0
    results = json.loads((cli.work / "out" / "results.json").read_text())
    assert list(results["tasks"]) == ["lab/math", "mine"]
    for flags, says in (
        ({"seed": 1}, "seed 0, not 1"), ({"temperature": 0.5}, "temperature 1.0, not 0.5"),
        ({"model_name_or_path": "lab/teacher"}, 'model "lab/student", not "lab/teacher"'), ({"limit": 5}, "limit"),
    ):  # fmt: skip
        code, _, err = cli(**flags)
        assert code == 2
        assert says in err.splitlines()[-1]
        assert len(err.splitlines()) == 1
    assert cli("--overwrite", seed=1)[0] == 0
    assert list(json.loads((cli.work / "out" / "results.json").read_text())["tasks"]) == ["lab/math"]


@pytest.mark.parametrize("kept", [0, 1])
def test_overwriting_can_be_continued(cli, monkeypatch, kept):
    """Killed after `kept` batches of an evaluation that replaces another, it goes on with the same settings."""
    assert cli(samples=1)[0] == 0
    append, calls = RowFile.append, []

    def killed(self, rows):
        calls.append(len(rows))
        if len(calls) > kept:
            raise ConfigError("killed")
        append(self, rows)

    monkeypatch.setattr(RowFile, "append", killed)
    assert cli("--overwrite")[0] == 2
    assert (cli.work / "out" / "lab-math.jsonl").exists() is bool(kept)
    monkeypatch.setattr(RowFile, "append", append)
    code, out, err = cli()
    assert (code, "avg@2" in out) == (0, True), err
    assert len(read(cli.work / "out" / "lab-math.jsonl")) == 8
    assert cli(samples=1)[0] == 2


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"tasks": "lab/maths"}, "did you mean 'lab/math'"),
        ({"tasks": None}, "--tasks is missing"),
        ({"model_name_or_path": None}, "--model_name_or_path is missing"),
        ({"model_name_or_path": "lab/studen"}, "did you mean 'lab/student'"),
        ({"model_name_or_path": "./nowhere"}, "there is no such folder"),
        ({"model_name_or_path": "nobody/nothing"}, "nobody/nothing"),
        ({"samples": 0}, "samples=0 must be at least 1"),
        ({"samples": "many"}, "samples"),
        ({"temperature": -1}, "temperature=-1.0"),
        ({"top_p": 0}, "top_p=0.0 must be above 0"),
        ({"limit": 0}, "limit=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"temperatur": 1}, "did you mean '--temperature'"),
        ({"dtype": "int3"}, "int3"),
        ({"chat_template_kwargs": "[1]"}, "must be a JSON dictionary"),
        ({"dataset_path": "x.jsonl"}, "takes no dataset_path"),
        ({"tasks": "gsm8k", "dataset_path": "x.jsonl"}, "there is no such file"),
        ({"tasks": "gsm8k", "dataset_path": ""}, "dataset_path '' is no file"),
        ({"tasks": "gsm8k", "dataset_path": "."}, "dataset_path '.' is no file"),
        ({"config": "nowhere.yaml"}, "there is no such file"),
        ({"output_dir": "/proc/nothing"}, "cannot be written to"),
        ({"output_dir": "n" * 300}, "cannot be written to"),
    ],
)
def test_mistakes_end_in_one_line(cli, flags, says):
    code, _, err = cli(**flags)
    assert code == 2
    assert err.startswith("escd: error: eval: ")
    assert says in err
    assert len(err.splitlines()) == 1
    assert list(cli.work.iterdir()) == []


def test_a_dataset_without_the_column(cli, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"problem": "2 + 3?", "answer": "#### 5"}\n')
    _, _, err = cli(tasks="gsm8k", dataset_path=path)
    assert "has no column 'question'; its columns are problem, answer" in err
    path.write_text("")
    assert "is empty" in cli(tasks="gsm8k", dataset_path=path)[2]
    assert list(cli.work.iterdir()) == []


def test_a_file_of_flags(cli, tmp_path):
    recipe = tmp_path / "eval.yaml"
    recipe.write_text("model_name_or_path: lab/student\ntasks: [lab/math]\nlimit: 4\nsamples: 1\ntemperature: 0\n")
    code, out, _ = cli("--config", str(recipe), model_name_or_path=None, tasks=None, limit=None, samples=None)
    assert code == 0
    assert "avg@1" in out
    recipe.write_text("task: lab/math\n")
    assert "unknown key 'task'; did you mean 'tasks'" in cli("--config", str(recipe))[2]


def test_two_at_once(cli):
    with command._own_folder(cli.work / "out"):
        code, _, err = cli()
        assert code == 2
        assert "another escd eval writes there" in err.splitlines()[-1]
    assert list(cli.work.iterdir()) == []


@pytest.mark.slow
def test_killed_in_the_middle(tmp_path):
    """`kill -9` of a real run; the second run finishes it to the same bytes."""
    argv = [sys.executable, "-m", "escd.cli", "eval", "--model_name_or_path", "lab/student", "--tasks", "lab/math",
            "--limit", "80", "--samples", "2", "--batch_size", "4", "--torch_threads", "1"]  # fmt: skip
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*argv, "--output_dir", str(whole)], check=True, capture_output=True, timeout=300)
    process = subprocess.Popen([*argv, "--output_dir", str(cut)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = cut / "lab-math.jsonl"
    until = time.monotonic() + 200
    while not (rows.is_file() and rows.read_bytes().count(b"\n") >= 40):
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = rows.read_bytes().count(b"\n")
    assert 24 <= done < 160
    with open(rows, "ab") as file:
        file.write(b'{"problem": 3, "sam')
    again = subprocess.run([*argv, "--output_dir", str(cut)], capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr[-2000:]
    assert f"{done}/160" in again.stderr
    for name in ("lab-math.jsonl", "lab-math.settings.json", "results.json"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
    assert sorted(os.listdir(cut)) == sorted(os.listdir(whole))


@pytest.mark.slow
def test_adapters(cli, tmp_path):
    from peft import LoraConfig, get_peft_model

    model = AutoModelForCausalLM.from_pretrained(lab.STUDENT_PATH)
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(tmp_path / "lora")
    assert cli(model_name_or_path=tmp_path / "lora")[0] == 0
