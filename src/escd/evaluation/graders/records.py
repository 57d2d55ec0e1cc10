"""What a record must hold so that a response can be judged by it; checked before anything is sampled."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from functools import lru_cache
from threading import Lock
from typing import Any

from ...errors import ConfigError
from ..sandbox.inside.suite import fault as suite_fault
from .cases import cases_of

_DATA = (str, int, float, Decimal, date, time, timedelta, type(None))
_LOCK = Lock()
_LOSSY = 2.0**63  # whole numbers from here on come out of JSON as floats
_NO_NUMBER = re.compile(r"\s*[-+]?(?:nan|inf|infinity)\s*", re.I)


def fault(grader: str, record: Mapping[str, Any]) -> str:
    """Why no response can be judged by a record, in one line; empty if one can.

    >>> fault("choice", {"answer": "sound"})
    "answer is 'sound', which is no letter; give choices, or the letter of one"
    """
    for key, value in record.items():
        if not _is_data(value):
            return f"{key} is no data, but {_short(value)}"
    if grader in ("math", "science", "choice") and (wrong := _value_fault(record["answer"])):
        return wrong
    return _FAULTS[grader](record)


def _is_data(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_data(v) for pair in value.items() for v in pair)
    return all(map(_is_data, value)) if isinstance(value, (list, tuple)) else isinstance(value, _DATA)


def _value_fault(answer: Any) -> str:
    if isinstance(answer, float) and abs(answer) >= _LOSSY and math.isfinite(answer):
        return f"answer is {answer!r}: a whole number so large loses its digits in JSON; write it as text"
    try:
        text = str(answer)
    except ValueError:  # Python does not write so long a number
        return "answer has too many digits"
    if _NO_NUMBER.fullmatch(text) or not text.strip():
        return f"answer is {text[:40]!r}, which no response can be compared with"
    return ""


def _math(record: Mapping[str, Any]) -> str:
    text = str(record["answer"])
    return "" if re.search(r"\w|∅|\\\{\s*\\\}", text) else f"answer is {text[:40]!r}, which is no mathematics"


def _science(record: Mapping[str, Any]) -> str:
    from .science import reference

    tolerance = record.get("relative_tolerance")
    fine = tolerance is None or (
        isinstance(tolerance, (int, float)) and type(tolerance) is not bool and 0 <= tolerance < math.inf
    )
    if not fine:
        return f"relative_tolerance must be a finite number of at least 0, not {_short(tolerance)}"
    return (
        "" if reference(record["answer"]) else f"answer is {_short(record['answer'])}, which is not one value and unit"
    )


def _choice(record: Mapping[str, Any]) -> str:
    if re.fullmatch(r"\s*\(?[A-Za-z]\)?\s*", str(record["answer"])):
        return ""
    return f"answer is {_short(record['answer'])}, which is no letter; give choices, or the letter of one"


def _code(record: Mapping[str, Any]) -> str:
    tests, entry_point = record["tests"], record.get("entry_point") or None
    if not isinstance(tests, str):
        if not isinstance(tests, (list, tuple)) or not all(isinstance(line, str) for line in tests):
            return f"tests must be a program or a list of assert lines, not {_short(tests)}"
        tests = "\n".join(tests)
    for key in ("entry_point", "prefix"):
        if not isinstance(record.get(key), str | None):
            return f"{key} must be text, not {_short(record[key])}"
    if entry_point and not entry_point.isidentifier():
        return f"entry_point must be the name of a function, not {_short(entry_point)}"
    return _tests_fault(tests, entry_point)


@lru_cache(4096)
def _tests_fault(tests: str, entry_point: str | None) -> str:
    # Python warns of the syntax of tests; what it warns of is one list for all threads.
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return suite_fault(tests, entry_point)


def _stdio(record: Mapping[str, Any]) -> str:
    try:
        return "" if cases_of(record["cases"]) else "cases: there is none"
    except ConfigError as error:
        return str(error)


_FAULTS = {"math": _math, "science": _science, "choice": _choice, "code": _code, "stdio": _stdio}


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
