"""The Python that a program sees: the interpreter below any virtual environment and its standard library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import ConfigError

ROOT = "/python"
_ZONES = "/usr/share/zoneinfo"
# Modules that no graded program needs and whose libraries are many.
_WITHOUT = ("_tkinter", "_test", "_xx")


@dataclass(frozen=True)
class Runtime:
    """Files and folders of the host by the path at which a program sees them, and folders to hide from it."""

    python: str
    environment: dict[str, str]
    files: dict[str, str]
    hidden: tuple[str, ...]


def executable() -> str:
    """The interpreter below any virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def runtime() -> Runtime:
    """Find the interpreter, the standard library and the shared libraries of both.

    Raises:
        ConfigError: They cannot be listed.
    """
    python, standard = executable(), Path(sysconfig.get_path("stdlib"))
    seen_standard = f"{ROOT}/{sys.platlibdir}/{standard.name}"
    files = {f"{ROOT}/bin/python3": python, seen_standard: str(standard)}
    modules = [str(p) for p in standard.glob("lib-dynload/*.so") if not p.name.startswith(_WITHOUT)]
    for name, path in _libraries([python, *modules]).items():
        files[name if name.startswith("/") else f"{ROOT}/shared/{name}"] = path
    if os.path.exists(_ZONES):
        files[f"{ROOT}/zoneinfo"] = _ZONES
    # Packages of the host, which may be anyone's: beside the standard library, not of it.
    hidden = [f"{seen_standard}/{p.name}" for p in standard.glob("*-packages") if p.is_dir()]
    places = {"LD_LIBRARY_PATH": f"{ROOT}/shared", "PYTHONTZPATH": f"{ROOT}/zoneinfo"}
    return Runtime(f"{ROOT}/bin/python3", places, files, tuple(hidden))


def _libraries(objects: list[str]) -> dict[str, str]:
    """Shared libraries of binaries: path by name, and by its own path for the loader, which has no other name."""
    ldd = shutil.which("ldd")
    if ldd is None:
        raise ConfigError(
            "the code sandbox needs ldd to find Python's libraries; install it or see ESCD_SANDBOX=process"
        )
    listing = subprocess.run([ldd, *objects], capture_output=True, text=True, env={"LC_ALL": "C"}).stdout
    found = {m[1]: m[2] for m in re.finditer(r"^\s+(\S+) => (/\S+) \(0x", listing, re.MULTILINE)}
    loaders = re.findall(r"^\s+(/\S+) \(0x", listing, re.MULTILINE)
    return found | {path: os.path.realpath(path) for path in loaders}
