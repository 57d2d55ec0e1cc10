"""Flags and recipes of `escd distill`: every Hugging Face flag, `--config file.yaml`, and one-line errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from trl import ModelConfig, ScriptArguments

from ..errors import ConfigError
from ..evaluation.sampling import Sampling
from ..flags import given_names, read_flags
from ..objectives.options import check_whole, suggest
from .config import ESCDConfig

QUICKSTART = "quickstart"


@dataclass
class DistillArguments(ScriptArguments):
    """What to train on and how to judge it.

    Args:
        dataset_name: Hub id, or a local JSONL, JSON or Parquet file, with a `prompt` column (text or messages).
            `lab/math`, `lab/code` and `lab/science` generate problems of the embedded pair, `lab` the three in turn.
        lab_prompts: Number of prompts that these generate.
        eval_task: Tasks to sample before and after training: names of built-in tasks, or paths of YAML files that
            describe tasks. `lab`: all of the lab.
        eval_problems: Number of problems of each.
        eval_samples: Samples per problem.
        eval_temperature, eval_top_p, eval_top_k: Of their sampling.
        eval_max_new_tokens: Length limit of their responses; by default `max_completion_length`.
        eval_batch_size: Responses generated at once.
        eval_before_from: Folder of a run of the same student, tasks and seed, whose answers from before training are
            taken over instead of being sampled again.
        torch_threads: CPU threads of each process. Models of under some ten million parameters run fastest with 1.
    """

    lab_prompts: int = field(default=4096, metadata={"help": "Number of prompts that the lab generates."})
    eval_task: list[str] | None = field(
        default=None,
        metadata={"help": "Tasks to sample before and after training: names (`lab`: all of the lab) or YAML files."},
    )
    eval_problems: int = field(default=200, metadata={"help": "Number of problems of each task."})
    eval_samples: int = field(default=4, metadata={"help": "Samples per problem in the evaluation."})
    eval_temperature: float = field(default=1.0, metadata={"help": "Temperature of the evaluation; 0 is greedy."})
    eval_top_p: float = field(default=1.0, metadata={"help": "top_p of the evaluation; 1 is off."})
    eval_top_k: int = field(default=0, metadata={"help": "top_k of the evaluation; 0 is off."})
    eval_max_new_tokens: int | None = field(
        default=None, metadata={"help": "Length limit in the evaluation. Default: max_completion_length."}
    )
    eval_batch_size: int = field(default=64, metadata={"help": "Responses generated at once in the evaluation."})
    eval_before_from: str | None = field(
        default=None,
        metadata={"help": "Folder of a run of the same student, tasks and seed, to take its answers before training."},
    )
    torch_threads: int | None = field(
        default=None, metadata={"help": "CPU threads of each process; 1 is best for models of a few million weights."}
    )

    def __post_init__(self):
        if isinstance(self.eval_task, str):
            self.eval_task = [self.eval_task]
        for name in ("lab_prompts", "eval_problems", "eval_batch_size", "torch_threads"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        length = 1 if self.eval_max_new_tokens is None else self.eval_max_new_tokens
        try:
            Sampling(self.eval_samples, self.eval_temperature, self.eval_top_p, self.eval_top_k, length)
        except ConfigError as error:
            raise ConfigError(f"eval_{error}") from error


@dataclass(frozen=True)
class Request:
    """What the command line asks for: arguments, trainer and student configuration, and the folder of the run.

    `output_dir` is what a flag or a recipe names, None if neither does; `run` is the name of the recipe.
    """

    script: DistillArguments
    training: ESCDConfig
    model: ModelConfig
    run: str
    output_dir: str | None


def parse(argv: Sequence[str], prog: str = "escd distill") -> Request:
    """Read flags and recipe.

    Args:
        argv: The flags. With neither a recipe nor a model, the quickstart recipe is taken.
        prog: Name for the help text.

    Raises:
        ConfigError: Unknown flag or key, a value of the wrong kind, an unreadable recipe.
    """
    if not given_names(argv) & {
        "config", "help", "h", "model_name_or_path", "teacher_model_name_or_path", "dataset_name",
    }:  # fmt: skip
        argv = ["--config", QUICKSTART, *argv]
    types = (DistillArguments, ESCDConfig, ModelConfig)
    flags = read_flags(types, argv, prog, find_recipe, ESCDConfig._VALID_DICT_FIELDS)
    script, training, model = flags.values
    _require_all(script, training, model)
    run = flags.config.stem if flags.config else "run"
    return Request(script, training, model, run, training.output_dir if "output_dir" in flags.named else None)


def _require_all(script: DistillArguments, training: ESCDConfig, model: ModelConfig) -> None:
    needed = {
        "--model_name_or_path": (model.model_name_or_path, "the student: a path or hub id"),
        "--teacher_model_name_or_path": (training.teacher_model_name_or_path, "the teacher: a path or hub id"),
        "--dataset_name": (script.dataset_name, "a hub id, or a local JSONL or Parquet file with a prompt column"),
    }
    for flag, (value, meaning) in needed.items():
        if not value:
            raise ConfigError(f"{flag} is missing; give {meaning}")


def find_recipe(name: str, kind: str = "") -> Path:
    """A recipe by path, or one that ships with the package by name.

    Args:
        name: Path or name.
        kind: As for `recipes`.

    Raises:
        ConfigError: There is no such file.
    """
    path = Path(name).expanduser()
    if os.path.isfile(path):  # unlike its own method false for a name that is too long
        return path
    shipped = recipes(kind)
    if path.stem in shipped and path.suffix in ("", ".yaml") and path.parent in (Path(), Path("recipes", kind)):
        return shipped[path.stem]
    raise ConfigError(f"recipe {name!r}: there is no such file{suggest(path.stem, sorted(shipped))}")


def recipes(kind: str = "") -> dict[str, Path]:
    """The recipes that ship with the package: name -> file.

    Args:
        kind: Subfolder: none for recipes of a run, "compare" for those of a comparison.
    """
    inside = Path(str(files("escd"))) / "recipes"
    # In a checkout they lie at its root.
    folder = inside if inside.is_dir() else Path(__file__).parents[3] / "recipes"
    return {p.stem: p for p in sorted((folder / kind).glob("*.yaml"))}
