r"""Grader `science`: a value with its unit, in any spelling and any equivalent unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pint

from ..verdict import Verdict, one_line
from .extraction import bare, stated_answer

TOLERANCE = 0.01
_UNIT_LENGTH = 60
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?P<digits>\d{1,3}(?:[, \u2009\u202f]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)"
    r"(?:\s*/\s*(?P<under>\d+)(?!\d*[./]?\s*[A-Za-z]?\^))?"
    r"(?:[eE](?P<e>[-+]?\d+)(?!\w)|\s*(?:[*x×·]|\\times|\\cdot)\s*10\s*(?:\^|\*\*)?\s*[({]?\s*(?P<power>[-+]?\d+)\s*[)}]?)?"
)
# What a unit is made of: names, each with a small whole exponent, products, quotients, brackets. Nothing else goes to
# pint, whose reader computes: "m**9**9**9" would keep it busy for ever.
_UNIT = re.compile(r"1(?=\s*/)|[A-Za-zµÅ%]+(?:\^?-?\d{1,2}(?![\d^]))?|\)\^-?\d{1,2}(?![\d^])|[*/()\s]")
_SIGNS = {
    "**": "^",
    "°": " degree ",
    "\N{OHM SIGN}": "ohm",
    "Ω": "ohm",
    "\N{GREEK SMALL LETTER MU}": "µ",
    "·": "*",
    "⋅": "*",
}
# Words behind a unit: "340 m/s (in air)".
_BEYOND = re.compile(r"[,;]|\s+\(?(?:in|for|at|above|below|from|to|of|away)\b")
_LATEX = (
    (r"\\(?:text|mathrm|rm|mathbf|operatorname|unit|si|textrm)\s*\{([^{}]*)\}", r" \1 "),
    (r"\\d?t?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"(\1)/(\2)"),
    (r"\^\s*\{?\s*\\circ\s*\}?\s*", "°"), (r"\\(?:degree|textdegree|circ)\b", "°"), (r"\\(?:mu|micro)\b\s*", "µ"),
    (r"\\(?:Omega|ohm)\b", "Ω"), (r"\\(?:,|;|:|!| |quad|qquad|left|right)", " "), (r"\\%", "%"), (r"~|\$", " "),
    (r"\^\s*\{([^{}]*)\}", r"^\1"), (r"\\cdot\b", "·"), (r"\\times\b", "×"), (r"[−–]", "-"),
)  # fmt: skip


def grade_science(response: str, record: Mapping[str, Any]) -> Verdict:
    """Compare the value and unit that a response states with `record["answer"]`, such as "3500 m".

    Any unit of the same kind will do: "3.5 km" equals "3500 m". `record["relative_tolerance"]` says how far the value
    may be off, by default 1 %. A missing unit is wrong.

    >>> grade_science("Answer: 3.5 km", {"answer": "3500 m"})
    Verdict(correct=True, reason='right')
    >>> grade_science("Answer: 3500", {"answer": "3500 m"})
    Verdict(correct=False, reason='no unit: 3500, not 3500 m')
    """
    gold = _quantity(str(record["answer"]))
    if gold is None:
        return Verdict(False, f"the reference answer {record['answer']!r} is no value with a unit")
    stated = stated_answer(response)
    found = _quantity(_result(stated)) if stated else None
    if found is None:
        return Verdict(False, "no answer found" if not stated else f"no number in the answer: {one_line(stated, 80)}")
    told = f"{one_line(str(found), 80)}, not {gold}"
    if gold.unit and not found.unit:
        return Verdict(False, f"no unit: {told}")
    value = _in_unit(found, gold.unit)
    if value is None:
        return Verdict(False, f"wrong unit: {told}")
    tolerance = record.get("relative_tolerance")
    off = TOLERANCE if tolerance is None else float(tolerance)
    right = math.isclose(value, gold.value, rel_tol=off, abs_tol=1e-12 if gold.value == 0 else 0)
    return Verdict(right, "right" if right else f"wrong answer: {told}")


@dataclass(frozen=True)
class _Quantity:
    """A value and its unit as they were written, the unit "" if there is none."""

    value: float
    unit: str

    def __str__(self) -> str:
        return f"{self.value:.12g} {self.unit}".strip()


def _quantity(text: str) -> _Quantity | None:
    """The first number of a text and what stands behind it; None without a number."""
    text = _plain(text)
    found = _NUMBER.search(text)
    if not found:
        return None
    digits = re.sub(r"[\s\u2009\u202f]", "", found["digits"])
    thousands = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits)
    digits = digits.replace(",", "" if thousands else ".")
    try:
        value = float(f"{found['sign']}{digits}e{found['e'] or found['power'] or 0}") / float(found["under"] or 1)
    except ZeroDivisionError:
        return None
    unit = _BEYOND.split(bare(text[found.end() :]).strip(), maxsplit=1)[0].strip()
    return _Quantity(value, f"1{unit}" if unit.startswith("/") else unit)


def _result(stated: str) -> str:
    """What an equation ends with: "v = s / t = 3 m/s" states 3 m/s."""
    return re.split(r"=|≈|\\approx", stated)[-1]


def _plain(text: str) -> str:
    text = re.sub(r"10([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: f"10^{m[1].translate(_SUPERSCRIPTS)}", text)
    text = re.sub(r"([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda m: f"^{m[1].translate(_SUPERSCRIPTS)}", text)
    for pattern, plain in _LATEX:
        text = re.sub(pattern, plain, text)
    return text


def _in_unit(found: _Quantity, unit: str) -> float | None:
    """The value in another unit; None if the two do not measure the same."""
    if _words(found.unit) == _words(unit):
        return found.value
    given, wanted = _unit(found.unit), _unit(unit)
    if given is None or wanted is None:
        return None
    try:
        return float(_registry().Quantity(found.value, given).to(wanted).magnitude)
    except (pint.PintError, ArithmeticError, ValueError, TypeError):
        return None


@cache
def _unit(text: str) -> Any:
    """A unit as pint knows it, None if it does not."""
    text = re.sub(r"(?:°|\bdeg(?:rees?)?\b)\s*(?:(C|F)(?:elsius|ahrenheit)?\b)", r"deg\1", text)
    for sign, plain in _SIGNS.items():
        text = text.replace(sign, plain)
    text = re.sub(r"\s+\^", "^", text)
    if len(text) > _UNIT_LENGTH or _UNIT.sub("", text):
        return None
    try:
        return _registry().parse_units(text)
    # Pint's reader of expressions raises what its parts raise on text that is no unit.
    except Exception:
        return None


def _words(unit: str) -> str:
    """A unit as words, for those that pint does not know: "12 Apples" equals "12 apple"."""
    return " ".join(word.removesuffix("s") if len(word) > 3 else word for word in re.split(r"[\s.]+", unit.strip()))


@cache
def _registry() -> pint.UnitRegistry:
    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True, cache_folder=None)
