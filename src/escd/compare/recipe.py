"""A recipe and the flags after it become a plan: arms, seeds, and the flags of every run, all checked beforehand."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import yaml

from ..errors import ConfigError
from ..evaluation.tasks import load_tasks
from ..flags import name_of, read_mapping, split_equals
from ..models import check_path, path_of
from ..objectives import objective_names
from ..objectives.base import objective_class
from ..objectives.options import check_whole, suggest, told
from ..training.arguments import Request, find_recipe, parse
from ..training.data import load_prompts

OWN = ("arms", "seeds", "reference", "output_dir", "processes")
# Flags that a comparison sets for each run itself.
_SET = {
    "seed": "a comparison sets it from `seeds`", "data_seed": "a comparison sets it from `seeds`",
    "resume_from_checkpoint": "a comparison resumes its runs by itself",
    "eval_before_from": "a comparison evaluates the base student once per seed by itself",
    "config": "a comparison has one recipe",
    "push_to_hub": "the runs would overwrite each other there", "hub_token": "a comparison pushes nothing",
}  # fmt: skip
# What makes arms comparable: the same student, prompts in the same order, rollout budget, sampling and evaluation.
_SAME = frozenset({
    "model_name_or_path", "model_revision", "model_init_kwargs", "dtype", "chat_template_kwargs",
    "dataset_name", "dataset_config", "dataset_train_split", "dataset_streaming", "lab_prompts", "shuffle_dataset",
    "eval_task", "eval_problems", "eval_samples", "eval_temperature", "eval_top_p", "eval_top_k",
    "eval_max_new_tokens",
    "max_steps", "num_train_epochs", "per_device_train_batch_size", "gradient_accumulation_steps",
    "max_completion_length", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "generation_kwargs",
})  # fmt: skip
BASE = "base"  # folder of the untrained student's answers
# What a comparison itself writes into its output folder, where each arm has a folder.
TAKEN = frozenset({
    BASE, "comparison.md", "comparison.html", "comparison.json", "comparison.csv", "curves.png", "table.csv",
    "attempts.jsonl",
})  # fmt: skip
_LONGEST = 60  # characters of a name: as the name of a folder at most 240 bytes


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Attributes:
        name: Of the recipe.
        folder: Output folder.
        shared: Flags of all runs, without dashes.
        arms: Flags of each arm that differ.
        overrides: Flags from the command line, as they were given.
        seeds: Of the runs.
        reference: Arm that the others are compared with.
        processes: Runs at a time.
        requests: Each arm's flags, parsed.
    """

    name: str
    folder: Path
    shared: dict[str, Any]
    arms: dict[str, dict[str, Any]]
    overrides: tuple[str, ...]
    seeds: tuple[int, ...]
    reference: str
    processes: int
    requests: dict[str, Request]

    def content(self, arm: str, seed: int) -> dict[str, Any]:
        """The recipe of one run for `escd distill`, to which the overrides are added as flags."""
        return _content(self.shared, self.arms[arm], seed)

    @property
    def steps(self) -> int:
        """Steps of a run, 0 if epochs decide it."""
        return max(self.requests[self.reference].training.max_steps, 0)

    def settings(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """What the runs are made with: values that differ from their defaults, those of all arms and those of each."""
        given = {*self.shared, *(name_of(w) for w in self.overrides if w.startswith("--"))} - {"env"}
        shared = {}
        for key in sorted(given):
            holders = [arm for arm, own in self.arms.items() if key not in own]
            if holders:
                shared |= _resolved(self.requests[holders[0]], [key])
        return shared, {arm: _resolved(self.requests[arm], sorted({*own} - {"env"})) for arm, own in self.arms.items()}


def read_plan(argv: Sequence[str]) -> Plan:
    """Read a recipe and the flags after it.

    Raises:
        ConfigError: Anything in them that no run could be started with.
    """
    if not argv or argv[0].startswith("-"):
        raise ConfigError("the recipe comes first: escd compare RECIPE.yaml [flags]")
    path = find_recipe(argv[0], "compare")
    given, overrides = _split(argv[1:])
    written = read_mapping(path, "the recipe of a comparison is a YAML mapping")
    content = {**written, **given}
    missing = [key for key in ("arms", "seeds", "reference", "eval_task") if content.get(key) is None]
    if "eval_task" in missing and "--eval_task" in overrides:
        missing.remove("eval_task")
    if missing:
        raise ConfigError(f"{path}: {', '.join(missing)} missing; a comparison needs {_MEANING[missing[0]]}")
    shared = {key: value for key, value in content.items() if key not in OWN}
    arms = _arms(content["arms"], written.get("arms"), str(path))
    _check_flags(shared, arms, overrides, str(path))
    seeds = _seeds(content["seeds"], str(path))
    reference = content["reference"]
    if not isinstance(reference, str) or reference not in arms:
        raise ConfigError(f"reference {reference!r} is none of the arms that run{suggest(str(reference), list(arms))}")
    folder = content.get("output_dir")
    if folder is None:
        folder = f"runs/compare-{path.stem}"
    if not isinstance(folder, str) or not folder:
        raise ConfigError(f"{path}: output_dir: {folder!r} is no folder; name one")
    requests = _parse(path, shared, arms, overrides, seeds[0])
    if not requests[reference].script.eval_task:
        raise ConfigError(f"{path}: eval_task names no task; a comparison needs {_MEANING['eval_task']}")
    _check_inputs(requests, seeds[0])
    processes = _processes(content.get("processes"), requests[reference].script.torch_threads)
    return Plan(
        path.stem, Path(os.path.expanduser(folder)), shared, arms, tuple(overrides), seeds, reference, processes,
        requests,
    )  # fmt: skip


_MEANING = {
    "arms": "arms, e.g. `arms: [escd, bpm]`",
    "seeds": "seeds, e.g. `seeds: [1, 2, 3]` or `seeds: 3`",
    "reference": "the arm that the others are compared with, e.g. `reference: escd`",
    "eval_task": "a task that judges the students, e.g. `eval_task: lab`",
}


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are `ConfigError`s."""

    def error(self, message: str):  # type: ignore[override]
        raise ConfigError(message)


def _split(argv: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The comparison's own flags with their values, and the words that go to every run."""
    own, rest = [], []
    target = rest
    for word in split_equals(argv):
        if word.startswith("--"):
            target = own if name_of(word) in OWN else rest
        target.append(word)
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--arms", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--reference")
    parser.add_argument("--output_dir", "--output-dir")
    parser.add_argument("--processes", type=int)
    given = {key: value for key, value in vars(parser.parse_args(own)).items() if value is not None}
    if rest and not rest[0].startswith("--"):
        raise ConfigError(f"unknown argument {rest[0]!r}; a comparison has one recipe, and flags after it")
    return given, rest


def _arms(given: Any, written: Any, where: str) -> dict[str, dict[str, Any]]:
    """Arms by name; names from the command line choose among those of the recipe."""
    every = _mapping(written if written is not None else given, where)
    if isinstance(given, list):
        unknown = [name for name in given if name not in every]
        if unknown:
            raise ConfigError(f"--arms {unknown[0]!r} is none of the arms{suggest(str(unknown[0]), list(every))}")
        twice = [name for name in given if given.count(name) > 1]
        if twice:
            raise ConfigError(f"--arms names {twice[0]!r} twice")
        return {name: every[name] for name in given}
    return every


def _mapping(written: Any, where: str) -> dict[str, dict[str, Any]]:
    if isinstance(written, list):
        if twice := [name for name in written if written.count(name) > 1]:
            raise ConfigError(f"{where}: arms names {twice[0]!r} twice")
        for name in written:
            if name not in objective_names():
                hint = suggest(str(name), objective_names())
                raise ConfigError(f"{where}: arms: {name!r} is no objective{hint}; for other flags give a mapping")
        written = {name: {"objective": name} for name in written}
    if not isinstance(written, dict) or not written:
        raise ConfigError(f"{where}: arms is a mapping of names to flags, or a list of objectives")
    for name, own in written.items():
        if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*", name) or len(name) > _LONGEST:
            raise ConfigError(
                f"{where}: arm {told(name)}: a name has letters, digits and . _ + -, {_LONGEST} characters at most"
            )
        if name.casefold() in TAKEN:
            raise ConfigError(f"{where}: arm {name!r}: a comparison writes something else there; rename the arm")
        if own is not None and not isinstance(own, dict):
            raise ConfigError(f"{where}: arm {name!r}: give a mapping of flags, e.g. {{objective: escd}}")
    check_twins(written, where)
    return {name: dict(own or {}) for name, own in written.items()}


def check_twins(names: Iterable[str], where: str) -> None:
    """Raise `ConfigError` for two arms that would share a folder on a disk where upper and lower case are the same."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise ConfigError(f"{where}: arms {other!r} and {name!r} differ in case only; rename one")


def _check_flags(shared: dict[str, Any], arms: dict[str, dict[str, Any]], overrides: list[str], where: str) -> None:
    """Raise for flags that a comparison sets itself, and for arms that could not be compared."""
    places = [(where, shared), *((f"{where}: arm {name!r}", own) for name, own in arms.items())]
    words = {name_of(word) for word in overrides if word.startswith("--")}
    for place, keys in [*places, ("command line", words)]:
        for key in _SET:
            if key in keys:
                raise ConfigError(f"{place}: {key} cannot be given; {_SET[key]}")
    for name, own in arms.items():
        if fixed := sorted(_SAME & {*own}):
            raise ConfigError(
                f"{where}: arm {name!r}: {fixed[0]} must be the same for all arms; move it out of the arm"
            )
        if "output_dir" in own:
            raise ConfigError(f"{where}: arm {name!r}: output_dir is that of the comparison; move it out of the arm")
        if both := sorted(words & {*own}):
            raise ConfigError(f"--{both[0]} would override what makes arm {name!r} differ; change it in the recipe")


def _seeds(given: Any, where: str) -> tuple[int, ...]:
    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32

    if whole(given) and 1 <= given <= 1000:
        return tuple(range(1, given + 1))
    if not isinstance(given, list) or not given or not all(whole(s) for s in given):
        raise ConfigError(f"{where}: seeds: {given!r} is no list of whole numbers from 0 on, nor how many (1 to 1000)")
    if twice := [seed for seed in given if given.count(seed) > 1]:
        raise ConfigError(f"seed {twice[0]} is there twice; a repeated run is no new evidence")
    return tuple(given)


def _processes(given: Any, threads: int | None) -> int:
    if given is None:
        if torch.accelerator.is_available():
            return 1  # they would share its memory
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(available // (threads or torch.get_num_threads()), 1)
    return check_whole("processes", given)


def _content(shared: Mapping[str, Any], own: Mapping[str, Any], seed: int) -> dict[str, Any]:
    return {**shared, **own, "seed": seed, "data_seed": seed}


def _parse(
    path: Path, shared: Mapping[str, Any], arms: Mapping[str, Mapping[str, Any]], overrides: Sequence[str], seed: int
) -> dict[str, Request]:
    """Every arm's flags as `escd distill` will read them."""
    requests, errors, environment = {}, {}, os.environ.copy()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, own) in enumerate(arms.items()):
            recipe = Path(folder) / f"{number}.yaml"
            recipe.write_text(yaml.safe_dump(_content(shared, own, seed)))
            try:
                requests[name] = parse(["--config", str(recipe), *overrides], "escd compare")
            except ConfigError as error:
                errors[name] = str(error).replace(str(recipe), str(path))
            finally:
                # Reading a recipe sets the variables of its `env`, which are those of one arm.
                os.environ.clear()
                os.environ.update(environment)
    if len({*errors.values()}) == 1 and len(errors) == len(arms):
        raise ConfigError(next(iter(errors.values())))
    if errors:
        raise ConfigError("; ".join(f"arm {name!r}: {error}" for name, error in errors.items()))
    return requests


def _check_inputs(requests: Mapping[str, Request], seed: int) -> None:
    """Raise for models, prompts and tasks that are not there."""
    for request in requests.values():
        check_path(path_of(str(request.model.model_name_or_path)), "student")
        check_path(path_of(str(request.training.teacher_model_name_or_path)), "teacher")
    script = next(iter(requests.values())).script
    from_dataset = any(objective_class(r.training.objective).source == "dataset" for r in requests.values())
    load_prompts(script, seed, completions=from_dataset)
    load_tasks(script.eval_task or [], limit=script.eval_problems, seed=seed)


def _resolved(request: Request, keys: Sequence[str]) -> dict[str, Any]:
    """The values of flags after parsing, without those that are the default anyway."""
    found = {}
    for key in keys:
        for config in (request.script, request.training, request.model):
            # `--no_flag` is how Hugging Face's parser turns a flag off.
            for field in fields(config):
                if field.name in (key, key.removeprefix("no_")) and getattr(config, field.name) != field.default:
                    value = getattr(config, field.name)
                    found[field.name] = value if isinstance(value, (str, int, float, bool, list, dict)) else str(value)
    return found
