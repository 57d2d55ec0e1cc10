"""A confined Python process, from its start to its proven end."""

from __future__ import annotations

import contextlib
import marshal
import os
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from ...errors import SandboxError
from .limits import Limits

# Seconds that a sandbox may take to rise or, once killed, to fall.
PATIENCE = 30.0
# Without `site`, the user's packages and the current folder.
_FLAGS = ("-S", "-s", "-P", "-B", "-X", "utf8")
_BOOT = """import sys, marshal
with open(int(sys.argv[1]), "rb") as file: job = marshal.load(file)
start = {}
exec(job["start"], start)
start["main"](job)"""
_INSIDE = Path(__file__).parent / "inside"
# Modules that a role imports.
_TALK = ("library", "plain", "channel")
_NEEDS = {"script": (), "candidate": _TALK, "checks": (*_TALK, "remote", "suite")}


class Box(ABC):
    """One Python process that runs `main` of a module of `inside`, confined and limited. Leaving the context ends it.

    Args:
        role: Module of `inside`.
        arguments: Keyword arguments of its `main`, plain data.
        limits: Of the run.
        stdin: Descriptor to read from.
        stdout: Descriptor to write to.
        stderr: The same.
        fds: Descriptors that `main` uses; they keep their numbers. The caller closes its own copies.

    Raises:
        ConfigError: There is no sandbox on this machine.
    """

    def __init__(
        self,
        role: str,
        arguments: dict[str, Any],
        limits: Limits,
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        fds: Sequence[int] = (),
    ) -> None:
        self._limits = limits
        self._began = False
        self.started = time.monotonic()
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as inherited:
            self._ready, ready = os.pipe()
            ours.callback(os.close, self._ready)
            inherited.callback(os.close, ready)
            ours.callback(self._clear)
            job = {
                "start": _code("start"),
                "role": role,
                "arguments": arguments,
                "ready": ready,
                **self._confinement(),
            }
            job["modules"] = [(name, _code(name)) for name in (*_NEEDS[role], role)]
            payload = readable(marshal.dumps(job))
            inherited.callback(os.close, payload)
            command, environment, own = self._command(inherited)
            self._process = subprocess.Popen(
                [*command, *_FLAGS, "-c", _BOOT, str(payload)],
                stdin=stdin, stdout=stdout, stderr=stderr, env=environment, pass_fds=(payload, ready, *own, *fds),
                start_new_session=True,
            )  # fmt: skip
            self._ours = ours.pop_all()

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        with self._ours:
            self.kill()

    def ended(self, timeout: float = 0.0) -> bool:
        """Whether the process has ended, waiting at most `timeout` seconds."""
        if timeout <= 0:
            return self._process.poll() is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        return self._process.returncode is not None

    def began(self) -> bool:
        """Whether an ended process came as far as the program."""
        self._began = self._began or bool(os.read(self._ready, 1))
        return self._began

    def exit_code(self) -> int:
        """Exit code of an ended process, 128 + n after signal n.

        Raises:
            SandboxError: The sandbox fell before the program began.
        """
        code = self._process.returncode
        if not self.began():
            raise SandboxError(
                f"a sandbox did not start (exit code {code}): is the machine short of memory or processes?"
            )
        return code if code >= 0 else 128 - code

    @abstractmethod
    def overfull(self) -> bool:
        """Whether there are more files than the limit allows."""

    @abstractmethod
    def kill(self) -> None:
        """End the process and all that it started; returns when nothing of it is left."""

    @abstractmethod
    def _confinement(self) -> dict[str, Any]:
        """What `inside/start.py` is told: resources, folder, user, strict."""

    @abstractmethod
    def _command(self, inherited: contextlib.ExitStack) -> tuple[list[str], dict[str, str], tuple[int, ...]]:
        """Command up to Python's flags, environment, and descriptors for it, to be closed by `inherited` here."""

    @abstractmethod
    def _clear(self) -> None:
        """Remove what the box holds on this side."""


def environment(folder: str) -> dict[str, str]:
    """All that a program finds in its environment. The fixed hash seed makes verdicts repeatable."""
    return {"HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}


def readable(data: bytes) -> int:
    """A read-only descriptor of a file without a name that holds `data`. The caller closes it."""
    writing, path = tempfile.mkstemp(prefix="escd-")
    try:
        with open(writing, "wb") as file:
            file.write(data)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.unlink(path)


@cache
def _code(module: str) -> CodeType:
    """A module of `inside`, compiled here: the interpreter inside is of the same version, and starts sooner so."""
    return compile((_INSIDE / f"{module}.py").read_text(encoding="utf-8"), f"{module}.py", "exec", dont_inherit=True)
