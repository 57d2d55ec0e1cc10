"""Table and page from canned results: right figures, whole, self-contained, escaped, legible without colour."""

import csv
import io
import json
import math

import numpy as np
import pytest

from escd.compare import figures
from escd.compare.page import headline, write_page
from escd.compare.processes import Failure
from escd.compare.recipe import read_plan
from escd.compare.results import gather
from escd.compare.runs import runs
from escd.compare.tables import markdown, write_tables
from html_page import Page

HOSTILE = "<script>alert('x')</script> & {{ 7*7 }} \x1b[31m"
ARMS = ("escd", "escd-none", "bpm", "bpm+child", "simct", "gold", "uld", "xtoken", "alm", "strict", "seqkd", "sft")


def fill(plan, shares, steps=40, problems=50):
    """Folders as finished runs leave them: `shares` is each arm's chance of a right answer."""
    for run in runs(plan):
        arm, rng = run.arm, np.random.default_rng([run.seed, *run.arm.encode()])
        for folder, chance, files in ((run.folder, shares[arm], ("before", "after")),
                                      (plan.folder / "base" / f"seed-{run.seed}", 0.3, ("before",))):  # fmt: skip
            for when in files:
                (folder / "evaluation" / when).mkdir(parents=True, exist_ok=True)
                luck = np.random.default_rng(run.seed).random((problems, 4))
                rows = [
                    {"problem": i, "sample": k, "prompt": f"{i}", "response": "", "answer": "", "tokens": 30,
                     "correct": bool(luck[i, k] < (0.3 if when == "before" else chance)), "finished": True}
                    for i in range(problems) for k in range(4)
                ]  # fmt: skip
                text = "".join(json.dumps(r) + "\n" for r in rows)
                (folder / "evaluation" / when / "lab.jsonl").write_text(text)
            evaluation = [{"task": "lab", "before": {"accuracy": 0.3}, "after": {"accuracy": chance}}]
            (folder / "run.json").write_text(json.dumps({"evaluation": evaluation}))
        if (run.arm, run.seed) != ("escd", 1):
            (run.folder / "report.html").write_text("a report")
        with (run.folder / "metrics.jsonl").open("w") as file:
            for step in range(1, steps + 1):
                cut = 0.6 * math.exp(-step / (8 + len(arm))) + 0.02 * rng.random()
                row = {"step": step, "completions/clipped_ratio": cut, "num_tokens": 900 * step, "rows/none": 0.1,
                       "completions/mean_length": 30 + 20 * cut + rng.random(), "step_time": 0.4}  # fmt: skip
                file.write(json.dumps(row) + "\n")
    with (plan.folder / "attempts.jsonl").open("w") as file:
        for run in runs(plan):
            row = {"arm": run.arm, "seed": run.seed, "code": 0, "seconds": 75.0, "peak_memory": 600 * 2**20}
            file.write(json.dumps(row) + "\n" + json.dumps({**row, "seconds": 5.0, "peak_memory": 1}) + "\n")


@pytest.fixture
def three(recipe):
    """Three arms, three seeds, one run of the last arm failed."""
    arms = {"escd": {}, "escd-none": {"completion": "none"}, "escd-single": {"completion": "single"}}
    plan = read_plan([recipe(arms=arms, seeds=3)])
    fill(plan, {"escd": 0.8, "escd-none": 0.5, "escd-single": 0.8})
    failed = runs(plan)[-1]
    (failed.folder / "run.json").unlink()
    failed.log.write_text("...")
    return gather(plan, [Failure(failed, HOSTILE)])


def test_rows_are_paired_and_judged(three):
    rows = {row.arm: row for row in three.rows}
    assert list(rows) == ["base student", "escd", "escd-none", "escd-single"]
    assert rows["escd"].difference is None
    assert rows["escd-none"].difference.verdict == "worse"
    # The same luck and the same chance: every pair is equal.
    assert (rows["escd-single"].difference.mean, rows["escd-single"].difference.verdict) == (
        0,
        "no certain difference",
    )
    assert [rows[a].accuracy.seeds for a in rows] == [3, 3, 3, 2]
    assert rows["escd"].accuracy.problems == 50
    truth = np.mean([np.random.default_rng(s).random((50, 4)) < 0.8 for s in (1, 2, 3)])
    assert rows["escd"].accuracy.mean == pytest.approx(truth)


def test_the_markdown_table(three):
    lines = markdown(three).splitlines()
    assert lines[0].startswith("| task | arm | accuracy | difference to escd, points |")
    assert all(line.count("|") == 8 for line in lines[:6])
    assert "| worse | 3 | 50 |" in lines[4]
    assert lines[-1].startswith("- failed: escd-single, seed 3: ")


def test_the_csv_files_can_be_read_back(three):
    write_tables(three)
    folder = three.plan.folder
    table = list(csv.DictReader(io.StringIO((folder / "table.csv").read_text())))
    assert [row["arm"] for row in table] == ["base student", "escd", "escd-none", "escd-single"]
    assert float(table[2]["difference_high"]) < 0
    assert table[1]["difference"] == ""
    rows = list(csv.DictReader(io.StringIO((folder / "comparison.csv").read_text())))
    assert set(rows[0]) == {"arm", "task", "seed", "metric", "value"}
    found = {(r["arm"], r["task"], r["seed"], r["metric"]): r["value"] for r in rows}
    assert len(found) == len(rows)
    assert found["escd", "", "1", "seconds"] == "80"
    assert found["escd", "", "1", "peak_memory"] == str(600 * 2**20)
    assert found["escd-single", "", "3", "failed"] == "1"
    assert ("escd-single", "lab", "3", "accuracy_after") not in found
    assert found["escd", "", "2", "tokens"] == "36000"
    values = [float(found["escd", "lab", str(s), "accuracy_after"]) for s in (1, 2, 3)]
    assert np.mean(values) == pytest.approx(float(table[1]["accuracy"]))


def test_the_page(three):
    html = write_page(three).read_text()
    page = Page(html)
    assert "On lab, escd-none (" in page.text
    assert "is worse than the reference" in page.text
    assert "escd-single (0.0 [0.0, 0.0]) shows no certain difference" in page.text
    assert "1 run failed" in page.text
    assert "<script>" not in html
    assert "{{ 7*7 }}" in page.text
    assert "▼ worse" in page.text
    assert "○ no certain difference" in page.text
    assert page.tags.count("svg") == 2 + len(figures.CURVES)
    assert "1 min 20 s" in page.text
    links = [value for name, value in page.attributes if name == "href" and not value.startswith(("#", "data:"))]
    assert "escd/seed-1/report.html" in links
    assert [link for link in links if "://" in link] == ["https://arxiv.org/abs/2609.34738"]
    assert not any(name == "src" for name, _ in page.attributes)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    # A finished run that lacked its report has one now.
    assert (three.plan.folder / "escd" / "seed-1" / "report.html").is_file()
    assert (three.plan.folder / "curves.png").read_bytes()[1:4] == b"PNG"


def test_the_same_results_give_the_same_bytes(three):
    first = write_page(three).read_bytes(), (three.plan.folder / "curves.png").read_bytes()
    assert (write_page(three).read_bytes(), (three.plan.folder / "curves.png").read_bytes()) == first


def test_headlines(recipe):
    plan = read_plan([recipe(arms={"a": {}}, reference="a")])
    fill(plan, {"a": 0.5})
    alone = gather(plan, [])
    assert headline(alone) == "There is nothing to compare a with."
    assert Page(write_page(alone).read_text()).tags.count("svg") == 1 + len(figures.CURVES)
    none = gather(plan, [Failure(run, "no") for run in runs(plan)])
    assert "no result" in "".join(t.get_text() for t in figures.accuracies(none, "lab").axes[0].texts)


def test_many_arms_stay_apart(recipe):
    plan = read_plan([recipe(arms={name: {} for name in ARMS}, seeds=2)])
    fill(plan, {name: 0.85 - 0.04 * i for i, name in enumerate(ARMS)})
    results = gather(plan, [])
    write_page(results)
    looks = [figures.style(i) for i in range(len(ARMS))]
    assert len({str(look) for look in looks}) == len(ARMS)
    assert len({(look["linestyle"], look["marker"]) for look in map(str_dashes, looks)}) == len(ARMS)
    with figures.on_page("x"):
        ax = figures.curve(results, figures.CURVES[0]).axes[0]
        heights = sorted(a.xy[1] for a in ax.texts if a.get_text() in ARMS)
    assert len(heights) == len(ARMS)
    assert min(np.diff(heights)) * ax.get_window_extent().height > 10


def str_dashes(look):
    return {**look, "linestyle": str(look["linestyle"])}


def test_a_curve_is_the_mean_over_seeds_of_common_steps(three):
    about = figures.CURVES[0]
    steps, values = figures.mean_curve(three.of("escd"), about)
    assert steps.tolist() == list(range(1, 41))
    each = np.array([r.log.series(about.metric).values for r in three.of("escd")])
    assert values[1] == pytest.approx(1 - each.mean(0))
    assert (values[0] <= values[1]).all()
    three.of("escd")[0].log.rows.pop()
    del three.of("escd")[0].log.__dict__["_columns"]
    assert figures.mean_curve(three.of("escd"), about)[0].tolist() == list(range(1, 40))
    assert figures.mean_curve([], about)[1].shape == (3, 0)
