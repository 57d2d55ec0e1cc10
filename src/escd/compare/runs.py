"""The runs of a comparison as they lie on disk: what is finished, how far the rest is, and what came out."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..evaluation.tasks.base import file_name
from ..metrics_file import read_metrics
from ..report.reading import mapping
from ..training.folders import last_checkpoint
from .recipe import BASE, Plan

Answers = dict[str, dict[Hashable, list[dict[str, Any]]]]  # task -> problem -> its samples


@dataclass(frozen=True)
class Run:
    """One arm with one seed, in its folder below the output folder."""

    arm: str
    seed: int
    root: Path

    @property
    def name(self) -> str:
        """As it is told on the terminal."""
        return f"{self.arm}/seed-{self.seed}"

    @property
    def folder(self) -> Path:
        """Output folder of the run."""
        return self.root / self.arm / f"seed-{self.seed}"

    @property
    def log(self) -> Path:
        """What the run prints. Beside its folder, which a run that fails at its start clears away."""
        return self.root / self.arm / f"seed-{self.seed}.log"

    @property
    def recipe(self) -> Path:
        """What the run is made with, for `escd distill --config`."""
        return self.root / self.arm / f"seed-{self.seed}.yaml"

    @property
    def begun(self) -> bool:
        """Whether there is anything in its folder."""
        return self.folder.is_dir() and any(self.folder.iterdir())

    @property
    def finished(self) -> bool:
        """Whether the student was evaluated after training, the last thing that a result needs."""
        return bool(evaluated(self.folder, "after"))

    @property
    def checkpoint(self) -> str | None:
        """The checkpoint to go on from."""
        return last_checkpoint(str(self.folder))

    @property
    def step(self) -> int:
        """The last step in its log of metrics, 0 if there is none."""
        try:
            with (self.folder / "metrics.jsonl").open("rb") as file:
                file.seek(max(os.fstat(file.fileno()).st_size - 2**14, 0))
                steps = re.findall(rb'^\{"step": (\d+)', file.read(), re.MULTILINE)
        except OSError:
            return 0
        return int(steps[-1]) if steps else 0

    @property
    def last_words(self) -> str:
        """The last line of its log."""
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except OSError:
            return ""
        # Of a progress bar the last state.
        said = [line.split("\r")[-1].strip() for line in lines if line.strip()]
        return said[-1] if said else ""


def runs(plan: Plan) -> list[Run]:
    """All runs, the arms of one seed together and the reference first."""
    arms = sorted(plan.arms, key=lambda arm: arm != plan.reference)
    return [Run(arm, seed, plan.folder) for seed in plan.seeds for arm in arms]


def evaluated(folder: Path, when: str) -> list[dict[str, Any]]:
    """What a run was evaluated on "before" or "after" training, one entry per task; [] as long as it was not."""
    try:
        told = mapping(json.loads((folder / "run.json").read_bytes())).get("evaluation")
    except (OSError, ValueError):
        return []
    tasks = [mapping(task) for task in told] if isinstance(told, list) else []
    return tasks if all(task.get("task") and task.get(when) for task in tasks) else []


def answers(folder: Path, when: str) -> Answers:
    """Every graded answer of a run, "before" or "after" training, by task and problem.

    A problem is known by its number and its text: two seeds may have different problems under one number.
    """
    found: Answers = {}
    for task in evaluated(folder, when):
        for row in read_metrics(folder / "evaluation" / when / f"{file_name(task['task'])}.jsonl"):
            found.setdefault(task["task"], {}).setdefault((row["problem"], row["prompt"]), []).append(row)
    return found


def base(plan: Plan, seed: int) -> Path:
    """Folder that keeps the untrained student's answers for a seed."""
    return plan.folder / BASE / f"seed-{seed}"


def keep_base(plan: Plan, run: Run) -> None:
    """Keep what a run has sampled from the untrained student for the other arms; it is there whole or not at all."""
    target = base(plan, run.seed)
    if evaluated(target, "before") or not evaluated(run.folder, "before"):
        return
    unfinished = target.with_name(f".{target.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(run.folder / "evaluation" / "before", unfinished / "evaluation" / "before")
    shutil.copy(run.folder / "run.json", unfinished)
    shutil.rmtree(target, ignore_errors=True)  # a damaged one
    unfinished.rename(target)
