"""From the name of a task to its problems."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import datasets_by_name
from ...errors import ConfigError
from ...objectives.options import suggest
from ..graders import grader
from ..graders.cases import cases_of
from ..graders.records import fault
from . import lab
from .base import Question, Task
from .recipe import Recipe, read_recipe

_FOLDER = Path(__file__).parent
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def task_names() -> list[str]:
    """Names of the built-in tasks."""
    return [*lab.NAMES, *sorted(path.stem for path in _FOLDER.glob("*.yaml"))]


def load_tasks(
    names: Sequence[str], *, limit: int | None = None, seed: int = 0, dataset_path: str | None = None
) -> list[Task]:
    """Several tasks, `lab` being all of the lab; the arguments are those of `load_task`.

    Raises:
        ConfigError: As in `load_task`; two tasks of one name; a dataset for several tasks.
    """
    wanted = list(dict.fromkeys(n for name in names for n in (lab.NAMES if name == "lab" else [name])))
    if dataset_path is not None and len(wanted) > 1:
        raise ConfigError(f"dataset_path is for one task, not for {', '.join(wanted)}")
    tasks = [load_task(name, limit=limit, seed=seed, dataset_path=dataset_path) for name in wanted]
    files = [task.file_name for task in tasks]
    for name, file in zip(wanted, files, strict=True):
        if files.count(file) > 1:
            raise ConfigError(f"task {name!r} and another would both be written to {file}.jsonl; rename one")
    return tasks


def load_task(name: str, *, limit: int | None = None, seed: int = 0, dataset_path: str | None = None) -> Task:
    """A task with its problems.

    Args:
        name: A built-in task, or the path of a YAML file that describes one.
        limit: Number of problems, the first ones; all (in the lab 200) by default.
        seed: Of the problems of the lab, and of the order of choices.
        dataset_path: A local file with the columns of the task's dataset, to read instead of it.

    Raises:
        ConfigError: Unknown task, a mistake in its file, a dataset that is missing, empty or lacks a column, a grader
            that is unknown or not installed.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"limit={limit} must be at least 1")
    if name in lab.NAMES:
        if dataset_path is not None:
            raise ConfigError(f"task {name!r} generates its problems; it takes no dataset_path")
        task = lab.lab_task(name, limit, seed)
        grader(task.grader).load()
        return task
    recipe = read_recipe(_find(name))
    grader(recipe.grader).load()
    shown = name if recipe.path.parent == _FOLDER else recipe.path.stem
    questions = _questions(recipe, shown, limit, seed, dataset_path)
    return Task(shown, recipe.grader, tuple(questions), recipe.max_new_tokens, recipe.description)


def _find(name: str) -> Path:
    path = Path(name).expanduser()
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise ConfigError(f"task {name!r}: there is no such file")
        return path
    inside = _FOLDER / f"{name}.yaml"
    if name not in task_names() or not inside.is_file():
        raise ConfigError(f"unknown task {name!r}, which is no YAML file either{suggest(name, task_names())}")
    return inside


def _questions(recipe: Recipe, name: str, limit: int | None, seed: int, dataset_path: str | None) -> list[Question]:
    source, config, split = recipe.dataset_name, recipe.dataset_config, recipe.split
    beside = recipe.path.parent / source
    local = dataset_path is not None or beside.exists() or Path(source).suffix in datasets_by_name.FORMATS
    if local or not source.strip():
        source, config, split = str(beside if dataset_path is None else dataset_path), None, "train"
        if os.path.isdir(source) or not source:
            key = "dataset_name" if dataset_path is None else "dataset_path"
            told = dataset_path if dataset_path is not None else recipe.dataset_name
            raise ConfigError(
                f"task {name!r}: {key} {told!r} is no file; name a {', '.join(datasets_by_name.FORMATS)} file"
                f"{'' if dataset_path is not None else ' or a dataset of the hub'}"
            )
    try:
        data = datasets_by_name.load(source, config, split, split_flag=f"split in {recipe.path.name}")
    except ConfigError as error:
        raise ConfigError(f"task {name!r}: {error}") from error
    columns = data.column_names or []
    lacking = sorted(recipe.columns - set(columns))
    if lacking:
        raise ConfigError(
            f"task {name!r}: dataset {source!r} has no column {lacking[0]!r}; its columns are {', '.join(columns)}"
        )
    questions: list[Question] = []
    for number, row in enumerate(data):
        if len(questions) == limit:
            break
        if recipe.where is None or recipe.where(row, number):
            questions.append(_question(recipe, row, number, seed))
    if not questions:
        raise ConfigError(f"task {name!r}: dataset {source!r} has no problem")
    ids = [question.id for question in questions]
    if len(set(ids)) < len(ids):
        twice = next(i for i in ids if ids.count(i) > 1)
        raise ConfigError(f"{recipe.path}: id: {twice!r} names more than one problem")
    return questions


def _question(recipe: Recipe, row: Mapping[str, Any], number: int, seed: int) -> Question:
    where = f"{recipe.path}: row {number}"
    found = number if recipe.id is None else recipe.id(row, number)
    if type(found) is not int and not (isinstance(found, str | float) and str(found).strip()):
        raise ConfigError(f"{where}: id must be a text or a whole number, not {str(found)[:60]!r}")
    name = found if isinstance(found, int) else str(found)
    record = {key: expression(row, number) for key, expression in recipe.record.items()}
    values: dict[str, Any] = dict(row)
    if recipe.choices or recipe.shuffled:
        texts, record["answer"] = _choices(recipe, row, number, f"{seed}-{name}", record)
        record["choices"] = texts
        values["lettered_choices"] = "\n".join(f"{le}) {t}" for le, t in zip(_LETTERS, texts, strict=False))
    for key in grader(recipe.grader).needs:
        if record.get(key) is None or record[key] == "":
            raise ConfigError(f"{recipe.path}: {key}: row {number} has none")
    if wrong := fault(recipe.grader, record):
        raise ConfigError(f"{where}: {wrong}")
    if recipe.grader == "stdio":
        record["cases"] = cases_of(record["cases"])
    prompt = [{"role": role, "content": template(values, number)} for role, template in recipe.prompt]
    if not prompt[-1]["content"].strip():
        raise ConfigError(f"{where}: the prompt is empty")
    return Question(name, prompt, record)


def _choices(
    recipe: Recipe, row: Mapping[str, Any], number: int, seed: str, record: Mapping[str, Any]
) -> tuple[list[str], str]:
    """Texts of the choices, and the letter of the right one."""
    where = f"{recipe.path}: row {number}"
    if recipe.choices:
        texts, answer = _texts(recipe.choices(row, number), where), str(record["answer"]).strip()
        if answer not in _LETTERS[: len(texts)]:
            raise ConfigError(f"{where}: answer is {answer!r}, not the letter of one of {len(texts)} choices")
        return texts, answer
    assert recipe.shuffled is not None
    correct, incorrect = (expression(row, number) for expression in recipe.shuffled)
    right, *texts = _texts([correct, *incorrect] if isinstance(incorrect, list) else incorrect, where)
    texts = [right, *texts]
    random.Random(seed).shuffle(texts)
    return texts, _LETTERS[texts.index(right)]


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not 1 <= len(value) < len(_LETTERS):
        raise ConfigError(f"{where}: choices must be a list of texts, not {str(value)[:60]!r}")
    if None in value:
        raise ConfigError(f"{where}: choice {value.index(None) + 1} of {len(value)} is null")
    return [str(text).strip() for text in value]
