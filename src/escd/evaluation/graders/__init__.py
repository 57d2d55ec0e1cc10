"""Graders: whether a response to a problem is right.

A grader is a function of the response and the problem's record, in which it finds the reference under fixed names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ...errors import ConfigError
from ...objectives.options import suggest
from ..verdict import Verdict
from .records import fault

Grade = Callable[[str, Mapping[str, Any]], Verdict]


@dataclass(frozen=True)
class Grader:
    """A grader.

    Attributes:
        needs: Names that a record must have.
        takes: Names that it may have.
        module: Where its function is, loaded on first use: a run that only counts needs no algebra.
        function: Name of the function.
        package: What it needs beyond the core; loaded with the module, or by a process of the grader's own.
    """

    needs: tuple[str, ...]
    takes: tuple[str, ...]
    module: str
    function: str
    package: str | None = None

    def load(self) -> Grade:
        """Its function.

        Raises:
            ConfigError: What it needs is not installed.
        """
        try:
            if self.package:
                import_module(self.package)
            return getattr(import_module(f"{__name__}.{self.module}"), self.function)
        except ModuleNotFoundError as error:
            if error.name != self.package:
                raise
            raise ConfigError(f"{error.name} is not installed; run: pip install 'escd[eval]'") from error


GRADERS = {
    "math": Grader(("answer",), (), "maths", "grade_math", "math_verify"),
    "code": Grader(("tests",), ("answer", "entry_point", "prefix"), "programs", "grade_code"),
    "stdio": Grader(("cases",), ("answer",), "programs", "grade_program"),
    "science": Grader(("answer",), ("relative_tolerance",), "science", "grade_science", "pint"),
    "choice": Grader(("answer",), ("choices",), "choice", "grade_choice"),
}


def grader(name: str) -> Grader:
    """The grader of that name.

    Raises:
        ConfigError: There is none.
    """
    if name not in GRADERS:
        raise ConfigError(f"unknown grader {name!r}{suggest(name, list(GRADERS))}")
    return GRADERS[name]


def grade(name: str, response: str, record: Mapping[str, Any]) -> Verdict:
    """Grade one response. It may be anything: a response never raises, and never takes long.

    Args:
        name: Grader: math, code, stdio, science or choice.
        response: What the model said.
        record: What the grader compares with: `answer`, or `tests`, or `cases`; see the grader.

    Raises:
        ConfigError: Unknown grader, a record without what it needs, or one that cannot be graded with.

    >>> grade("choice", "The answer is (C).", {"answer": "C"}).correct
    True
    """
    chosen = grader(name)
    for needed in chosen.needs:
        if record.get(needed) is None:
            raise ConfigError(f"grader {name!r} needs {needed!r}; the record has {', '.join(record) or 'nothing'}")
    if wrong := fault(name, record):
        raise ConfigError(wrong)
    return chosen.load()(response, record)
