"""The folder of a run: a new one, or one that is resumed from its newest complete checkpoint."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import ConfigError


def choose_output_dir(given: str | None, run: str, resume: str | bool | None) -> str:
    """The folder of this run.

    Args:
        given: What the user asked for; by default `runs/<run>`, numbered if that is taken.
        run: Name of the run.
        resume: The value of `--resume_from_checkpoint`.

    Raises:
        ConfigError: The folder holds another run and this one does not resume it, or there is nothing to resume.
    """
    if given is None and not resume:
        folder, number = f"runs/{run}", 2
        while os.path.isdir(folder) and os.listdir(folder):
            folder, number = f"runs/{run}-{number}", number + 1
        return folder
    folder = f"runs/{run}" if given is None else given
    if not folder or os.path.isfile(folder):
        raise ConfigError(f"--output_dir {folder!r} is no folder; name one")
    taken = os.path.isdir(folder) and bool(os.listdir(folder))
    if resume is True and last_checkpoint(folder) is None:
        raise ConfigError(
            f"--resume_from_checkpoint: {folder!r} holds no complete checkpoint; start without it, in a new folder"
        )
    if isinstance(resume, str):
        if missing := _missing(Path(resume)):
            raise ConfigError(f"--resume_from_checkpoint {resume!r} is no checkpoint (it has no {', '.join(missing)})")
        if checkpoint_step(resume) is None or Path(resume).resolve().parent != Path(folder).resolve():
            raise ConfigError(f"--resume_from_checkpoint {resume!r} is not of the run in --output_dir {folder!r}")
    if taken and not resume:
        raise ConfigError(
            f"--output_dir {folder!r} holds another run; name a new folder, or continue it with "
            "--resume_from_checkpoint true"
        )
    return folder


# Without one of these a run could not go on as it was.
_CHECKPOINT = ("trainer_state.json", "optimizer.pt", "scheduler.pt")


def last_checkpoint(folder: str) -> str | None:
    """The newest complete checkpoint of a run; one that was cut off while it was written does not count."""
    paths = Path(folder).glob("checkpoint-*") if os.path.isdir(folder) else ()
    steps = {p: checkpoint_step(p) for p in paths if not _missing(p)}
    found = {step: p for p, step in steps.items() if step is not None}
    return str(found[max(found)]) if found else None


def checkpoint_step(path: str | Path) -> int | None:
    """The step that a checkpoint's folder is named after, None if it is not named like one."""
    found = re.fullmatch(r"checkpoint-(\d+)", Path(path).name)
    return int(found.group(1)) if found else None


def _missing(checkpoint: Path) -> list[str]:
    # Unlike the method of a path, false for one that is too long.
    return [name for name in _CHECKPOINT if not os.path.isfile(checkpoint / name)]


def resume_value(text: str | None) -> str | bool | None:
    """`--resume_from_checkpoint`: true for the last checkpoint of the output folder, or the path of one."""
    if text is None or text.lower() in ("false", "none", "no", "0"):
        return None
    return True if text.lower() in ("true", "yes", "1", "last") else text
