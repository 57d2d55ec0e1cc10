"""The teacher of a run: a model in this process, or one that servers hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import PreTrainedModel

from ..errors import TeacherError
from ..models import load_model
from ..teachers.served import RowCache, VLLMTeacher
from .config import ESCDConfig, as_dict
from .folders import last_checkpoint

# Folder of rows in the output folder. The underscore keeps it from being pushed to the hub with the student.
ROWS = "_teacher_rows"


def load_teacher(name: str, args: ESCDConfig) -> PreTrainedModel | VLLMTeacher:
    """The teacher of a checkpoint: its model, or if servers hold that, the teacher that asks them.

    Raises:
        ConfigError: It cannot be loaded.
    """
    if not args.teacher_server_url:
        kwargs = {
            "dtype": "auto", "trust_remote_code": args.trust_remote_code, "revision": args.teacher_model_revision,
            **as_dict(args.teacher_model_init_kwargs),
        }  # fmt: skip
        return load_model(name, "teacher", **kwargs)
    cache = None
    if args.teacher_cache_megabytes:
        folder = args.teacher_cache_dir or Path(str(args.output_dir), ROWS)
        cache = RowCache(folder, args.teacher_cache_megabytes * 2**20)
    return VLLMTeacher(
        name, args.teacher_server_url, served_name=args.teacher_server_model, dtype=args.teacher_server_dtype,
        top_k=args.teacher_top_k,
        revision=args.teacher_model_revision, trust_remote_code=bool(args.trust_remote_code), cache=cache,
        deadline=args.teacher_server_timeout,
    )  # fmt: skip


@contextmanager
def nothing_learnt(step: int, output_dir: str) -> Iterator[None]:
    """Add to an error of the teacher in a step what became of the run."""
    try:
        yield
    except TeacherError as error:
        saved = last_checkpoint(output_dir)
        rest = (
            f"{saved} is intact: resume with --resume_from_checkpoint true" if saved else "no checkpoint was due yet"
        )
        raise TeacherError(f"{error} (step {step}); nothing was learnt from this step; {rest}") from error
