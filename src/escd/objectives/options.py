"""Checks of option values, one for each kind: a wrong one is an error that names option, value and range."""

from __future__ import annotations

import difflib
import reprlib
import sys
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import ConfigError

# More would drown the root loss in single precision, and with enough of it overflow.
HEAVIEST = 1_000_000
_LARGEST = sys.float_info.max


def check_number(name: str, value: Any, low: float = 0, high: float = _LARGEST, over: bool = False) -> float:
    """A number as a float.

    Args:
        name: Of the option.
        value: Of any kind.
        low, high: The range, ends included.
        over: Whether `low` itself is outside.

    Raises:
        ConfigError: It is no number (text and true are none), not finite or outside.

    Example:
        >>> check_number("beta", 1, high=1)
        1.0
    """
    if _is(value, Real) and low <= value <= high and not (over and value == low):
        return float(value)
    raise ConfigError(f"{name}={told(value)} must be a number, {_range(low, high, over)}")


def check_whole(name: str, value: Any, low: int = 1, high: int | None = None) -> int:
    """A whole number from `low` to `high` as an int.

    Raises:
        ConfigError: It is none (2.0, text and true are none), or outside.
    """
    if _is(value, Integral) and low <= value and (high is None or value <= high):
        return int(value)
    raise ConfigError(f"{name}={told(value)} must be a whole number, {_range(low, high)}")


def check_flag(name: str, value: Any) -> bool:
    """True or False as a bool.

    Raises:
        ConfigError: It is neither; text such as "false" would count as true.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise ConfigError(f"{name}={told(value)} must be true or false")


def check_choice(name: str, value: Any, known: Sequence[str]) -> str:
    """One of the values of an option.

    Raises:
        ConfigError: It is none of them; the nearest is suggested.
    """
    if isinstance(value, str) and value in known:
        return value
    raise ConfigError(f"{name}={told(value)} is unknown{suggest(value, known)}")


def suggest(word: Any, known: Sequence[str], full: bool = True) -> str:
    """The tail of an error about an unknown word: the nearest known one, else (if `full`) all of them."""
    near = difflib.get_close_matches(word if isinstance(word, str) else told(word), known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(known) or 'none'}" if full else ""


def told(value: Any) -> str:
    """A value in a message, cut if it is long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 80
    try:
        return short.repr(value)
    except ValueError:  # Python writes no whole number of more than some thousand digits
        return "a number of thousands of digits"


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _range(low: float, high: float | None, over: bool = False) -> str:
    upper = "" if high is None else ", and finite" if high == _LARGEST else f" and at most {high}"
    return f"{'over' if over else 'at least'} {low}{upper}"
