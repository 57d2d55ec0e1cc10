"""The user's explicit second best: resource limits, an own folder and environment. No security boundary."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from typing import Any

from .box import Box, environment
from .runtime import executable


class ProcessBox(Box):
    """A plain child process. It can read the user's files and reach the network."""

    _folder = ""

    def overfull(self) -> bool:
        count = sum(len(folders) + len(files) for _, folders, files in os.walk(self._folder))
        return count > self._limits.entries

    def kill(self) -> None:
        # Its children, too; one that has left the group lives on.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _confinement(self) -> dict[str, Any]:
        self._folder = tempfile.mkdtemp(prefix="escd-")
        # A limit on processes would count all of the user's.
        resources = {k: v for k, v in self._limits.resources().items() if k != "NPROC"}
        return {"resources": resources, "folder": self._folder, "user": None, "strict": False}

    def _command(self, inherited: contextlib.ExitStack) -> tuple[list[str], dict[str, str], tuple[int, ...]]:
        return [executable()], environment(self._folder), ()

    def _clear(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
