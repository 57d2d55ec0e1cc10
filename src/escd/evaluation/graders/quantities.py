r"""Quantities in text: values with units, in any spelling that pint or people have for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import pint

from .notation import mixed, plain_signs, times_ten, unwrapped

_NUMBER = re.compile(
    # No digit of a name (H2, v_1) or of an exponent.
    r"(?<![\w.^*])(?<!\^[-+])(?<![A-Za-z][-+])"
    r"(?P<sign>[-+]\s*)?(?P<digits>\d{1,3}(?:[, ]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)\.?"
    r"(?P<e>[eE][-+]?\d+(?!\w))?(?:\s*/\s*(?P<under>\d+(?:\.\d+)?)(?!\d*[./]?\s*[A-Za-z]?\^))?(?:\s*±\s*[\d.]+)?"
)
_INNERMOST = (
    (re.compile(r"\^\s*\{([^{}]*)\}"), r"^\1"), (re.compile(r"_\s*\{([^{}]*)\}"), r"_\1"),
    (re.compile(r"\\[dtc]?frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|\\[dtc]?frac\s*(\d)\s*(\d)"), r" \1\3/\2\4"),
    (re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"(\1)/(\2)"),
)  # fmt: skip
_LATEX = tuple((re.compile(pattern), plain) for pattern, plain in (
    (r"\\(?:left|right|displaystyle)(?![A-Za-z])", ""), (r"\\(?:,|;|:|!| |quad|qquad)|~|\$", " "), (r"\\%", "%"),
    (r"\^\s*\\circ\s*", "°"), (r"\\(?:degree|textdegree|circ)\b", "°"), (r"\\(?:mu|micro)\b\s*", "µ"),
    (r"\\(?:Omega|ohm)\b", "Ω"), (r"\\times\b", "×"), (r"\\pm\b", "±"), (r"\\cdot\b", "·"),
    (r"\\leq?(?![A-Za-z])", "≤"), (r"\\geq?(?![A-Za-z])", "≥"), (r"\\lt\b", "<"), (r"\\gt\b", ">"),
    (r"\(([-+\d.,\s]+(?:±[\d.\s]+)?)\)", r"\1"), (r"\(\s*([-+]?[\d.]+)\s*([^()\d]*)\)/\(([^()]*)\)", r"\1 (\2)/(\3)"),
    (r"\(\s*\)/", "/"),
    (r"(?<![\w.])10\s*\^(?:\s*\()?\s*([-+]?\d+)(?:\s*\))?", r"1e\1"), (r"(?<=\d)\s+(e[-+]?\d)", r"\1"),
))  # fmt: skip
_SPELLINGS = tuple((re.compile(pattern), plain) for pattern, plain in (
    (r"(?i)\b(amp|min|yd|pt|qt|rad)s\b", r"\1"),  # pint knows two units of these names: atto-mps, milli-ins
    (r"(?:°|\bdeg(?:rees?)?\b)\s*(?:(C|F)(?:elsius|ahrenheit)?\b)", r"deg\1"), (r"\*\*", "^"), ("°", " degree "),
    ("[\N{OHM SIGN}Ω]", "ohm"), ("\N{GREEK SMALL LETTER MU}", "µ"), ("[·⋅]", "*"), (r"\s+\^", "^"),
    (r"\b([kmM]?)Nm\b", r"\1N m"), (r"\bkm/?h\b", "km/hour"), (r"\blight[ -]years?\b", "light_year"),
))  # fmt: skip
# What a unit is made of: names, each with a small whole exponent, products, quotients, brackets. Nothing else goes to
# pint, whose reader computes: "m**9**9**9" would keep it busy for ever.
_UNIT = re.compile(r"1(?=\s*/)|[A-Za-zµÅ%_]+(?:\^?-?\d{1,2}(?![\d^]))?|\)\^-?\d{1,2}(?![\d^])|[*/()\s]")
_UNIT_LENGTH = 60
_UNIT_WORDS = 6
# Between two numbers: "5, 6 m", "5-6 m", "5 to 6 m", "5 or 6 m".
_JOINT = re.compile(r"[\s,;/~-]*(?:\b(?:to|or|and)\b)?\s*")
# Where a unit ends in any case, and what may be said behind it: "340 m/s in air", "340 m/s (at 20 °C)".
_CUT = re.compile(r"[,;:!?±]|\.(?=\s|$)|\s-\s|\s(?:or|and|to|but|so|which|that|is)\b")
_REMARK = re.compile(
    r"(?<=\S)\s+\((?=[^()]*(?:\d|[A-Za-z]{3}|\b(?:in|at|or)\b))[^()/^]*\)"
    r"|(?<=\w)\s+(?:in|for|at|above|below|from|of|away|when|after|during|on|with|relative)(?=\s+\S)[^,;]*?"
    r"(?=[,;]|\s(?:or|and|to|but|is|are|was)\s|$)"
    r"|[,\s]+(?:not|rather\s+than|instead\s+of)\s.*$"
)


@dataclass(frozen=True)
class Quantity:
    """A value and its unit as they were written, the unit "" if there is none, and the words behind it."""

    value: float
    unit: str
    rest: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (f"{self.value:.12g}", self.unit, self.rest)))


def plain(text: str) -> str:
    r"""Quantities without LaTeX.

    >>> plain("5\\,\\mathrm{m\\,s^{-1}}").split()
    ['5', 'm', 's^-1']
    """
    text = plain_signs(text)
    for _ in range(8):
        before = text
        for pattern, simple in _INNERMOST:
            text = pattern.sub(simple, text)
        text = unwrapped(text)
        if text == before:
            break
    for pattern, simple in _LATEX[:-2]:
        text = pattern.sub(simple, text)
    text = times_ten(text, r"e\1")
    for pattern, simple in _LATEX[-2:]:
        text = pattern.sub(simple, text)
    return mixed(text, lambda m: f"{int(m[1]) + int(m[2]) / int(m[3]):.15g}" if int(m[3]) else m[0])


def quantities(text: str) -> list[Quantity]:
    """All quantities of a plain text, without those in remarks such as "(at 20 °C)".

    "1 h 30 min" is one; of "5 or 6 m" both are metres.
    """
    first = _NUMBER.search(text)
    if not first:
        return []
    text = text[: first.start()] + _REMARK.sub("", text[first.start() :])
    numbers = [*_NUMBER.finditer(text)]
    ends = [n.start() for n in numbers[1:]] + [len(text)]
    tails = [text[number.end() : end] for number, end in zip(numbers, ends, strict=True)]
    found: list[Quantity] = []
    for number, tail in zip(numbers, tails, strict=True):
        found.append(Quantity(_value(number), *_unit_of(tail)))
    joined = [bool(_JOINT.fullmatch(tail)) for tail in tails[:-1]]
    for i in reversed(range(len(joined))):  # "5, 6, 7 m"
        if joined[i]:
            found[i] = Quantity(found[i].value, found[i + 1].unit, found[i + 1].rest)
    whole: list[Quantity] = []
    for i, quantity in enumerate(found):
        joint = tails[i - 1].strip().removeprefix(found[i - 1].unit).strip() if i else ""
        if joint.endswith("±"):
            continue
        if whole and quantity.unit and joint in ("", "and") and (part := _smaller(quantity, whole[-1])) is not None:
            whole[-1] = Quantity(whole[-1].value + part, whole[-1].unit, quantity.rest)
        elif whole and not quantity.unit and _JOINT.fullmatch(joint):  # "5 m or 6"
            whole.append(Quantity(quantity.value, whole[-1].unit))
        else:
            whole.append(quantity)
    return whole


def _value(number: re.Match[str]) -> float:
    digits = re.sub(r"[\s]", "", number["digits"])
    grouped = re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits)
    digits = digits.replace(",", "" if grouped else ".")
    sign = -1 if (number["sign"] or "").startswith("-") else 1
    try:
        return sign * float(f"{digits}{number['e'] or ''}") / float(number["under"] or 1)
    except ZeroDivisionError:
        return float("nan")


def _unit_of(tail: str) -> tuple[str, str]:
    """The unit that a text begins with, and the words behind it; all of it where no part is a unit of pint's."""
    text = _CUT.split(tail, maxsplit=1)[0].strip().rstrip(".")
    words = text.split()
    for count in range(min(len(words), _UNIT_WORDS), 0, -1):
        name = ("1" if text.startswith("/") else "") + " ".join(words[:count])
        if unit(name) is not None:
            return name, " ".join(words[count:])
    return text, ""


def _smaller(quantity: Quantity, before: Quantity) -> float | None:
    """In the unit before it, a quantity that goes on with the next smaller unit ("30 min" behind "1 h"), else None."""
    one = in_unit(Quantity(1.0, quantity.unit), before.unit)
    if one is None or not 0 < one < 1 or not 0 <= one * quantity.value < 1:
        return None
    return one * quantity.value * (-1 if before.value < 0 else 1)


def in_unit(found: Quantity, wanted: str) -> float | None:
    """The value in another unit; None if the two do not measure the same."""
    names = [_words(found.unit), _words(wanted)]
    if names[0] == names[1] or (names[1] and unit(wanted) is None and names[0][: len(names[1])] == names[1]):
        return found.value
    given, target = unit(found.unit), unit(wanted)
    if given is None or target is None:
        return None
    try:
        return float(_registry().Quantity(found.value, given).to(target).magnitude)
    except (pint.PintError, ArithmeticError, ValueError, TypeError):
        return None


@cache
def unit(text: str) -> Any:
    """A unit as pint knows it, also with capitals where pint has none ("Newtons", "Kg", "KW"); None if it does not."""
    for pattern, simple in _SPELLINGS:
        text = pattern.sub(simple, text)
    if len(text) > _UNIT_LENGTH or _UNIT.sub("", text):
        return None
    for name in (text, re.sub(r"\bK(?=[A-Z])", "k", text), text.lower()):
        try:
            return _registry().parse_units(name)
        # Pint's reader of expressions raises what its parts raise on text that is no unit.
        except Exception:
            continue
    return None


def _words(name: str) -> list[str]:
    """A unit as words, for those that pint does not know: "12 apples left" are so many "apple"."""
    return [word.removesuffix("s") if len(word) > 3 else word for word in re.split(r"[\s.]+", name.strip()) if word]


@cache
def _registry() -> pint.UnitRegistry:
    return pint.UnitRegistry(autoconvert_offset_to_baseunit=True, cache_folder=None)
