"""`escd eval`: sample a model on tasks, grade, and score, into one folder."""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import transformers
from filelock import FileLock, Timeout

from .. import __version__, datasets_by_name
from ..errors import ConfigError
from ..files import write_whole
from ..flags import json_mapping
from ..models import check_path, load_model, load_tokenizer, path_of
from .arguments import EvalArguments, parse
from .run import evaluate
from .scores import Scores
from .tasks import Task, load_tasks

_VERSIONS = ("torch", "transformers", "tokenizers", "datasets", "math-verify", "pint")


def main(argv: Sequence[str]) -> None:
    """Run `escd eval`.

    Raises:
        EscdError: Anything about flags, tasks, datasets, the model or the folder that the user can mend.
    """
    args = parse(argv)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    datasets_by_name.quiet()
    if args.torch_threads:
        torch.set_num_threads(args.torch_threads)
    folder = Path(args.output_dir or f"runs/eval/{_short(str(args.model_name_or_path))}").expanduser()
    results = _Results(folder, _settings(args), args.overwrite)
    tasks = load_tasks(args.tasks or [], limit=args.limit, seed=args.seed, dataset_path=args.dataset_path)
    model, tokenizer = _load(args)
    with _own_folder(folder):
        if args.overwrite:
            results.clear(tasks)
        for task in tasks:
            found = evaluate(
                model, tokenizer, task, folder / f"{task.file_name}.jsonl", samples=args.samples,
                temperature=args.temperature, top_p=args.top_p, top_k=args.top_k, seed=args.seed,
                max_new_tokens=args.max_new_tokens, batch_size=args.batch_size, description=task.name,
                chat_template_kwargs=_template_kwargs(args),
            )  # fmt: skip
            results.add(task, found)
    print(f"\n{table({task.name: results.scores[task.name] for task in tasks})}\n")
    print(f"samples   {', '.join(str(folder / f'{task.file_name}.jsonl') for task in tasks)}")
    print(f"results   {results.path}")


class _Results:
    """`results.json`: settings, scores of every task of the folder, versions.

    Raises:
        ConfigError: The folder holds results with other settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], overwrite: bool):
        self.path, self.settings = folder / "results.json", settings
        self.scores: dict[str, Scores] = {}
        self._tasks: dict[str, Any] = {}
        if not os.path.isfile(self.path) or overwrite:
            return
        try:
            content = json.loads(self.path.read_bytes())
            before, self._tasks = dict(content["settings"]), dict(content["tasks"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise ConfigError(f"{self.path} cannot be read; use another folder or --overwrite") from None
        for name, value in settings.items():
            if before.get(name) != value:
                raise ConfigError(
                    f"{str(folder)!r} holds results with {name} {json.dumps(before.get(name))}, not "
                    f"{json.dumps(value)}; use the same settings, another --output_dir, or --overwrite"
                )

    def clear(self, tasks: Sequence[Task]) -> None:
        """Remove what is there, of these tasks the samples too: a run that is broken off can then be continued."""
        stale = [self.path]
        for task in tasks:
            stale += [self.path.with_name(f"{task.file_name}{ending}") for ending in (".jsonl", ".settings.json")]
        try:
            for path in stale:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{error.filename} cannot be removed: {error.strerror}") from error

    def add(self, task: Task, found: Scores) -> None:
        """Write the scores of a task."""
        self.scores[task.name] = found
        self._tasks[task.name] = {
            "file": f"{task.file_name}.jsonl", "description": task.description, "problems": found.problems,
            "samples": found.samples, "scores": {name: asdict(s) for name, s in found.named().items()},
        }  # fmt: skip
        content = {"settings": self.settings, "tasks": self._tasks, "versions": _versions()}
        try:
            write_whole(self.path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror or error}") from error


def table(found: Mapping[str, Scores]) -> str:
    """Scores of tasks in columns.

    >>> from escd.evaluation.scores import Score
    >>> print(table({"lab/math": Scores(2, 1, Score(0.5, 0.0, 1.0), {1: Score(0.5, 0.0, 1.0)})}))
    task      problems  samples  measure     score  95 % interval
    lab/math         2        1  avg@1      50.0 %  [ 0.0, 100.0]
                                 pass@1     50.0 %  [ 0.0, 100.0]
    """
    width = max(len("task"), *map(len, found))
    lines = [f"{'task':{width}}  problems  samples  {'measure':8}  {'score':>7}  95 % interval"]
    for name, scores in found.items():
        told = f"{name:{width}}  {scores.problems:8,}  {scores.samples:7}"
        for measure, score in scores.named().items():
            low, high = (f"{100 * x:4.1f}" for x in (score.low, score.high))
            lines.append(f"{told}  {measure:8}  {100 * score.accuracy:5.1f} %  [{low}, {high}]")
            told = " " * len(told)
    return "\n".join(lines)


def _load(args: EvalArguments) -> tuple[Any, Any]:
    name = str(args.model_name_or_path)
    source = path_of(name)
    check_path(source, "model", adapters=True)
    shared = {"revision": args.model_revision, "trust_remote_code": args.trust_remote_code}
    tokenizer = load_tokenizer(source, "model", padding_side="left", **shared)
    model = load_model(source, "model", dtype=args.dtype, attn_implementation=args.attn_implementation, **shared)
    rows = len(model.get_output_embeddings().weight)  # type: ignore[union-attr]
    if rows < len(tokenizer):
        raise ConfigError(
            f"model {name!r}: its lm_head has {rows} rows but its tokenizer has {len(tokenizer)} ids; this tokenizer "
            "belongs to another model"
        )
    if torch.accelerator.is_available():
        model.to(torch.accelerator.current_accelerator())  # type: ignore[arg-type]
    return model, tokenizer


def _settings(args: EvalArguments) -> dict[str, Any]:
    """What all results of a folder have in common."""
    names = (
        "samples", "temperature", "top_p", "top_k", "max_new_tokens", "limit", "seed", "dataset_path", "dtype",
        "model_revision", "attn_implementation",
    )  # fmt: skip
    settings = {"model": args.model_name_or_path, **{name: getattr(args, name) for name in names}}
    return {**settings, "chat_template_kwargs": _template_kwargs(args)}


def _template_kwargs(args: EvalArguments) -> dict[str, Any]:
    return json_mapping("chat_template_kwargs", args.chat_template_kwargs)


def _short(model: str) -> str:
    """A model's name as a folder: the last part of a path, a hub id without its slash."""
    path = Path(model).expanduser()
    return path.resolve().name if path.is_dir() else model.replace("/", "-")


def _versions() -> dict[str, str]:
    found = {"escd": __version__, "python": platform.python_version()}
    for package in _VERSIONS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@contextmanager
def _own_folder(folder: Path) -> Iterator[None]:
    """The folder to this process alone; if nothing was written into it, it goes again."""
    made = [p for p in (folder, *folder.parents) if not os.path.exists(p)]
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=0):
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
    except Timeout:
        raise ConfigError(f"{str(folder)!r}: another escd eval writes there; wait, or name another folder") from None
    except OSError as error:
        raise ConfigError(f"--output_dir {str(folder)!r} cannot be written to: {error.strerror or error}") from error
    finally:
        for path in made:
            if os.path.isdir(path) and not os.listdir(path):
                path.rmdir()
