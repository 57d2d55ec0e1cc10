"""Several runs at a time, each in a process of its own: started, watched, resumed, and stopped with the comparison."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import yaml
from tqdm.auto import tqdm

from ..files import write_whole
from ..metrics_file import read_metrics
from .recipe import Plan
from .runs import Run, base, keep_base, runs

_ENTRY = ("-P", "-m", "escd.compare.child")
_POLL = 0.3  # seconds
ATTEMPTS = "attempts.jsonl"


@dataclass(frozen=True)
class Failure:
    """A run that ended without a result, and why."""

    run: Run
    reason: str


@dataclass
class _Running:
    run: Run
    process: subprocess.Popen[bytes]
    started: float


def complete(plan: Plan) -> list[Failure]:
    """Run what is not finished yet; returns the runs that failed.

    The untrained student is evaluated by the first run of a seed; the other arms of that seed wait for its answers.

    Raises:
        KeyboardInterrupt: Ctrl-C; all processes are stopped by then.
    """
    every = runs(plan)
    waiting = [run for run in every if not run.finished]
    running: list[_Running] = []
    failures: list[Failure] = []
    total = plan.steps * len(every) or None
    done = _steps(every, plan)
    # No bar where it would fill a file; the lines about each run come there too.
    bar = tqdm(total=total, unit="step", desc="Comparing", smoothing=0, initial=done, disable=None)
    with _ctrl_c() as pressed:
        try:
            while waiting or running:
                if pressed.is_set():
                    raise KeyboardInterrupt
                for run in every:
                    with suppress(OSError):  # a full disk; then the next arm of the seed asks the base student itself
                        keep_base(plan, run)
                while len(running) < plan.processes and (run := _next(plan, waiting, running)):
                    waiting.remove(run)
                    try:
                        running.append(_start(plan, run))
                    except OSError as error:
                        failures.append(_failed(bar, run, f"could not be started: {error}"))
                time.sleep(_POLL)
                for each in [r for r in running if _ended(plan, r)]:
                    running.remove(each)
                    if each.run.finished:
                        bar.write(f"{each.run.name}: finished")
                    else:
                        failures.append(_failed(bar, each.run, _reason(each)))
                done, before = _steps(every, plan), done
                bar.update(done - before)
                ended = sum(run.finished for run in every)
                failed = f", {len(failures)} failed" if failures else ""
                bar.set_postfix_str(f"{ended} of {len(every)} runs finished{failed}", refresh=False)
        finally:
            for each in running:
                os.killpg(each.process.pid, signal.SIGKILL)
                while not _ended(plan, each):
                    time.sleep(0.01)
            bar.close()
    return failures


@contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """Ctrl-C only sets what is given, so that it never falls between the end of a process and the note about it."""
    pressed = threading.Event()
    # A process in the background of a shell ignores Ctrl-C, and only the main thread may say what it does.
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield pressed
        return
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _steps(every: list[Run], plan: Plan) -> int:
    return sum(min(run.step, plan.steps or run.step) for run in every)


def _next(plan: Plan, waiting: list[Run], running: list[_Running]) -> Run | None:
    """The first run that need not wait for another to evaluate the untrained student."""
    busy = {each.run.seed for each in running}
    return next((run for run in waiting if run.seed not in busy or base(plan, run.seed).is_dir()), None)


def _start(plan: Plan, run: Run) -> _Running:
    flags = ["--config", str(run.recipe), *plan.overrides]
    if run.checkpoint:
        flags += ["--resume_from_checkpoint", "true"]
    else:
        # Nothing to go on from: the steps up to the first checkpoint are done again.
        shutil.rmtree(run.folder, ignore_errors=True)
        known = base(plan, run.seed)
        if known.is_dir():
            flags += ["--eval_before_from", str(known)]
    run.log.parent.mkdir(parents=True, exist_ok=True)
    content = {**plan.content(run.arm, run.seed), "output_dir": str(run.folder)}
    write_whole(run.recipe, yaml.safe_dump(content, sort_keys=False))
    environment = {**os.environ, "TQDM_DISABLE": "1", "PYTHONUNBUFFERED": "1"}
    with run.log.open("ab") as log:
        log.write(f"\n$ {shlex.join(['escd', 'distill', *flags])}\n".encode())
        log.flush()
        # A session of its own: Ctrl-C is for the comparison, which then stops its runs.
        process = subprocess.Popen(
            [sys.executable, *_ENTRY, *flags], stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment,
            start_new_session=True,
        )  # fmt: skip
    return _Running(run, process, time.monotonic())


def _ended(plan: Plan, each: _Running) -> bool:
    """Whether a process is over; if so, what it took is noted down."""
    pid, status, usage = os.wait4(each.process.pid, os.WNOHANG)
    if not pid:
        return False
    code = each.process.returncode = os.waitstatus_to_exitcode(status)
    assert each.process.stdin is not None
    each.process.stdin.close()
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    row: dict[str, Any] = {
        "arm": each.run.arm, "seed": each.run.seed, "code": code,
        "seconds": round(time.monotonic() - each.started, 3), "peak_memory": peak,
    }  # fmt: skip
    path = plan.folder / ATTEMPTS
    try:
        write_whole(path, "".join(json.dumps(r) + "\n" for r in (*read_metrics(path), row)))
    except OSError as error:  # a full disk: the runs matter more than how long they took
        tqdm.write(f"{path}: {error.strerror}", file=sys.stderr)
    return True


def _reason(each: _Running) -> str:
    code, said = each.process.returncode, each.run.last_words
    if code < 0:
        name = signal.Signals(-code).name
        return f"killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
    return said.removeprefix("escd: error: distill: ") or f"exit code {code}, and nothing in its log"


def _failed(bar: Any, run: Run, reason: str) -> Failure:
    bar.write(f"{run.name}: failed: {reason}")
    return Failure(run, reason)
