"""The run report: whole, self-contained, escaped, and never broken by what a run folder lacks."""

import json
import math
import os
import re
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.lines import Line2D

from escd.errors import ConfigError
from escd.metrics_file import read_metrics
from escd.report import page, write_report
from escd.report.figures import bins, end_labels
from escd.report.reading import read_run, text
from escd.report.samples import cases, choose, outcomes
from escd.report.svg import canvas, drawing
from html_page import Page

HOSTILE = "</div><script>alert('x')</script><img src=https://evil.example/x.png onerror=alert(1)> & \"q\" {{ 7*7 }}"
ROW = {
    "loss": 0.5, "grad_norm": 0.7, "learning_rate": 5e-4, "num_tokens": 1069, "completions/mean_length": 21.75,
    "completions/min_length": 6, "completions/max_length": 24, "completions/clipped_ratio": 0.25, "entropy": 1.5,
    "step_time": 0.18, "root": 0.4, "child": 0.1, "rows/root": 0.9, "rows/child": 0.2, "rows/none": 0.05,
    "rows/none/interior": 0.03, "rows/none/blank": 0.01, "rows/none/no_teacher_row": 0.01, "rows/none/diverged": 0,
    "mass": 0.3, "completion_probability": 0.5, "bytes_differ": 0, "time/rollout": 0.07, "time/align": 0.01,
    "time/teacher": 0.02, "time/student": 0.02, "time/loss": 0.02, "epoch": 0.1,
}  # fmt: skip
INFO = {
    "student": "runs/student", "teacher": "some/teacher", "objective": "escd",
    "options": {"child_weight": 1.0, "completion": "set"}, "version": "0.1.0",
    "overlap": {"shared": 400, "teacher_vocabulary": 1000, "student_vocabulary": 800},
    "settings": {"learning_rate": 5e-4, "note": HOSTILE, "hub_token": "hf_0123456789abcdefghij", "bf16": None},
    "evaluation": [{
        "task": "lab/math", "description": "held-out sums", "problems": 12, "samples": 2, "temperature": 1.0,
        "before": {"accuracy": 0.31, "low": 0.27, "high": 0.35},
        "after": {"accuracy": 0.52, "low": 0.48, "high": 0.56},
    }],
}  # fmt: skip
EVALUATION = INFO["evaluation"][0]
SECTIONS = ("verdict", "evaluation", "checks", "curves", "samples", "metrics", "settings")
CHARTS = ("loss", "supervision", "unsupervised", "completion", "entropy", "length", "optimisation", "time")


def log(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def answer(problem, sample, right, response="1 + 1 = 2\n\n\tAnswer: 2", **more):
    return {"problem": problem, "sample": sample, "prompt": f"How much? ({problem})", "response": response,
            "answer": "14", "correct": right, "reason": "right" if right else "wrong answer: 2, not 14", "tokens": 41,
            "finished": True, **more}  # fmt: skip


def folder(path, metrics=None, info=None, before=None, after=None, task="lab-math"):
    path.mkdir(exist_ok=True)
    if metrics is not None:
        (path / "metrics.jsonl").write_text(metrics)
    if info is not None:
        (path / "run.json").write_text(info if isinstance(info, str) else json.dumps(info))
    for when, rows in (("before", before), ("after", after)):
        if rows is not None:
            (path / "evaluation" / when).mkdir(parents=True, exist_ok=True)
            (path / "evaluation" / when / f"{task}.jsonl").write_text(log(*rows))
    return path


def render(path):
    html = write_report(path).read_text(encoding="utf-8")
    return html, Page(html)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    rows = []
    for step in range(1, 51):
        fall = math.exp(-step / 20)
        rows.append({"step": step, **ROW, "loss": 0.5 * fall + 0.1 + 0.01 * (step % 3), "root": 0.4 * fall})
    rows[20] |= {"loss": float("nan"), "grad_norm": None, "entropy": float("inf")}
    rows += [{"step": 50, "eval_loss": 0.2}, {"step": 50, "train_runtime": 75.0, "train_loss": 0.3}]
    before = [answer(p, s, p % 3 == 0) for p in range(12) for s in range(2)]
    after = [answer(p, s, p % 3 != 1) for p in range(12) for s in range(2)]
    after[2]["response"] = HOSTILE
    after[4] |= {"response": "", "finished": False, "correct": False}
    path = tmp_path_factory.mktemp("runs") / "run <1>"
    html, parsed = render(folder(path, log(*rows) + '{"step": 51, "lo', INFO, before, after))
    return html, parsed, path


def test_the_first_screen_says_what_came_of_the_run(full):
    words = full[1].text
    assert "Accuracy rose from 31.0% [27.0, 35.0] to 52.0% [48.0, 56.0]: the 95% intervals do not overlap." in words
    assert "4 better, 0 worse, 8 the same" in words
    for fact in ("runs/student", "some/teacher", "child_weight = 1.0", "1 min 15 s", "40.0% of the teacher's 1,000"):
        assert fact in words
    assert "lab/math (held-out sums), 12 problems, 2 samples each, temperature 1" in words


def test_every_section_and_figure_is_there(full):
    html, parsed, _ = full
    assert parsed.tags.count("svg") == 1 + len(CHARTS)
    assert {*SECTIONS, *CHARTS} <= set(parsed.ids)
    assert (
        parsed.text.count("What it is") == parsed.text.count("Healthy") == parsed.text.count("If not") == len(CHARTS)
    )
    assert html.startswith("<!doctype html>")
    assert html.rstrip().endswith("</html>")


def test_ids_are_unique_and_links_inside_the_page_lead_somewhere(full):
    _, parsed, _ = full
    assert len(set(parsed.ids)) == len(parsed.ids)
    inner = {v[1:] for k, v in parsed.attributes if k in ("href", "xlink:href") and v.startswith("#")}
    named = {v for k, v in parsed.attributes if k == "aria-labelledby"}
    clipped = {name for k, v in parsed.attributes for name in re.findall(r"url\(#([^)]+)\)", v or "")}
    assert inner | named | clipped <= set(parsed.ids)


def test_the_page_is_self_contained(full):
    html, parsed, _ = full
    assert "script" not in parsed.tags
    assert parsed.tags.count("style") == 1
    outer = [(k, v) for k, v in parsed.attributes if v and "//" in v and k != "aria-label"]
    assert outer == [("href", "https://arxiv.org/abs/2609.34738")]
    assert not re.search(r"url\(\s*['\"]?(?!#)", html)
    assert "@import" not in html
    assert not [k for k, _ in parsed.attributes if k.startswith("on")]


def test_hostile_text_is_text(full):
    html, parsed, _ = full
    assert "img" not in parsed.tags
    assert HOSTILE in "".join(parsed.words)
    assert "<script" not in html
    assert "{{ 7*7 }}" in html


def test_secrets_are_withheld(full):
    assert "hf_0123456789" not in full[0]
    assert "(withheld)" in full[1].text


def test_figures_speak_and_take_their_colours_from_the_page(full):
    html, parsed, _ = full
    labels = [v for k, v in parsed.attributes if k == "aria-label"]
    assert any(label.startswith("Loss, over steps 1 to 50. loss 0.") for label in labels)
    assert any("before 31.0%, 95% interval 27.0% to 35.0%" in label for label in labels)
    assert "prefers-color-scheme: dark" in html
    svgs = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert "var(--s1)" in svgs
    assert not re.search(r"#[0-9a-f]{6}\b", svgs.replace("url(#", "").replace('href="#', ""))


def test_answers_keep_their_whitespace_and_say_right_or_wrong_in_words(full):
    html, parsed, _ = full
    assert '">1 + 1 = 2\n\n\tAnswer: 2</div>' in html
    assert "white-space: pre-wrap" in html
    for mark in ("✓ right", "✗ wrong", "(empty response)", "cut by the length limit", "Reference answer: 14"):
        assert mark in parsed.text


def test_values_that_are_no_numbers_are_counted_and_left_out(full):
    words = full[1].text
    assert "loss is NaN or null in 1 log; grad_norm is NaN or null in 1 log" in words
    assert "nan" not in re.sub(r"NaN", "", "".join(re.findall(r"<svg.*?</svg>", full[0], re.DOTALL)))


def test_nothing_but_the_report_is_left_behind(full):
    assert sorted(os.listdir(full[2])) == ["evaluation", "metrics.jsonl", "report.html", "run.json"]


def test_writing_again_gives_the_same_bytes(tmp_path):
    path = folder(tmp_path / "run", log({"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}), INFO)
    first = write_report(str(path)).read_bytes()
    assert write_report(path).read_bytes() == first


def test_a_report_that_fails_leaves_the_old_one(tmp_path, monkeypatch):
    old = tmp_path / "report.html"
    old.write_text("old")
    monkeypatch.setattr(page.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert old.read_text() == "old"


def test_an_empty_folder(tmp_path):
    html, parsed = render(tmp_path)
    assert "Nothing has been logged yet." in parsed.text
    assert parsed.text.count("Nothing to draw.") == len(CHARTS)
    assert "metrics.jsonl is not in the folder" in parsed.text
    assert "run.json is not in the folder" in parsed.text
    assert "No sample answers." in parsed.text
    assert "No settings." in parsed.text
    assert "nan" not in html.lower().replace("nans", "").replace("rising or nan", "")


def test_no_folder(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder"):
        write_report(tmp_path / "nowhere")


def test_one_step_with_nulls(tmp_path):
    row = ROW | {"grad_norm": None, "completion_probability": float("nan"), "rows/none/blank": 0,
                 "rows/none/interior": 0, "rows/none/no_teacher_row": 0}  # fmt: skip
    _, parsed = render(folder(tmp_path / "run", log({"step": 7, **row}), INFO | {"evaluation": None}))
    words = parsed.text
    assert "Loss 0.5 nats per response token; one log so far." in words
    assert "No evaluation was run" in words
    assert "No values in the log: grad_norm." in words
    assert "No values in the log: completion_probability." in words
    assert "0 at every step" in words
    assert "without a closing row" in words


def test_only_before_was_evaluated(tmp_path):
    info = INFO | {"evaluation": [EVALUATION | {"after": None}]}
    _, parsed = render(folder(tmp_path / "run", None, info, before=[answer(0, 0, True)]))
    assert "Accuracy before training is 31.0% [27.0, 35.0]." in parsed.text
    assert "The trained student was not evaluated" in parsed.text
    assert "After: no response" in parsed.text


UNSURE = (0.31, 0.27, 0.35)
RISE, FALL = "rose from 31.0% [27.0, 35.0] to", "fell from 31.0% [27.0, 35.0] to"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (UNSURE, (0.33, 0.29, 0.37), f"{RISE} 33.0% [29.0, 37.0]: the 95% intervals overlap."),
        (UNSURE, (0.11, 0.08, 0.14), f"{FALL} 11.0% [8.0, 14.0]: the 95% intervals do not overlap."),
        (UNSURE, (0.31, 0.28, 0.34), "stayed at 31.0% [28.0, 34.0], before training 31.0% [27.0, 35.0]"),
        ((0.31, None, None), (0.52, 0.48, 0.56), "rose from 31.0% to 52.0% [48.0, 56.0]: without intervals"),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), "stayed at 0% [0.0, 0.0]"),
    ],
)
def test_verdicts(tmp_path, before, after, words):
    names = ("accuracy", "low", "high")
    scores = {"before": dict(zip(names, before, strict=True)), "after": dict(zip(names, after, strict=True))}
    _, parsed = render(folder(tmp_path / "run", None, {"evaluation": [{"task": "t", **scores}]}))
    assert words in parsed.text


def test_several_tasks(tmp_path):
    fallen = EVALUATION | {"task": "lab/code", "before": EVALUATION["after"], "after": EVALUATION["before"]}
    unsure = EVALUATION | {"task": "lab/science", "after": EVALUATION["before"]}
    info = INFO | {"evaluation": [EVALUATION, fallen, unsure]}
    path = folder(tmp_path / "run", None, info, [answer(0, 0, False)], [answer(0, 0, True)])
    folder(path, before=[answer(7, 0, True)], after=[answer(7, 0, False)], task="lab-code")
    html, parsed = render(path)
    words = parsed.text
    assert "Accuracy rose on 1 and fell on 1 of 3 tasks; on 1 the 95% intervals overlap or are not known." in words
    assert "lab/code: accuracy fell from 52.0% [48.0, 56.0] to 31.0% [27.0, 35.0]" in words
    assert "lab/math: 1 better, 0 worse, 0 the same;" in words
    assert {"lab/math, problem 0", "lab/code, problem 7"} <= {w.strip() for w in parsed.words}
    assert "wrong answer: 2, not 14" in words
    assert html.count('aria-label="Accuracy on lab/') == 3
    assert len(set(parsed.ids)) == len(parsed.ids)


def test_answers_without_a_run_file_are_shown(tmp_path):
    _, parsed = render(folder(tmp_path / "run", None, None, before=[answer(3, 0, True)], task="gsm8k"))
    assert "Problem 3" in parsed.text
    assert "No evaluation was run" in parsed.text


@pytest.mark.parametrize(
    "info",
    [
        "{broken",
        "[]",
        "null",
        '{"evaluation": 3, "overlap": [], "settings": "x"}',
        "\xff",
        '{"evaluation": [3, {}, null, {"task": null}, {"task": {"a": 1}, "before": 3}]}',
    ],
)
def test_a_run_file_that_is_not_what_it_should_be(tmp_path, info):
    path = folder(tmp_path / "run", '{"step": 1, "loss": "high"}\n{"step": null}\n3\n')
    (path / "run.json").write_bytes(info.encode("latin-1"))
    _, parsed = render(path)
    assert "No loss has been logged yet." in parsed.text


def test_signs_of_trouble(tmp_path):
    rows = [
        {"step": s, "completions/mean_length": 900 / s**2, "rows/none": 0.9, "bytes_differ": 0.5, "entropy": 0.001,
         "loss": 1 + s / 10, "completions/clipped_ratio": 0.8}
        for s in range(1, 31)
    ]  # fmt: skip
    run = read_run(folder(tmp_path / "run", log(*rows)))
    states = {check.question.split(" (")[0]: check.state for check in page.checking.checks(run, [])}
    assert states.pop("Loss and gradient are numbers") == "fine"
    assert states.pop("Evaluated answers are whole") == "not known"
    assert set(states.values()) == {"look"}


def test_samples_of_every_kind_are_shown(tmp_path):
    before = [answer(p, s, p >= 40) for p in range(50) for s in (1, 0)]
    after = [answer(p, s, p < 10 or p >= 45) for p in range(50) for s in (1, 0)] + [answer("new", 0, None)]
    every = cases(read_run(folder(tmp_path / "run", None, None, before, after)).tasks[0])
    compared = outcomes(every)
    assert (compared.better, compared.worse, compared.same) == (10, 5, 35)
    assert compared.difference == pytest.approx(0.1)
    low, high = compared.interval
    assert low < 0.1 < high
    turn = ["better", "worse", "same"]
    assert [case.kind for case in choose(every)] == [*turn, "one", *turn, *turn, *turn[:2]]


def test_a_long_answer_is_shortened_in_the_middle(tmp_path):
    long = [answer(0, 0, True, "a" * 50_000 + "END")]
    (case,) = cases(read_run(folder(tmp_path / "run", None, None, long)).tasks[0])
    assert len(case.before[0].text) < 21_000
    assert "30,003 characters left out" in case.before[0].text
    assert case.before[0].text.endswith("END")


def test_text_that_no_page_can_hold():
    assert text("a\x00\r\n\t\ud800é") == "a␀␍\n\t\ufffdé"


def test_metrics_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_metrics(path) == []
    path.write_bytes('{"a": 1}\n\n[2]\n{"a": "x\u2028y\x85"}\n{"a": "é'.encode()[:-1])
    assert read_metrics(path) == [{"a": 1}, {"a": "x\u2028y\x85"}]


def test_long_runs_are_averaged_in_bins():
    steps, values = bins(np.arange(1, 10), np.array([[1.0, 3, np.nan, 5, np.nan, np.nan, 2, 2, 2]]), 5)
    assert steps.tolist() == [1.5, 3.5, 5.5, 7.5, 9]
    np.testing.assert_array_equal(values, [[2, 5, np.nan, 2, 2]])


def test_labels_do_not_collide():
    with drawing("test"):
        _, (ax,) = canvas([140])
        ax.set_ylim(0, 1)
        end_labels(ax, [(y, f"{y}", "#000000", Line2D([], [])) for y in (1.0, 0.99, 0.98, 0.5, 0.0, 0.01)])
    places = sorted(label.xy[1] for label in ax.texts)
    assert places[-1] <= 1
    assert min(b - a for a, b in pairwise(places)) > 0.0999
