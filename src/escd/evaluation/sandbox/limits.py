"""What a program may use."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ...errors import ConfigError


@dataclass(frozen=True)
class Limits:
    """Limits of one run; reaching one ends the program or fails the call that asks for more.

    Args:
        cpu: Seconds of processor time, rounded up to whole ones.
        wall: Seconds from start to end; slower machines under load need more than `cpu`.
        memory: Bytes of address space.
        threads: Threads; a program is one process and starts no other.
        output: Bytes of stdout, of stderr, and of one result of a function.
        file_size: Bytes of one file.
        folder: Bytes of all files together.
        entries: Files and folders, checked twenty times a second.

    Raises:
        ConfigError: A limit is not a positive number.
    """

    cpu: float = 5.0
    wall: float = 15.0
    memory: int = 1 << 30
    threads: int = 64
    output: int = 4 << 20
    file_size: int = 16 << 20
    folder: int = 64 << 20
    entries: int = 4096

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value > 0):
                raise ConfigError(f"limit {field.name}={value!r}: give a positive number")

    def resources(self) -> dict[str, tuple[int, int]]:
        """Soft and hard value of each `resource.RLIMIT_*`."""
        cpu, stack = math.ceil(self.cpu), min(self.memory // 4, 64 << 20)
        return {
            # Past the soft limit comes SIGXCPU, which tells it from other ends; past the hard one SIGKILL.
            "CPU": (cpu, cpu + 1),
            "AS": (self.memory, self.memory),
            # The sandbox's own first process counts too.
            "NPROC": (self.threads + 2, self.threads + 2),
            "FSIZE": (self.file_size, self.file_size),
            "STACK": (stack, stack),
            "NOFILE": (128, 128),
            "CORE": (0, 0),
            # Memory of the kernel that RLIMIT_AS does not see.
            "MEMLOCK": (0, 0),
            "MSGQUEUE": (0, 0),
            "SIGPENDING": (256, 256),
            "RTPRIO": (0, 0),
            "NICE": (0, 0),
        }


DEFAULT = Limits()
