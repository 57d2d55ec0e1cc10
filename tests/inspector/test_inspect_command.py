"""`escd inspect`: pages of given text and of sampled responses, and mistakes."""

import io
import json
import re
import sys

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import escd
from escd.chat import Bridge, render_prompt
from escd.cli import main
from html_page import Page

TEXT = "the cat sat on the mat.\n\nbread breaks 12 + 7 = 19"


@pytest.fixture
def run(pair_dir, tmp_path, capsys, monkeypatch):
    """Runs `escd inspect` in an empty folder; returns exit code, output and errors."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def call(*extra, **flags):
        options = {"model_name_or_path": pair_dir / "student", "teacher_model_name_or_path": pair_dir / "teacher"}
        argv = [w for k, v in {**options, **flags}.items() if v is not None for w in (f"--{k}", str(v))]
        code = main(["inspect", *argv, *map(str, extra)])
        out, err = capsys.readouterr()
        return code, out, err

    call.work = work
    return call


def data(path):
    """What a page shows: tables of tokens, records, and the events of each."""
    html = path.read_text(encoding="utf-8")
    Page(html)
    found = dict(re.findall(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', html))
    found = {k: json.loads(v) for k, v in found.items()}
    records = []
    while (record := found.get(f"record-{len(records)}")) is not None:
        blocks = (v for k, v in found.items() if k.startswith(f"events-{len(records)}-"))
        records.append((record, list(blocks)))
    return found["shared"], records


def fails(run, *extra, says, **flags):
    code, out, err = run(*extra, **flags)
    assert code == 2
    assert (out, err.count("\n")) == ("", 1)
    for word in [says] if isinstance(says, str) else says:
        assert word in err
    assert list(run.work.iterdir()) == []


def spelled(shared, who, ids):
    return b"".join(bytes.fromhex(x) for i in ids if isinstance(x := shared[who][str(i)], str))


def test_text_alone(run, pair_dir, tmp_path):
    path = tmp_path / "answer.txt"
    path.write_bytes(TEXT.encode() + b" \xff")
    code, out, err = run("--text", path)
    assert (code, err) == (0, "")
    assert re.search(r"rows +\d+: .*root", out)
    assert "the text has no prompt" in out
    shared, [(record, blocks)] = data(run.work / "inspect.html")
    student = AutoTokenizer.from_pretrained(pair_dir / "student")
    assert record["student"][: len(student(TEXT)["input_ids"])] == student(TEXT)["input_ids"]
    assert record["student"][-1] == student.eos_token_id
    for who in ("student", "teacher"):
        assert spelled(shared, who, record[who]) == path.read_bytes()
    assert record["ended"]
    assert record["root"] is record["child"] is record["prompt"] is None
    assert len(record["kind"]) == len(record["student"])
    assert "child" in record["kind"]
    assert shared["titles"] == ["answer.txt"]
    assert [i for b in blocks for i in map(int, b["entries"])] == [
        i for i, kind in enumerate(record["kind"]) if kind in ("root", "both")
    ]


def test_standard_input_and_several_responses(run, tmp_path, monkeypatch):
    rows = [{"response": "the cat", "finished": False}, {"completion": [{"role": "assistant", "content": "a dog"}]}]
    rows += [{"response": "half \ud83d pair"}, {"response": ""}, {"response": "not shown"}]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xc3 standard")))
    code, out, _ = run("--text", "-", path, "--num_responses", 5, output_file="pages.html")
    assert code == 0
    assert "pages.html" in out
    shared, records = data(run.work / "pages.html")
    assert shared["titles"] == ["standard input", *(f"answers.jsonl:{n}" for n in (1, 3, 5, 7))]
    texts = [b"\xc3 standard", b"the cat", b"a dog", b"half \xed\xa0\xbd pair", b""]
    for (record, _), text in zip(records, texts, strict=True):
        assert spelled(shared, "student", record["student"]) == spelled(shared, "teacher", record["teacher"]) == text
    assert [record["ended"] for record, _ in records] == [True, False, True, True, True]


def test_given_responses_with_models(run, pair_dir, tmp_path):
    """Losses on the page are those of the library's dense reference on plain forward passes."""
    prompt = [{"role": "user", "content": "the cat?"}]
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"prompt": prompt, "response": TEXT}) + "\n" + json.dumps({"response": "no prompt"}))
    assert run("--text", path, completion="deep", child_weight=0.5)[0] == 0
    shared, [(record, _), (static, _)] = data(run.work / "inspect.html")
    assert static["root"] is None
    assert record["prompt"] == [["user", "the cat?"]]
    assert shared["childWeight"] == 0.5
    tables, vocabs = [], []
    for who in ("student", "teacher"):
        model = AutoModelForCausalLM.from_pretrained(pair_dir / who)
        tokenizer = AutoTokenizer.from_pretrained(pair_dir / who)
        before, ids = render_prompt(tokenizer, prompt), record[who]
        with torch.no_grad():
            logits = model(torch.tensor([[*before, *ids]])).logits[0]
        tables.append(logits[len(before) - 1 : len(before) - 1 + len(ids)].double())
        vocabs.append(escd.ByteVocab.from_tokenizer(tokenizer, model.generation_config))
    assert Bridge(*vocabs).to_teacher(record["student"]).ids == record["teacher"]
    pair = escd.TokenizerPair(student=vocabs[0], teacher=vocabs[1])
    losses = escd.objective("escd", pair, completion="deep").row_losses(*tables, record["student"], record["teacher"])
    assert record["root"] == pytest.approx(losses.root.tolist(), rel=1e-4, abs=1e-5)
    assert record["child"] == pytest.approx(losses.child.tolist(), rel=1e-4, abs=1e-5)
    assert run("--no_models", "--text", path)[0] == 0
    assert data(run.work / "inspect.html")[1][0][0]["root"] is None


def test_sampled_responses(run, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"the cat {i}"}) + "\n" for i in range(3)))
    for name in ("a.html", "b.html"):
        assert run(dataset_name=prompts, num_responses=2, max_new_tokens=12, output_file=name)[0] == 0
    shared, records = data(run.work / "a.html")
    assert (run.work / "a.html").read_bytes() == (run.work / "b.html").read_bytes()
    assert [r["prompt"] for r, _ in records] == [[["prompt", "the cat 0"]], [["prompt", "the cat 1"]]]
    for record, _ in records:
        assert 0 < len(record["student"]) <= 12
        assert spelled(shared, "student", record["student"]) == spelled(shared, "teacher", record["teacher"])
        assert sum(record["root"]) > 0
    assert run(dataset_name=prompts, num_responses=1, max_new_tokens=4000)[0] == 0  # ends at the context


def test_sampled_ids_are_not_encoded_again(run, tmp_path, pair_dir):
    """A random student writes tokens in ways that its tokenizer never would."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": "the cat"}) + "\n")
    assert run(dataset_name=prompts, max_new_tokens=100, temperature=2)[0] == 0
    shared, [(record, _)] = data(run.work / "inspect.html")
    vocab = escd.ByteVocab.from_tokenizer(AutoTokenizer.from_pretrained(pair_dir / "student"))
    assert record["student"][: len(record["student"]) - 2] != vocab.encode(vocab.decode(record["student"]))[0][:-2]
    assert spelled(shared, "student", record["student"]) == vocab.decode(record["student"])


def test_mistakes(run, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("a")
    fails(run, says="either --text")
    fails(run, "--text", text, dataset_name="lab/math", says="either --text")
    fails(run, "--no_models", dataset_name="lab/math", says="--no_models leaves no model")
    fails(run, "--text", text, model_name_or_path=None, says=["--model_name_or_path is missing", "student"])
    fails(run, "--text", text, teacher_model_name_or_path=None, says=["--teacher_model_name_or_path", "lab/teacher"])
    fails(run, "--text", text, model_name_or_path="lab/pupil", says="lab/pupil")
    fails(run, "--text", text, teacher_model_name_or_path=tmp_path, says=["teacher", "no tokenizer"])
    fails(run, "--text", tmp_path / "none.txt", says=["none.txt", "No such file"])
    fails(run, "--text", text, output_file="nowhere/page.html", says=["nowhere/page.html", "cannot be written"])
    fails(run, "--text", text, output_file=tmp_path, says=["is a folder", "inspect.html"])
    fails(run, "--text", text, num_responses=0, says="num_responses=0 must be at least 1")
    fails(run, "--text", text, temperature=-1, says="temperature=-1")
    fails(run, "--text", text, completion="whole", says="whole")
    fails(run, "--text", text, chat_template_kwargs="[1]", says=["chat_template_kwargs", "JSON dictionary"])
    fails(run, "--tex", text, says=["--tex", "did you mean '--text'"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ('{"response": "a"}\nnonsense\n', ["line 2", "not JSON"]),
        ('{"answer": "a", "x": 1}\n', ["line 1", "no text under 'response'", "answer, x"]),
        ('["a"]\n', ["line 1", "no JSON object"]),
        ('{"response": 3}\n', ["line 1", "no text"]),
        ('{"response": "a", "prompt": 3}\n', ["line 1", "a prompt is text or messages"]),
    ],
)
def test_files_that_hold_no_responses(run, tmp_path, content, says):
    path = tmp_path / "answers.jsonl"
    path.write_text(content)
    fails(run, "--text", path, says=says)


def test_a_response_that_is_too_long_for_the_models(run, tmp_path):
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"prompt": "the cat", "response": "cat dog " * 300}))
    fails(run, "--text", path, says=["answers.jsonl:1", "context of 256", "--no_models"])
