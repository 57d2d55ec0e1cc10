"""Timing and memory of one function, and a CSV that says on which machine."""

from __future__ import annotations

import csv
import gc
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import torch


def median_seconds(functions: dict[str, Callable[[], object]], runs: int = 5) -> dict[str, float]:
    """Median wall time of each function, run in turn so that a drift of the machine meets all of them."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    gc.collect()
    for number in range(runs + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_extra_bytes(function: Callable[[], object]) -> int:
    """Most resident memory that a call held beyond what was there before it (sampled every 2 ms)."""
    gc.collect()
    process, peak, done = psutil.Process(), [0], threading.Event()
    start = process.memory_info().rss

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], process.memory_info().rss)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        kept = function()
        del kept
    finally:
        done.set()
        watcher.join()
    return max(peak[0] - start, 0)


class Results:
    """Rows of one benchmark, printed as they come and written to `results.csv` beside this file."""

    def __init__(self, benchmark: str):
        self.benchmark = benchmark
        self.rows: list[dict[str, object]] = []

    def add(self, what: str, value: float, unit: str, target: str = "") -> None:
        """One figure; ratios are what to compare across machines."""
        print(f"{what:72} {value:10.3g} {unit:8} {target}", flush=True)
        self.rows.append(
            {"benchmark": self.benchmark, "what": what, "value": f"{value:.4g}", "unit": unit, "target": target}
        )

    def save(self) -> None:
        """Replace this benchmark's rows in the CSV."""
        path = Path(__file__).with_name("results.csv")
        machine = {
            "torch": torch.__version__, "threads": torch.get_num_threads(), "cpu": _cpu(), "cores": os.cpu_count(),
        }  # fmt: skip
        old = list(csv.DictReader(path.open())) if path.exists() else []
        rows = [r for r in old if r["benchmark"] != self.benchmark] + [{**r, **machine} for r in self.rows]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
