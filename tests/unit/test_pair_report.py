"""`escd pair`: what it prints, its JSON, its verdicts, and one clear line for every mistake."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer

from conftest import TEACHER_TEXT, make_tokenizer
from escd.analysis.rewriting import rewriting
from escd.analysis.static import EXAMPLES
from escd.analysis.templates import template_facts
from escd.cli import main
from escd.pair_report.command import read_text
from escd.pair_report.loading import load_side
from escd.pair_report.report import measure
from escd.pair_report.text import WIDTH, columns, render
from escd.pair_report.verdict import judge

TEXT = "the cats sat on the mat.\n\nthe dogs ran to the parks.\n\n12 + 7 = 19, breads 12 café"


@pytest.fixture(scope="module")
def report(pair_dir):
    sides = [load_side(str(pair_dir / who), who) for who in ("teacher", "student")]
    return measure(*sides, TEXT, "text")


@pytest.fixture
def run(pair_dir, capsys, tmp_path, monkeypatch):
    """Runs `escd pair` in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*argv, teacher=pair_dir / "teacher", student=pair_dir / "student"):
        code = main(["pair", *(str(a) for a in (teacher, student) if a is not None), *map(str, argv)])
        return code, *capsys.readouterr()

    return call


def fails(run, *argv, says, **sides):
    code, out, err = run(*argv, **sides)
    assert (code, out) == (2, "")
    assert err.startswith("escd: error: pair: ")
    assert len(err.splitlines()) == 1
    for word in says:
        assert word in err


# ---------------------------------------------------------------- output


def test_the_report_fits_a_terminal_and_answers_first(run, pair_dir):
    code, out, _ = run()
    assert code == 0
    lines = out.splitlines()
    assert max(map(columns, lines)) <= WIDTH
    assert lines[0].split() == ["teacher", str(pair_dir / "teacher")]
    assert lines[4] in ("Works well.", "Works, but:")
    for section in ("VOCABULARIES", "CHAT TEMPLATES", "STOPS", "OVERLAP", "GROUPS", "ON THE TEXT", "WORST TOKENS"):
        assert any(line.startswith(section) for line in lines)


def test_names_of_any_length_and_kind_fit(report):
    long = replace(report, teacher=replace(report.teacher, name="/x" * 200), text="漢" * 80 + "\x1b[31m")
    lines = render(long).splitlines()
    assert max(map(columns, lines)) <= WIDTH
    assert "\x1b" not in "".join(lines)


def test_json_is_one_object_with_the_keys_that_it_promises(run):
    Path("t").write_text("the cats and the oranges, the parks, breads 12 é " * 3)
    code, out, _ = run("--json", "--text", "t")
    found = json.loads(out)
    assert code == 0
    assert tree(found) == SCHEMA
    assert found["schema"] == 1
    assert len(found["groups"]["largest"]) <= EXAMPLES


def test_json_is_ascii_and_the_text_does_not_crash_a_terminal_that_is(run, monkeypatch, pair_dir):
    assert run("--json")[1].isascii()
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", narrow)
    assert main(["pair", str(pair_dir / "teacher"), str(pair_dir / "student")]) == 0
    narrow.flush()
    assert b"\\u22a5" in narrow.buffer.getvalue()


def test_text_from_a_file_and_from_standard_input(run, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text(TEXT)
    out = run("--text", "a.txt", "--json")[1]
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    piped = run("--text=-", "--json")[1]
    a, b = json.loads(out), json.loads(piped)
    assert (a.pop("text"), b.pop("text")) == ("a.txt", "standard input")
    assert a == b
    assert a["sample"]["characters"] == len(TEXT)


def test_flags_with_dashes_before_the_names(run, pair_dir):
    argv = ["--chat-template-kwargs", '{"a": 1}', "--json", pair_dir / "teacher", pair_dir / "student"]
    assert run(*argv, teacher=None, student=None)[0] == 0


def test_a_tokenizer_in_a_single_file(run, pair_dir, tmp_path):
    shutil.copy(pair_dir / "teacher" / "tokenizer.json", tmp_path / "t.json")
    code, out, _ = run("--json", teacher="t.json")
    found = json.loads(out)
    # Without its template nothing tells that <|im_start|> is no content.
    assert (code, found["teacher"]["template"], found["teacher"]["head_rows"]) == (0, None, None)
    assert found["stops"]["teacher"]["text"] == "<|im_end|>"


def test_help(capsys):
    with pytest.raises(SystemExit) as done:
        main(["pair", "--help"])
    assert done.value.code == 0
    assert "--trust_remote_code" in capsys.readouterr().out


# ---------------------------------------------------------------- mistakes


def test_missing_names_and_unknown_flags(run):
    fails(run, teacher=None, student=None, says=["TEACHER, STUDENT"])
    fails(run, student=None, says=["STUDENT"])
    fails(run, "third", says=["unknown argument 'third'"])
    fails(run, "--jsn", says=["unknown flag '--jsn'", "'--json'"])
    fails(run, "--chat_template_kwargs", "5", says=["chat_template_kwargs='5'", "JSON dictionary"])


def test_models_that_are_not_there(run, tmp_path):
    fails(run, teacher="/nowhere/model", says=["teacher '/nowhere/model'", "no such folder"])
    fails(run, student="./nowhere", says=["student './nowhere'", "no such folder"])
    fails(run, student="nobody/nothing", says=["student", "nobody/nothing"])
    fails(run, teacher="lab/teachr", says=["lab/teachr", "lab/teacher"])
    (tmp_path / "empty").mkdir()
    fails(run, teacher="empty", says=["teacher 'empty' has no tokenizer"])
    (tmp_path / "file.txt").write_text("x")
    fails(run, student="file.txt", says=["student 'file.txt'", "ends in .json"])
    fails(run, student="nowhere.json", says=["student 'nowhere.json'", "no such file"])


def test_tokenizers_that_are_broken_or_of_another_kind(run, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tokenizer.json").write_text("{}")
    fails(run, student="broken", says=["student", "broken"])


def test_a_configuration_that_cannot_be_read(run, pair_dir, tmp_path):
    for name in ("config.json", "generation_config.json"):
        shutil.copytree(pair_dir / "teacher", tmp_path / name, ignore=shutil.ignore_patterns("*.safetensors"))
        (tmp_path / name / name).write_text("{broken")
        fails(run, teacher=name, says=["teacher", name])


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe\x00", "no UTF-8 text"), (b"a\0b", "NUL")],
)
def test_texts_that_are_none(run, tmp_path, data, says):
    (tmp_path / "t").write_bytes(data)
    fails(run, "--text", "t", says=["--text 't'", says])


def test_texts_that_cannot_be_read(run):
    fails(run, "--text", "nowhere.txt", says=["--text 'nowhere.txt'", "No such file"])
    fails(run, "--text", ".", says=["--text '.'"])


def test_the_built_in_sample_is_mixed():
    text, name = read_text(None)
    assert name == "the built-in sample"
    assert 3000 < len(text.encode()) < 8000
    for part in ("\\begin{align*}", "def ", '{"name"', "三角形", "Сумма", "🎉", "מ", "م", "한"[:0] or "각"):
        assert part in text


# ---------------------------------------------------------------- verdicts


def verdict_of(report, sample=None, teacher=None, student=None, **more):
    """The verdict on changed facts."""
    facts = {
        "teacher": replace(report.teacher, **(teacher or {})),
        "student": replace(report.student, **(student or {})),
        "identical": report.identical,
        "sample": replace(report.sample, **(sample or {})),
        **more,
    }
    return judge(**facts)


def weights(verdict):
    return {f.code: f.weight for f in verdict.findings}


@pytest.fixture
def plain(report):
    """A report with nothing to complain of."""
    sample = replace(
        report.sample,
        rows=dict.fromkeys(report.sample.rows, 0.0) | {"root": 1.0, "child": 0.5},
        overrun=0.0,
        bottom=0.0,
        child_mass=0.5,
        one_step=1.0,
        tokens=report.sample.tokens | {"one_step": 0.1, "deeper": 0.0},
    )
    return replace(report, sample=sample)


def test_nothing_to_complain_of(plain):
    verdict = verdict_of(plain)
    assert (verdict.level, verdict.headline, verdict.flags, verdict.findings) == ("good", "Works well.", [], [])


def rows(plain, **shares):
    return {"rows": plain.sample.rows | shares}


def test_thresholds(plain):
    for change, code, flags in (
        (rows(plain, interior=0.15), "long_teacher_tokens", ["--objective", "bpm"]),
        ({"overrun": 0.1}, "overrun", ["--objective", "bpm"]),
        ({"one_step": 0.79}, "deeper", ["--completion", "deep"]),
        ({"bottom": 0.001}, "bottom", []),
    ):
        verdict = verdict_of(plain, change)
        assert (verdict.level, weights(verdict), verdict.flags) == ("caveats", {code: "but"}, flags)
    for change in (
        rows(plain, interior=0.149),
        {"overrun": 0.099},
        {"one_step": 0.8},
        {"one_step": 0.1, "tokens": plain.sample.tokens | {"one_step": 0.01, "deeper": 0.009}},
        {"bottom": 0.0009},
    ):
        assert verdict_of(plain, change).level == "good"
    assert weights(verdict_of(plain, {"child_mass": 0.099})) == {"little_child_mass": "note"}


def test_what_makes_a_pair_fail(plain):
    no_stop = replace(plain.teacher.vocabulary, preferred_stop=None)
    lost = replace(plain.sample.unspelled["teacher"], characters=1, bytes=2, share=0.01, examples=["é"])
    for change, code in (
        ({"teacher": {"vocabulary": no_stop}}, "no_stop"),
        ({"student": {"head_rows": 3}}, "small_head"),
        ({"sample": {"unspelled": plain.sample.unspelled | {"teacher": lost}}}, "unspelled"),
        ({"sample": {"bottom": 0.1}}, "bottom"),
    ):
        verdict = verdict_of(plain, **change)
        assert (verdict.level, weights(verdict), verdict.flags) == ("fails", {code: "fatal"}, [])
    little = replace(lost, share=0.0099)
    assert verdict_of(plain, {"unspelled": plain.sample.unspelled | {"teacher": little}}).level == "caveats"


def test_templates_that_differ(plain):
    template = plain.student.template
    for who in ("teacher", "student"):
        assert weights(verdict_of(plain, **{who: {"template": None}})) == {"no_template": "but"}
        for change, code, weight in (
            ({"plain": "rejected"}, "user_rejected", "but"),
            ({"system": "ignored"}, "system_ignored", "note"),
            ({"tools": "rejected"}, "tool_rejected", "note"),
            ({"thought": "open"}, "thoughts_differ", "but"),
        ):
            assert weights(verdict_of(plain, **{who: {"template": replace(template, **change)}})) == {code: weight}


def test_what_the_teachers_tokenizer_does_to_text(plain):
    rewritten = replace(plain.teacher.rewriting, normalizers=["NFC"], lines=100)
    for changed, weight in ((0, "note"), (1, "but")):
        teacher = {"rewriting": replace(rewritten, changed_lines=changed)}
        assert weights(verdict_of(plain, teacher=teacher)) == {"normalised": weight}
        assert verdict_of(plain, student=teacher).findings == []
    both = {"rewriting": replace(plain.teacher.rewriting, prefix_space=True, cleans_spaces=True)}
    assert weights(verdict_of(plain, teacher=both)) == {"prefix_space": "note", "cleans_spaces": "note"}


def test_the_same_tokenizer_twice(run, pair_dir):
    found = json.loads(run("--json", student=pair_dir / "teacher")[1])
    assert found["identical"]
    assert found["verdict"]["level"] == "same"
    assert found["verdict"]["flags"] == ["--objective", "kl"]
    assert found["overlap"]["jaccard"] == 1
    assert found["groups"]["groups"] == 0
    assert found["sample"]["tokens"]["exact"] == 1


def test_a_teacher_that_cannot_spell_the_text_fails_with_exit_code_1(run, tmp_path):
    tokenizer = make_tokenizer(tmp_path / "ascii", TEACHER_TEXT, 300, ("<end>", "<pad>", "<s>"))
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    ascii_only = {t: i for t, i in spec["model"]["vocab"].items() if t.isascii() or t[0] in "ĠĊ"}
    ids = sorted(spec["model"]["vocab"].values())
    kept = {t["content"] for t in spec["added_tokens"]} | set(ascii_only)
    # What is left out keeps its id under a name that spells a run of letters that no text holds.
    spec["model"]["vocab"] = {(t if t in kept else f"qqqqqq{i}zz"): i for t, i in spec["model"]["vocab"].items()}
    assert sorted(spec["model"]["vocab"].values()) == ids
    (tmp_path / "ascii" / "tokenizer.json").write_text(json.dumps(spec))
    code, out, _ = run(teacher=tmp_path / "ascii")
    assert code == 1
    assert "Will not work:" in out
    assert "the teacher cannot spell" in out


# ---------------------------------------------------------------- templates, rewriting


def templated(pair_dir, template):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    tokenizer.chat_template = template
    return tokenizer


LOOP = "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>{% endfor %}"
ASK = "{% if add_generation_prompt %}<s>assistant\n"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (None, None),
        (LOOP, ("yes", "yes", "yes", "</s>", "no", "</s>")),
        (LOOP + ASK + "<think>\n{% endif %}", ("yes", "yes", "yes", "</s><s>assistant\n<think>\n", "open", "</s>")),
        (
            LOOP + ASK + "<think>\n\n</think>\n\n{% endif %}",
            ("yes", "yes", "yes", "</s><s>assistant\n<think>\n\n</think>\n\n", "closed", "</s>"),
        ),
        (
            "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + LOOP,
            ("yes", "rejected", "yes", "</s>", "no", "</s>"),
        ),
        (
            LOOP.replace("m in messages", "m in messages if m['role'] in ('user', 'assistant')"),
            ("yes", "ignored", "ignored", "</s>", "no", "</s>"),
        ),
        (LOOP.replace("m['content']", "m['content'][0]['text']"), ("yes", "yes", "yes", "</s>", "no", "</s>")),
        ("{{ nothing.at.all }}", ("rejected", "rejected", "rejected", "", "no", "")),
    ],
)  # fmt: skip
def test_what_a_template_does(pair_dir, template, expected):
    facts = template_facts(templated(pair_dir, template))
    names = ("plain", "system", "tools", "response_starts", "thought", "turn_ends")
    assert (facts and tuple(getattr(facts, n) for n in names)) == expected


def test_templates_get_their_keyword_arguments(pair_dir):
    thinking = LOOP + "{% if enable_thinking is false %}<think></think>{% else %}<think>{% endif %}"
    tokenizer = templated(pair_dir, thinking)
    assert template_facts(tokenizer).thought == "open"
    assert template_facts(tokenizer, {"enable_thinking": False}).thought == "closed"


def test_what_a_tokenizer_does_to_text(pair_dir):
    text = "cafe\u0301\n\nplain\n" + "Å"
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")

    def found(**parts):
        for name, part in parts.items():
            setattr(tokenizer.backend_tokenizer, name, part)
        facts = rewriting(tokenizer, text)
        return facts.normalizers, facts.changed_lines, facts.lines, facts.prefix_space

    assert found() == ([], 0, 3, False)
    assert found(normalizer=normalizers.NFC()) == (["NFC"], 1, 3, False)
    chain = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    assert found(normalizer=chain) == (["NFC", "Lowercase"], 2, 3, False)
    assert found(normalizer=normalizers.Sequence([])) == ([], 0, 3, False)
    spaces = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    assert found(normalizer=spaces) == ([], 0, 3, True)
    assert found(normalizer=normalizers.Replace("a", "b"))[:2] == (["Replace"], 2)
    assert found(normalizer=None, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True)) == ([], 0, 3, True)
    assert found(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="never"))[3] is False
    assert rewriting(object(), text) is None


# ---------------------------------------------------------------- the shape of the JSON


def tree(value):
    """Keys of a JSON value; of a list those of its items, if it has some."""
    if isinstance(value, dict):
        return {key: tree(item) for key, item in value.items()}
    if isinstance(value, list):
        return [tree(value[0])] if value and isinstance(value[0], (dict, list)) else []
    return None


TOKEN = dict.fromkeys(("id", "text", "hex"))
GROUP = {"index": None, "representative": TOKEN, "size": None, "examples": [TOKEN]}
MODEL = {
    "name": None, "head_rows": None,
    "vocabulary": {
        "scheme": None, "size": None, "content": None, "silent": None, "missing_bytes": [], "missing_in_text": [],
        "longest": TOKEN, "mean_bytes": None, "stops": [TOKEN], "preferred_stop": None, "thoughts": [],
    },
    "template": dict.fromkeys(("plain", "system", "tools", "response_starts", "thought", "turn_ends")),
    "rewriting": {
        "normalizers": [], "prefix_space": None, "cleans_spaces": None, "lines": None, "changed_lines": None,
    },
    "stop_warning": None,
}  # fmt: skip
UNSPELLED = {"characters": None, "bytes": None, "share": None, "examples": []}
SCHEMA = {
    "schema": None, "escd": None, "teacher": MODEL, "student": MODEL, "identical": None,
    "overlap": dict.fromkeys(("shared", "teacher_coverage", "student_coverage", "jaccard")),
    "projection": {
        **dict.fromkeys(("content", "exact", "shortened", "bottom", "coverage", "reached", "reached_share")),
        "bottom_examples": [],
    },
    "groups": {
        **dict.fromkeys((
            "candidates", "groups", "mean_size", "max_size", "singletons", "branchable", "completable", "entries",
            "completable_entries", "overshooting_entries",
        )),
        "largest": [GROUP], "stuck": [GROUP],
    },
    "stops": {
        "student": TOKEN, "teacher": TOKEN, "joined": None, "same_spelling": None, "shared_specials": [],
    },
    "text": None,
    "sample": {
        **dict.fromkeys((
            "bytes", "characters", "pieces", "student_tokens", "teacher_tokens", "student_bytes_per_token",
            "teacher_bytes_per_token", "student_per_teacher", "idle", "overrun", "candidates", "one_step",
            "child_mass", "bottom",
        )),
        "unspelled": {"student": UNSPELLED, "teacher": UNSPELLED},
        "rows": dict.fromkeys(("root", "child", "blank", "interior", "no_teacher_row", "diverged")),
        "tokens": dict.fromkeys(("exact", "one_step", "deeper", "passed", "inside")),
        "spans": dict.fromkeys(("1", "2", "3", "4+")),
        "costly": [{"token": TOKEN, "count": None, "student_tokens": None}],
        "stuck": [{"group": GROUP, "count": None}],
        "bottom_tokens": [],
    },
    "verdict": {
        "level": None, "headline": None, "flags": [],
        "findings": [dict.fromkeys(("code", "weight", "text", "advice"))],
    },
}  # fmt: skip
