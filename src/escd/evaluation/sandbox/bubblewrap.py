"""Confinement by bubblewrap: namespaces, an empty read-only root, a filter of system calls, another user."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import sys
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from ...errors import ConfigError
from .box import PATIENCE, Box, environment
from .limits import Limits
from .runtime import runtime
from .syscalls import seccomp_filter

WORK = "/sandbox"  # no folder of the machine should have this name: inside, it is the program's own
# Root starts each program as another user, of a range that systemd gives to passing services: the limit on threads
# does not bind root, and binds the threads of a user as a whole.
_USERS = range(61184, 65520)
_next_user = itertools.count(os.getpid() * 64)


class BubblewrapBox(Box):
    """Behind namespaces, a root without files of the machine, a filter of system calls and resource limits."""

    _info: int | None = None
    _child: int | None = None

    def overfull(self) -> bool:
        if self._init() is None:
            return False
        try:
            files = os.statvfs(f"/proc/{self._init()}/root{WORK}")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            return False
        return files.f_files - files.f_ffree > self._limits.entries

    def kill(self) -> None:
        init = None if self.ended() else self._init()
        if init is not None and not self.ended():
            # Its death takes the whole namespace along, and bubblewrap ends once all of it is dead.
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGKILL)
            self.ended(PATIENCE)
        if not self.ended():
            self._process.kill()
            self._process.wait()

    def _init(self) -> int | None:
        """Process id of the sandbox's first process; None where bubblewrap failed before it made one."""
        if self._info is not None:
            poll = select.poll()
            poll.register(self._info, select.POLLIN)
            told = b""
            while b"}" not in told and poll.poll(PATIENCE * 1000) and (more := os.read(self._info, 4096)):
                told += more
            self._child = json.loads(told)["child-pid"] if b"}" in told else None
            self._clear()
        return self._child

    def _confinement(self) -> dict[str, Any]:
        user = _USERS[next(_next_user) % len(_USERS)] if os.geteuid() == 0 else None
        return {"resources": self._limits.resources(), "folder": WORK, "user": user, "strict": True}

    def _command(self, inherited: contextlib.ExitStack) -> tuple[list[str], dict[str, str], tuple[int, ...]]:
        self._info, info = os.pipe()
        inherited.callback(os.close, info)
        seccomp, writing = os.pipe()
        inherited.callback(os.close, seccomp)
        with open(writing, "wb") as pipe:
            pipe.write(seccomp_filter())
        return _command(self._limits, seccomp, info), {}, (seccomp, info)

    def _clear(self) -> None:
        if self._info is not None:
            os.close(self._info)
            self._info = None


def _command(limits: Limits, seccomp: int, info: int) -> list[str]:
    return [
        *_namespaces(), *_mounts(),
        "--perms", "0777", "--size", str(limits.folder), "--tmpfs", WORK, "--symlink", WORK, "/tmp",
        "--remount-ro", "/", "--chdir", WORK,
        "--seccomp", str(seccomp), "--info-fd", str(info), "--", runtime().python,
    ]  # fmt: skip


@cache
def _namespaces() -> tuple[str, ...]:
    program = shutil.which("bwrap")
    if sys.platform != "linux" or program is None:
        raise ConfigError(
            "programs of a model run in bubblewrap, which is not installed: install it (on Linux: apt-get install "
            "bubblewrap or dnf install bubblewrap), or set ESCD_SANDBOX=process, which is no security boundary"
        )
    identity = (
        # The program's start needs these two to become another user; that drops them.
        ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
        if os.geteuid() == 0
        else ("--unshare-user", "--uid", "65534", "--gid", "65534")
    )
    return (
        program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL", *identity,
    )  # fmt: skip


@cache
def _mounts() -> tuple[str, ...]:
    """Environment and read-only files; no /proc, no terminal, no shared memory."""
    seen = runtime()
    arguments = ["--clearenv"]
    for name, value in (environment(WORK) | seen.environment).items():
        arguments += ["--setenv", name, value]
    devices = ("/dev/null", "/dev/urandom")
    # Made on the way to a mount, a folder would be open to root alone.
    for folder in sorted(
        {str(p) for inside in (*seen.files, *devices) for p in PurePosixPath(inside).parents} - {"/"}
    ):
        arguments += ["--perms", "0755", "--dir", folder]
    for inside, outside in seen.files.items():
        arguments += ["--ro-bind", outside, inside]
    for folder in seen.hidden:
        arguments += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    for device in devices:
        arguments += ["--dev-bind", device, device]
    return tuple(arguments)
