"""Run a program and collect what it prints."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import PurePosixPath

from ...errors import ConfigError
from .box import Box, readable
from .confine import open_box
from .limits import DEFAULT, Limits
from .outcome import Outcome, script_reason

# Seconds between looks at clock, files and process.
_TICK = 0.05


def run_python(
    source: str, *, stdin: str = "", limits: Limits = DEFAULT, files: Mapping[str, str] | None = None
) -> Outcome:
    """Run a Python program in the sandbox, as a script.

    It sees the standard library, its own folder and nothing else: no network, no file, process or variable of this
    machine. See `Limits` for what it may use.

    Args:
        source: The program.
        stdin: What it reads, in UTF-8.
        limits: Of this run.
        files: Text files in its folder, by relative path.

    Raises:
        ConfigError: There is no sandbox on this machine, or a file would lie outside the folder.
        SandboxError: The machine failed to start the sandbox.

    Example:
        `run_python("print(int(input()) + 1)", stdin="41").stdout` is "42" and a line feed.
    """
    files = dict(files or {})
    for name in files:
        if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise ConfigError(f"file {name!r} of a program: name it relative to the program's folder")
    with ExitStack() as own:
        given = readable(stdin.encode("utf-8", "surrogatepass"))
        own.callback(os.close, given)
        pipes = [os.pipe(), os.pipe()]
        for reading, _ in pipes:
            own.callback(os.close, reading)
        try:
            arguments = {"source": source, "files": files}
            box = open_box("script", arguments, limits, stdin=given, stdout=pipes[0][1], stderr=pipes[1][1])
        finally:
            for _, writing in pipes:
                os.close(writing)
        own.enter_context(box)
        printed, reason = collect([reading for reading, _ in pipes], box, [box], limits)
        box.kill()
        code = box.exit_code()
        stdout, stderr = (data.decode("utf-8", "replace") for data in printed)
        if reason:
            return Outcome(stdout, stderr, None, reason)
        return Outcome(stdout, stderr, code, script_reason(code, stderr, time.monotonic() - box.started, limits))


def collect(pipes: Sequence[int], main: Box, boxes: Sequence[Box], limits: Limits) -> tuple[list[bytes], str]:
    """Read pipes until they are closed and `main` has ended, or a limit of the run is reached.

    Returns:
        What was read from each, at most `limits.output` bytes, and the limit: "time limit", "output limit",
        "too many files", or empty.
    """
    read = {pipe: bytearray() for pipe in pipes}
    reason, over = "", False
    deadline = main.started + limits.wall
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        looked = time.monotonic()
        while not reason:
            now = time.monotonic()
            pause = 0.0 if over else min(_TICK, max(deadline - now, 0.0))
            ready = selector.select(pause) if selector.get_map() else []
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fd)
                read[key.fd] += data
                if len(read[key.fd]) > limits.output:
                    reason = "output limit"
            # A pipe that something still holds open says nothing once the process has ended. But what it wrote between
            # the last look at the pipe and its end is still in there.
            if not ready and over:
                break
            over = over or (not ready and main.ended(0.0 if selector.get_map() else pause))
            if now >= deadline:
                reason = reason or "time limit"
            if now - looked >= _TICK:
                looked = now
                if any(box.overfull() for box in boxes):
                    reason = reason or "too many files"
    return [bytes(read[pipe][: limits.output]) for pipe in pipes], reason
