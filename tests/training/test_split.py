"""The same loss and the same weights for the same global batch, however it is split (paper eq. 49)."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from escd.metrics_file import read_metrics

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("canned_run.py")
COMPARED = (
    "loss",
    "root",
    "child",
    "rows/root",
    "rows/child",
    "rows/none",
    "mass",
    "completion_probability",
    "grad_norm",
)


def run(pair_dir, output, batch, accumulation, processes=1, kind="full"):
    launcher = [sys.executable]
    if processes > 1:
        with socket.socket() as probe:
            probe.bind(("localhost", 0))
            port = probe.getsockname()[1]
        launcher += ["-m", "torch.distributed.run", f"--nproc_per_node={processes}", f"--master_port={port}"]
    command = [*launcher, str(SCRIPT), str(pair_dir), str(output), str(batch), str(accumulation), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return read_metrics(output / "metrics.jsonl")[:3], load_file(output / "trained.safetensors")


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_any_split_of_the_global_batch(pair_dir, tmp_path, kind):
    rows, weights = run(pair_dir, tmp_path / "whole", 8, 1, kind=kind)
    assert rows[0]["rows/child"] > 0
    assert rows[0]["loss"] == pytest.approx(rows[0]["root"] + rows[0]["child"], rel=1e-5)
    splits = {"accumulated": (2, 4, 1), "processes": (4, 1, 2), "both": (2, 2, 2)}
    if kind == "lora":
        splits = {"both": (2, 2, 2)}
    for name, (batch, accumulation, processes) in splits.items():
        other_rows, other = run(pair_dir, tmp_path / name, batch, accumulation, processes, kind)
        for row, other_row in zip(rows, other_rows, strict=True):
            for key in COMPARED:
                assert other_row[key] == pytest.approx(row[key], rel=2e-4), (name, key)
        for key, value in weights.items():
            # Adam turns differences in the last bit of tiny gradients into steps of the size of the learning rate.
            close = torch.isclose(other[key], value, atol=2e-4, rtol=1e-3).float().mean()
            assert close > 0.99, (name, key, float(close))
