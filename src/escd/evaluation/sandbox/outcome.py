"""What came of a run."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ..verdict import one_line
from .limits import Limits


@dataclass(frozen=True)
class Outcome:
    """End of a program.

    Attributes:
        stdout: What it printed, undecodable bytes replaced.
        stderr: The same of stderr.
        exit_code: Its exit code, 128 + n after signal n; None where the sandbox stopped it.
        reason: Empty after a normal end, else one line: "time limit", "memory limit", "output limit",
            "too many files", "exception: NameError: ...", "exit code 3", "crash: SIGSEGV".
    """

    stdout: str
    stderr: str
    exit_code: int | None
    reason: str


def end_reason(code: int, seconds: float, limits: Limits) -> str:
    """One line for an exit code; empty for 0."""
    if code == 0:
        return ""
    if code <= 128:
        return f"exit code {code}"
    number = code - 128
    if number == signal.SIGXCPU or (number == signal.SIGKILL and seconds >= limits.cpu):
        return "time limit"
    try:
        return f"crash: {signal.Signals(number).name}"
    except ValueError:
        return f"exit code {code}"


def script_reason(code: int, stderr: str, seconds: float, limits: Limits) -> str:
    """`end_reason`, with the exception that a traceback ends in."""
    said = _exception(stderr) if code == 1 else ""
    if not said:
        return end_reason(code, seconds, limits)
    return "memory limit" if said.split(":")[0] == "MemoryError" else f"exception: {one_line(said)}"


def _exception(stderr: str) -> str:
    """The line after the frames of the last traceback; the message may have more lines."""
    found, frames = "", False
    for line in stderr[-20_000:].splitlines():
        if line.startswith("  File "):
            frames = True
        elif (frames and line and not line.startswith(" ")) or line == "MemoryError":
            found, frames = line, False
    return found
