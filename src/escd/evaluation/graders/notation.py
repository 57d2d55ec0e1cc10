r"""Numbers as people write them: superscripts, groups of three digits, mixed numbers, powers of ten, wrapped words."""

from __future__ import annotations

import re
from collections.abc import Callable

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_SIGNS = str.maketrans({
    "−": "-", "–": "-", "—": "-", "，": ",", "×": "\\times ", "·": "\\cdot ", "⋅": "\\cdot ", "≈": "\\approx ",
    "±": "\\pm ", "≠": "\\ne ", "≤": "\\le ", "≥": "\\ge ",
    "½": "\\frac{1}{2}", "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}",
})  # fmt: skip
_WRAPPED = re.compile(r"\\(?:text(?:bf|rm|it|normal)?|math(?:rm|bf|it)|mbox|rm|operatorname|unit|si)\s*\{([^{}]*)\}")
# 1\,000  1{,}000  10,\!000  and with narrow blanks: no list is written so.
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:\{,\}|,?\\[,;:! ]|[~\u00a0\u2009\u202f])\d{3})+(?!\d)")
# 1,234 may be a list in mathematics; the caller decides.
THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_TIMES_TEN = re.compile(
    r"(?<=\d)\s*(?:[xX*×·]|\\times|\\cdot)\s*10\s*(?:\^|\*\*)(?:\s*[({])?\s*([-+]?\d+)(?:\s*[)}])?"
)
_MIXED = re.compile(r"(?<![\d/.,])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d/.])")


def plain_signs(text: str) -> str:
    r"""One spelling for signs, raised digits and grouped digits.

    >>> plain_signs("−1\\,000 m²")
    '-1000 m^{2}'
    """
    text = _RAISED.sub(lambda m: f"^{{{m[0].translate(_SUPERSCRIPTS)}}}", text.translate(_SIGNS))
    return _GROUPED.sub(lambda m: re.sub(r"\D", "", m[0]), text)


def unwrapped(text: str) -> str:
    r"""Text without `\text{}` and its like around words.

    >>> unwrapped("5\\text{ m}")
    '5  m '
    """
    return _WRAPPED.sub(r" \1 ", text)


def without_thousands(text: str) -> str:
    """Text without the commas in numbers such as 1,234."""
    return THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)


def times_ten(text: str, power: str) -> str:
    r"""Text with `power`, in which `\1` is the exponent, for each "x 10^3" behind a digit."""
    return _TIMES_TEN.sub(power, text)


def mixed(text: str, fraction: str | Callable[[re.Match[str]], str]) -> str:
    r"""Text with `fraction` for each mixed number such as 1 1/2, of which `\1`, `\2`, `\3` are the parts."""
    return _MIXED.sub(fraction, text)
