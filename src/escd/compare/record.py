"""The output folder of a comparison: one comparison in it, one process at work, and runs that belong together."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from .. import __version__
from ..errors import ConfigError
from ..files import write_whole
from .recipe import BASE, Plan, check_twins
from .runs import Run

NAME = "comparison.json"
# Flags that change how a run goes, not what it computes.
_NEUTRAL = frozenset({
    "save_steps", "save_strategy", "save_total_limit", "logging_steps", "logging_strategy", "logging_first_step",
    "log_level", "report_to", "run_name", "project", "torch_threads", "tile_megabytes", "pair_cache_dir",
    "disable_tqdm", "dataloader_num_workers", "dataloader_pin_memory",
})  # fmt: skip


@contextmanager
def opened(plan: Plan) -> Iterator[None]:
    """Hold the output folder while a comparison works in it.

    Raises:
        ConfigError: It cannot be written to, holds something else, runs made with other settings, or another process
            is at work in it.
    """
    folder = plan.folder
    lock = FileLock(folder / ".lock", timeout=0)
    new = [path for path in (folder, *folder.parents) if not os.path.isdir(path)]
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"--output_dir {str(folder)!r} is no folder; name one")
        strange = folder.is_dir() and any(p.name != ".lock" for p in folder.iterdir())
        if strange and not (folder / NAME).is_file():
            raise ConfigError(
                f"--output_dir {str(folder)!r} holds something else than a comparison; name a new folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise ConfigError(
            f"another comparison is running in {str(folder)!r}; wait for it, or name a new folder"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a character that no path can hold
        for made in new:
            with suppress(OSError, ValueError):
                made.rmdir()
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"--output_dir {str(folder)!r} cannot be written to: {reason}") from error
    try:
        record = _agreed(plan)
        try:
            write_whole(folder / NAME, json.dumps(record, indent=1))
        except OSError as error:
            raise ConfigError(f"--output_dir {str(folder)!r} cannot be written to: {error.strerror}") from error
        yield
    finally:
        lock.release()


def _agreed(plan: Plan) -> dict[str, Any]:
    """The record of this comparison, with the arms that earlier ones in this folder had.

    Raises:
        ConfigError: Runs in the folder were made with other settings.
    """
    shared, arms = plan.settings()
    path = plan.folder / NAME
    old: dict[str, Any] = {"shared": shared, "arms": {}}
    if path.is_file():
        try:
            found = json.loads(path.read_bytes())
            old = {"shared": dict(found["shared"]), "arms": {name: dict(of) for name, of in found["arms"].items()}}
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ConfigError(f"{path} cannot be read as the record of a comparison; name a new folder") from error
    begun = {name for name in old["arms"] if _begun(plan.folder, name)}
    if begun or (plan.folder / BASE).is_dir():
        _require_same(old["shared"], shared, plan.folder, "")
    for name in begun & {*arms}:
        _require_same(old["arms"][name], arms[name], plan.folder, f" of arm {name!r}")
    check_twins([*old["arms"], *arms], f"--output_dir {str(plan.folder)!r}")
    return {
        "recipe": plan.name, "version": __version__, "shared": shared, "arms": {**old["arms"], **arms},
        "seeds": plan.seeds, "reference": plan.reference,
    }  # fmt: skip


def _begun(folder: Path, arm: str) -> bool:
    seeds = (p.name.removeprefix("seed-") for p in (folder / arm).glob("seed-*") if p.is_dir())
    return any(Run(arm, int(seed), folder).begun for seed in seeds if seed.isdecimal())


def _require_same(old: dict[str, Any], new: dict[str, Any], folder: Path, what: str) -> None:
    for key in sorted(({*old} | {*new}) - _NEUTRAL):
        if old.get(key) != new.get(key):
            was, now = (repr(values[key]) if key in values else "its default" for values in (old, new))
            raise ConfigError(
                f"--output_dir {str(folder)!r} holds runs{what} with {key} {was}, not {now}; "
                "give that, or name a new folder"
            )
