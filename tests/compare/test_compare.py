"""Real runs on the embedded pair: killed in the middle and continued, a comparison gives the same results."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from escd.cli import main
from escd.metrics_file import read_metrics

pytestmark = pytest.mark.slow
NAMES = [f"{arm}/seed-{seed}" for arm in ("escd", "escd-none") for seed in (1, 2)]
# The recipe that ships, made short.
COMMAND = [
    "compare", "lab", "--arms", "escd", "escd-none", "--seeds", "1", "2", "--processes", "2", "--max_steps", "3",
    "--per_device_train_batch_size", "4", "--lab_prompts", "64", "--eval_problems", "8", "--eval_samples", "2",
    "--save_steps", "1", "--warmup_steps", "0", "--max_completion_length", "40",
]  # fmt: skip
TIMES = ("seconds", "step_seconds", "peak_memory")


def rows(folder: Path, name: str):
    return [r for r in read_metrics(folder / name / "metrics.jsonl") if "loss" in r]


def figures(folder: Path):
    """Everything that is measured except how long it took."""
    with (folder / "comparison.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["metric"] not in TIMES]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def answers(folder: Path, when: str):
    return {path.name: path.read_bytes() for path in (folder / "evaluation" / when).glob("*.jsonl")}


def finished(path: Path) -> bool:
    return path.is_file() and '"after": {' in path.read_text() and '"after": null' not in path.read_text()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_arms_see_the_same_and_a_killed_comparison_goes_on_as_if_nothing_had_been(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([*COMMAND, "--output_dir", "whole"]) == 0
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    # With one seed, the rollouts of the first step are the same for all arms; with another seed they are not.
    def first(name):
        row = rows(whole, name)[0]
        return [row[k] for k in ("num_tokens", "completions/mean_length", "completions/max_length", "rows/root")]

    for seed in (1, 2):
        assert first(f"escd/seed-{seed}") == first(f"escd-none/seed-{seed}")
        losses = [rows(whole, f"{arm}/seed-{seed}")[0]["root"] for arm in ("escd", "escd-none")]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        base = answers(whole / "base" / f"seed-{seed}", "before")
        assert set(base) == {"lab-math.jsonl", "lab-code.jsonl", "lab-science.jsonl"}
        for arm in ("escd", "escd-none"):
            assert answers(whole / arm / f"seed-{seed}", "before") == base
    assert first("escd/seed-1") != first("escd/seed-2")
    assert rows(whole, "escd/seed-1")[-1]["root"] != pytest.approx(
        rows(whole, "escd-none/seed-1")[-1]["root"], rel=1e-5
    )

    # Killed once some runs are finished and another is between two checkpoints.
    command = [sys.executable, "-m", "escd.cli", *COMMAND, "--output_dir", "killed"]
    with (tmp_path / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    end = time.monotonic() + 240
    while not any((killed / f"escd-none/seed-{s}/checkpoint-1/trainer_state.json").is_file() for s in (1, 2)):
        assert process.poll() is None, (tmp_path / "output.txt").read_text()
        assert time.monotonic() < end
        time.sleep(0.02)
    children = [int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert children
    while any(alive(pid) for pid in children):
        assert time.monotonic() < end
        time.sleep(0.02)
    done = {name for name in NAMES if finished(killed / name / "run.json")}
    assert len(done) < 4
    before = {name: os.stat(killed / name / "run.json").st_mtime_ns for name in done}

    capsys.readouterr()
    assert main([*COMMAND, "--output_dir", "killed"]) == 0
    assert "finished" in capsys.readouterr().out
    assert any("--resume_from_checkpoint true" in (killed / f"{name}.log").read_text() for name in {*NAMES} - done)
    for name in NAMES:
        assert answers(killed / name, "after") == answers(whole / name, "after")
        assert [(r["step"], r["loss"]) for r in rows(killed, name)] == [
            (r["step"], r["loss"]) for r in rows(whole, name)
        ]
    assert figures(killed) == figures(whole)
    assert (killed / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()
    assert {name: os.stat(killed / name / "run.json").st_mtime_ns for name in done} == before
