"""Flags and recipes of `escd distill`: every Hugging Face flag, `--config file.yaml`, and one-line errors."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from trl import ModelConfig, ScriptArguments, TrlParser

from ..errors import ConfigError, EscdError
from ..objectives.base import suggest
from .config import ESCDConfig
from .loading import first_line

QUICKSTART = "quickstart"


@dataclass
class DistillArguments(ScriptArguments):
    """What to train on and how to judge it.

    Args:
        dataset_name: Hub id, or a local JSONL, JSON or Parquet file, with a `prompt` column (text or messages).
            `lab/math`, `lab/code` and `lab/science` generate problems of the embedded pair, `lab` the three in turn.
        lab_prompts: Number of prompts that these generate.
        eval_task: Task to sample before and after training. `lab`: held-out arithmetic word problems.
        eval_problems: Number of its problems.
        eval_samples: Samples per problem at temperature 1.
        eval_before_from: Folder of a run of the same student, task and seed, whose answers from before training are
            taken over instead of being sampled again.
        torch_threads: CPU threads of each process. Models of under some ten million parameters run fastest with 1.
    """

    lab_prompts: int = field(default=4096, metadata={"help": "Number of prompts that the lab generates."})
    eval_task: str | None = field(
        default=None, metadata={"help": "Task to sample before and after training: `lab`, or none."}
    )
    eval_problems: int = field(default=200, metadata={"help": "Number of problems of the evaluation."})
    eval_samples: int = field(default=4, metadata={"help": "Samples per problem, at temperature 1."})
    eval_before_from: str | None = field(
        default=None,
        metadata={"help": "Folder of a run of the same student, task and seed, to take its answers before training."},
    )
    torch_threads: int | None = field(
        default=None, metadata={"help": "CPU threads of each process; 1 is best for models of a few million weights."}
    )

    def __post_init__(self):
        if self.eval_task not in (None, "lab"):
            raise ConfigError(f"eval_task={self.eval_task!r} is unknown{suggest(self.eval_task, ['lab'])}")
        for name in ("lab_prompts", "eval_problems", "eval_samples", "torch_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value} must be at least 1")


class _Parser(TrlParser):
    """`TrlParser` whose complaints are `ConfigError`s that suggest the nearest flag."""

    def error(self, message: str):  # type: ignore[override]
        raise ConfigError(message)

    def known_flags(self) -> list[str]:
        return sorted({o for action in self._actions for o in action.option_strings if o.startswith("--")})


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
    types: Any = (DistillArguments, ESCDConfig, ModelConfig)
    parser = _Parser(types, prog=prog, allow_abbrev=False)
    args = _split_equals(argv)
    given = {a.lstrip("-").replace("-", "_") for a in args if a.startswith("-")}
    if not given & {"config", "help", "h", "model_name_or_path", "teacher_model_name_or_path", "dataset_name"}:
        args = ["--config", QUICKSTART, *args]
    run, content = "run", {}
    if args.count("--config") > 1:
        raise ConfigError("--config is given twice; a run has one recipe")
    if "--config" in args:
        position = args.index("--config") + 1
        if position >= len(args) or args[position].startswith("--"):
            raise ConfigError("--config needs the path of a YAML recipe")
        recipe = find_recipe(args[position])
        content = _read_recipe(recipe, parser)
        args[position] = str(recipe)
        run = recipe.stem
    try:
        script, training, model = parser.parse_args_and_config(args)  # type: ignore[misc]
    except EscdError:
        raise
    except (ValueError, TypeError, ImportError, OSError, RuntimeError) as error:
        unknown = re.search(r"not used by the HfArgumentParser: \['([^']*)'", str(error))
        if unknown:
            word = unknown.group(1)
            kind = "flag" if word.startswith("-") else "argument"
            raise ConfigError(f"unknown {kind} {word!r}{suggest(word, parser.known_flags(), full=False)}") from error
        raise ConfigError(first_line(error)) from error
    _require_all(script, training, model)
    named = "output_dir" in content or "output_dir" in given
    return Request(script, training, model, run, training.output_dir if named else None)


def _split_equals(argv: Sequence[str]) -> list[str]:
    """`--flag=value` as two words, so that `--config=x.yaml` is seen too."""
    return [word for arg in argv for word in (arg.split("=", 1) if re.match(r"--[\w-]+=", arg) else [arg])]


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
    if path.is_file():
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


class _UniqueKeys(yaml.SafeLoader):
    """A loader that does not let the second of two equal keys win in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_mapping(path: Path, what: str) -> dict[Any, Any]:
    """The content of a YAML file.

    Args:
        path: The file.
        what: What a file of its kind is, for the message.

    Raises:
        ConfigError: It is not readable, no mapping, or has a key twice.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError, OSError, TypeError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: {what}")
    return content


def _read_recipe(recipe: Path, parser: _Parser) -> dict[str, Any]:
    """The content of a recipe, each value of a kind that its flag takes."""
    content = read_mapping(recipe, "a recipe is a YAML mapping of flags to values")
    actions = {action.dest: action for action in parser._actions if action.dest != "help"}
    env = content.get("env", {})
    if not isinstance(env, dict) or any(isinstance(v, (dict, list)) for v in env.values()):
        raise ConfigError(f"{recipe}: env must be a mapping of environment variables to values")
    for key, value in content.items():
        if key == "env":
            continue
        if key not in actions:
            raise ConfigError(f"{recipe}: unknown key {key!r}{suggest(str(key), sorted(actions), full=False)}")
        if not _fits(parser, actions[key], value):
            raise ConfigError(f"{recipe}: {key}: {value!r} is not a value for --{key}")
    return content


def _fits(parser: _Parser, action: Any, value: Any) -> bool:
    """Whether a YAML value is one that the flag would take as text."""
    if value is None:
        return action.default is None
    if isinstance(value, dict):
        return action.dest in ESCDConfig._VALID_DICT_FIELDS
    if isinstance(value, list):
        return action.nargs == "+" and all(_fits_scalar(parser, action, v) for v in value)
    return _fits_scalar(parser, action, value)


def _fits_scalar(parser: _Parser, action: Any, value: Any) -> bool:
    if isinstance(value, (dict, list)) or value is None:
        return False
    try:
        converted = parser._get_value(action, str(value))
    except argparse.ArgumentError:
        return False
    # YAML reads 1e-4 as text, which the flag turns into a number; a number is no text.
    return not isinstance(converted, str) or isinstance(value, (str, bool)) or action.choices is not None
