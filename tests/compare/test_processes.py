"""Runs as processes: order, retries, resuming and stopping, with a stand-in for `escd distill`."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from escd.cli import main
from escd.compare import processes
from escd.compare.recipe import TAKEN
from escd.metrics_file import read_metrics

pytestmark = pytest.mark.usefixtures("fake")


def calls(work):
    """What was started, in order: name, new or resumed, whether the base student's answers were taken over."""
    return [line.split() for line in (work / "out" / "calls.txt").read_text().splitlines()]


def trouble(work, **of):
    (work / "out" / "trouble.json").write_text(json.dumps({k.replace("_", "/", 1): v for k, v in of.items()}))


def compare(recipe, *argv, **changes):
    return main(["compare", recipe(**changes), *argv])


def begin(recipe, work):
    """An output folder in which nothing has been run yet."""
    (work / "out").mkdir()
    (work / "out" / "comparison.json").write_text('{"shared": {}, "arms": {}}')


def table(work):
    with (work / "out" / "table.csv").open() as file:
        return {row["arm"]: row for row in csv.DictReader(file)}


def test_everything_is_run_once_and_the_base_student_once_per_seed(recipe, capsys):
    assert compare(recipe) == 0
    done = calls(recipe.work)
    assert sorted(name for name, *_ in done) == ["escd-none/seed-1", "escd-none/seed-2", "escd/seed-1", "escd/seed-2"]
    # The reference goes first and evaluates the base student; the other arm takes its answers over.
    assert {tuple(rest) for name, *rest in done if name.startswith("escd/")} == {("new",)}
    assert {tuple(rest) for name, *rest in done if name.startswith("escd-none")} == {("new", "taken")}
    assert (recipe.work / "out" / "base" / "seed-2" / "evaluation" / "before" / "lab.jsonl").is_file()
    rows = table(recipe.work)
    assert [float(rows[arm]["accuracy"]) for arm in ("base student", "escd", "escd-none")] == [0.25, 0.75, 0.5]
    assert float(rows["escd-none"]["difference"]) == -0.25
    assert rows["escd-none"]["paired_seeds"] == "2"
    out = capsys.readouterr().out
    assert "| lab | escd-none | 50.0%" in out
    assert "escd-none/seed-2: finished" in out
    for file in ("comparison.html", "comparison.md", "comparison.csv", "curves.png"):
        assert (recipe.work / "out" / file).stat().st_size > 0
    own = {path.name for path in (recipe.work / "out").iterdir()} - {"escd", "escd-none", ".lock", "calls.txt"}
    assert own == TAKEN
    attempts = read_metrics(recipe.work / "out" / "attempts.jsonl")
    assert len(attempts) == 4
    assert all(row["code"] == 0 and row["seconds"] > 0 and row["peak_memory"] > 2**20 for row in attempts)


@pytest.mark.parametrize("damage", ["{", "[]", "3", '{"evaluation": 3}', '{"evaluation": [3]}', "\udcff"])
def test_damaged_descriptions_of_runs_are_not_taken_for_results(recipe, damage):
    assert compare(recipe, "--seeds", "1") == 0
    out = recipe.work / "out"
    before = (out / "table.csv").read_bytes()
    for folder in ("escd", "base"):
        (out / folder / "seed-1" / "run.json").write_bytes(damage.encode(errors="surrogateescape"))
    assert compare(recipe, "--seeds", "1") == 0
    assert calls(recipe.work)[2:] == [["escd/seed-1", "resumed"]]
    assert (out / "table.csv").read_bytes() == before
    assert json.loads((out / "base" / "seed-1" / "run.json").read_text())["evaluation"]


def test_arms_of_an_earlier_comparison_may_not_differ_in_case_only(recipe, capsys):
    assert compare(recipe, "--seeds", "1", "--arms", "escd") == 0
    capsys.readouterr()
    assert compare(recipe, seeds=[1], arms={"escd": {}, "ESCD-none": {"completion": "none"}}) == 0
    capsys.readouterr()
    assert compare(recipe, seeds=[1]) == 2
    assert "arms 'ESCD-none' and 'escd-none' differ in case only" in capsys.readouterr().err


def test_the_same_command_again_runs_nothing(recipe):
    assert compare(recipe) == 0
    before = {
        file: (recipe.work / "out" / file).read_bytes() for file in ("table.csv", "comparison.csv", "curves.png")
    }
    assert compare(recipe) == 0
    assert len(calls(recipe.work)) == 4
    for file, content in before.items():
        assert (recipe.work / "out" / file).read_bytes() == content


def test_seeds_and_arms_can_be_added(recipe):
    assert compare(recipe, "--seeds", "1", "--arms", "escd") == 0
    assert list(table(recipe.work)) == ["base student", "escd"]
    assert compare(recipe) == 0
    assert sorted(name for name, *_ in calls(recipe.work)[1:]) == [
        "escd-none/seed-1",
        "escd-none/seed-2",
        "escd/seed-2",
    ]
    assert table(recipe.work)["escd-none"]["seeds"] == "2"


@pytest.mark.parametrize(
    ("what", "says"), [("crash", "ValueError: NaN at step 2"), ("kill", "SIGKILL (out of memory?)")]
)
def test_a_run_that_fails_does_not_lose_the_others_and_is_tried_again(recipe, capsys, what, says):
    begin(recipe, recipe.work)
    trouble(recipe.work, **{"escd-none_seed-2": [2, what]})
    assert compare(recipe) == 1
    out = capsys.readouterr().out
    assert f"failed: escd-none, seed 2: {'killed by ' if what == 'kill' else ''}{says}" in out
    rows = table(recipe.work)
    assert (rows["escd"]["seeds"], rows["escd-none"]["seeds"], rows["escd-none"]["paired_seeds"]) == ("2", "1", "1")
    page = (recipe.work / "out" / "comparison.html").read_text()
    assert "1 run failed" in page
    assert says in page
    (recipe.work / "out" / "trouble.json").unlink()
    assert compare(recipe) == 0
    assert calls(recipe.work)[4:] == [["escd-none/seed-2", "resumed"]]
    assert table(recipe.work)["escd-none"]["seeds"] == "2"
    assert [row["step"] for row in read_metrics(recipe.work / "out/escd-none/seed-2/metrics.jsonl")] == [1, 2, 3]
    seconds = [row["seconds"] for row in read_metrics(recipe.work / "out/attempts.jsonl") if row["arm"] == "escd-none"]
    assert len(seconds) == 3


def test_if_the_first_run_of_a_seed_fails_early_the_next_evaluates_the_base_student(recipe, capsys):
    begin(recipe, recipe.work)
    trouble(recipe.work, **{"escd_seed-1": [0, "early"]})
    assert compare(recipe) == 1
    assert ["escd-none/seed-1", "new"] in calls(recipe.work)
    assert ["escd-none/seed-2", "new", "taken"] in calls(recipe.work)
    out = capsys.readouterr().out
    assert "failed: escd, seed 1: no such model" in out
    assert table(recipe.work)["escd-none"]["paired_seeds"] == "1"


def test_all_runs_failing_still_ends_in_a_table_and_a_page(recipe, capsys):
    begin(recipe, recipe.work)
    every = {f"{arm}_seed-{s}": [0, "early"] for arm in ("escd", "escd-none") for s in (1, 2)}
    trouble(recipe.work, **every)
    assert compare(recipe) == 1
    assert capsys.readouterr().out.count("no such model") == 8
    assert "4 runs failed" in (recipe.work / "out" / "comparison.html").read_text()
    # Nothing was made with the old settings, so they may be mended.
    assert compare(recipe, "--learning_rate", "1e-5") == 1


def wait_for(path, seconds=20):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)


def test_ctrl_c_stops_the_runs_and_says_how_to_go_on(recipe, capsys):
    begin(recipe, recipe.work)
    trouble(recipe.work, **{"escd_seed-2": [2, "hang"]})

    def interrupt():
        wait_for(recipe.work / "out" / "escd-none" / "seed-1" / "report.html")
        wait_for(recipe.work / "out" / "escd" / "seed-2" / "checkpoint-1")
        os.kill(os.getpid(), signal.SIGINT)

    # A shell that puts its jobs into the background has them ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert compare(recipe, processes=2) == 130
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    err = capsys.readouterr().err
    assert "2 of 4 runs are finished; the same command continues" in err
    assert "Traceback" not in err
    ends = {(row["arm"], row["seed"]): row["code"] for row in read_metrics(recipe.work / "out" / "attempts.jsonl")}
    assert ends["escd", 2] == -signal.SIGKILL
    trouble(recipe.work)
    assert compare(recipe) == 0
    assert ["escd/seed-2", "resumed"] in calls(recipe.work)


def test_ctrl_c_while_the_end_of_a_run_is_noted_down(recipe, capsys):
    written = processes.write_whole

    def press(path, text):
        if path.name == processes.ATTEMPTS:
            os.kill(os.getpid(), signal.SIGINT)
        written(path, text)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(processes, "write_whole", press)
            assert compare(recipe, processes=1) == 130
    finally:
        assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    assert "1 of 4 runs are finished; the same command continues" in capsys.readouterr().err
    assert compare(recipe) == 0
    assert [name for name, *_ in calls(recipe.work)].count("escd/seed-1") == 1
    assert len(read_metrics(recipe.work / "out" / "attempts.jsonl")) == 4


def test_without_a_checkpoint_a_run_starts_from_scratch(recipe):
    begin(recipe, recipe.work)
    trouble(recipe.work, **{"escd_seed-1": [1, "kill"], "escd-none_seed-1": [1, "kill"]})
    assert compare(recipe) == 1
    checkpoint = recipe.work / "out" / "escd" / "seed-1" / "checkpoint-1"
    checkpoint.mkdir()
    (checkpoint / "optimizer.pt").touch()  # cut off while it was written
    trouble(recipe.work)
    assert compare(recipe) == 0
    assert ["escd/seed-1", "new", "taken"] in calls(recipe.work)
    assert ["escd-none/seed-1", "new", "taken"] in calls(recipe.work)


def test_settings_that_matter_may_not_change_once_something_was_run(recipe, capsys):
    assert compare(recipe) == 0
    for argv, changes, says in (
        (["--learning_rate", "1e-5"], {}, "holds runs with learning_rate 0.001, not 1e-05"),
        (["--weight_decay", "0.1"], {}, "holds runs with weight_decay its default, not 0.1"),
        ([], {"max_steps": 4}, "holds runs with max_steps 3, not 4"),
        (
            [],
            {"arms": {"escd": {"child_weight": 2}}},
            "holds runs of arm 'escd' with child_weight its default, not 2",
        ),
        (["--arms", "escd", "--max_steps", "5"], {}, "max_steps 3, not 5"),
    ):
        assert compare(recipe, *argv, **changes) == 2
        assert says in capsys.readouterr().err
    for argv in (["--torch_threads", "2"], ["--save_steps", "2"], ["--reference", "escd-none"], ["--processes", "1"]):
        assert compare(recipe, *argv) == 0
    assert len(calls(recipe.work)) == 4


def test_folders_that_are_not_ours(recipe, capsys):
    out = recipe.work / "out"
    out.write_text("")
    assert compare(recipe) == 2
    assert "is no folder" in capsys.readouterr().err
    out.unlink()
    out.mkdir()
    (out / "thesis.tex").write_text("")
    assert compare(recipe) == 2
    assert "holds something else than a comparison" in capsys.readouterr().err
    assert os.listdir(out) == ["thesis.tex"]
    for text in ("{", "[]", "{}", '{"shared": 1, "arms": 2}'):
        (out / "comparison.json").write_text(text)
        assert compare(recipe) == 2
        assert "cannot be read as the record" in capsys.readouterr().err


def test_two_comparisons_do_not_work_in_one_folder(recipe, capsys):
    begin(recipe, recipe.work)
    with FileLock(recipe.work / "out" / ".lock"):
        assert compare(recipe) == 2
    assert "another comparison is running" in capsys.readouterr().err
    assert compare(recipe) == 0


def test_results_that_cannot_be_written_lose_no_run(recipe, capsys):
    begin(recipe, recipe.work)
    (recipe.work / "out" / "table.csv").mkdir()
    assert compare(recipe) == 1
    assert "the results cannot be written" in capsys.readouterr().err
    shutil.rmtree(recipe.work / "out" / "table.csv")
    assert compare(recipe) == 0
    assert len(calls(recipe.work)) == 4


def test_a_log_that_cannot_be_written_is_a_failed_run(recipe, capsys):
    begin(recipe, recipe.work)
    (recipe.work / "out" / "escd-none").write_text("in the way of a folder")
    assert compare(recipe) == 1
    assert "failed: escd-none, seed 1: could not be started" in capsys.readouterr().out
    assert table(recipe.work)["escd"]["seeds"] == "2"


def test_one_seed_says_so(recipe, capsys):
    assert compare(recipe, "--seeds", "4") == 0
    assert "One seed" in capsys.readouterr().out
    assert "One seed" in (recipe.work / "out" / "comparison.html").read_text()


def test_a_run_ends_with_the_comparison_that_started_it():
    code = "import escd.compare.child as c, threading, time; threading.Thread(target=c._die_with_parent).start();"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code} print('up', flush=True); time.sleep(60)"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(10) == -signal.SIGKILL
    process.stdout.close()


def test_the_log_names_the_command_that_repeats_a_run(recipe):
    assert compare(recipe, "--weight_decay", "0.5") == 0
    log = Path("out/escd/seed-1.log").read_text()
    assert "$ escd distill --config out/escd/seed-1.yaml --weight_decay 0.5\n" in log
