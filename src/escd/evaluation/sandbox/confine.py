"""Which confinement this machine has: tried once, then remembered."""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import cache
from typing import Any

from ...errors import ConfigError
from .box import PATIENCE, Box
from .bubblewrap import BubblewrapBox
from .limits import DEFAULT, Limits
from .process import ProcessBox

VARIABLE = "ESCD_SANDBOX"


def open_box(role: str, arguments: dict[str, Any], limits: Limits, **descriptors: Any) -> Box:
    """Start a `Box` of the kind that this machine has.

    Raises:
        ConfigError: There is none, or ESCD_SANDBOX names no kind.
    """
    return _kind(os.environ.get(VARIABLE) or "bubblewrap")(role, arguments, limits, **descriptors)


@cache
def _kind(name: str) -> type[Box]:
    if name == "process":
        warnings.warn(
            f"{VARIABLE}=process: programs of a model run with limits on time and memory but can read your files and "
            "reach the network; this is no security boundary",
            stacklevel=4,
        )
        return ProcessBox
    if name != "bubblewrap":
        raise ConfigError(f"{VARIABLE}={name!r}: give bubblewrap or process")
    _try_bubblewrap()
    return BubblewrapBox


def _try_bubblewrap() -> None:
    """Raises ConfigError, with what bubblewrap says, where it can't make a sandbox or no Python starts in it."""
    with tempfile.TemporaryFile() as said:
        with BubblewrapBox("script", {"source": "", "files": {}}, DEFAULT, stderr=said.fileno()) as box:
            box.overfull()
            box.ended(PATIENCE)
            box.kill()
            works = box.began() and box.exit_code() == 0
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").strip().splitlines()
    if not works:
        raise ConfigError(
            f"bubblewrap makes no sandbox here ({lines[-1] if lines else 'it gives no reason'}): allow user "
            "namespaces (in a container: run it with them or as privileged), use bubblewrap 0.8 or newer, or set "
            f"{VARIABLE}=process, which is no security boundary"
        )
