r"""Mathematics as models write it, taken apart into lists and brackets down to single expressions in LaTeX.

math-verify makes sets of lists, so order, labels and how often an item is there would be lost with it.
"""

from __future__ import annotations

import re
from typing import Any

from .notation import THOUSANDS, mixed, plain_signs, times_ten, unwrapped, without_thousands

Tree = dict[str, Any]
"""`text`, and of a list or bracket its `items` (None for a single expression), `open`, `close`; `label` before "="."""

# A date or a time of day would be computed with.
CALENDAR = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}([./-])\d{1,2}\1\d{2,4}|\d{1,2}:\d{2}(?:\s*[ap]\.?m\.?)?", re.I)
_SPELLINGS = tuple((re.compile(pattern), plain) for pattern, plain in (
    (r"\\(?:left|right|[bB]igg?[lr]?|displaystyle)(?![A-Za-z])", ""), (r"\\lbrace\b", r"\\{"), (r"\\rbrace\b", r"\\}"),
    (r"\\d?t?frac(?![A-Za-z])", r"\\frac"), (r"\\leq?(?![A-Za-z])|<=", r"\\le "), (r"\\geq?(?![A-Za-z])|>=", r"\\ge "),
    (r"\\varnothing|∅|\\\{\s*\\\}", r"\\emptyset"), ("°", r"^\\circ "), ("π", r"\\pi "), ("∞", r"\\infty "),
    ("∪", r"\\cup "), ("∩", r"\\cap "), ("∈", r"\\in "), (r"(?<![\\A-Za-z])pi(?![A-Za-z])", r"\\pi "),
    (r"√\s*\(", r"\\sqrt("), (r"√\s*(\d+|[A-Za-z])", r"\\sqrt{\1}"), (r"\*\*", "^"),
    (r"\^\s*(-\d+)", r"^{\1}"), (r"(?<=\d)[eE]([-+]?\d+)(?![\w.])", r"\\times 10^{\1}"),
    (r"\\(sin|cos|tan|cot|sec|csc)\s*[({]?\s*(\d+(?:\.\d+)?)\s*\^\s*\{?\s*\\circ\s*\}?\s*[)}]?",
     r"\\\1(\2\\cdot\\frac{\\pi}{180})"),
    (r"\\text\s*\{\s*(and|or)\s*\}", r" \1 "), (r"\\quad|\\qquad", " "),
))  # fmt: skip
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALED = re.compile(rf"(?<=\d)\s+({'|'.join(_SCALES)})\b")
_LEAD = re.compile(
    r"^(?:(?:is|about|approximately|approx\.?|around|roughly|nearly|exactly|only|\\approx|\\sim|~|USD|EUR|Rs\.?)(?![A-Za-z])"
    r"|[€£¥]|\\?\$|\s)+"
)
_SPACED = re.compile(r"^-?\d{1,3}(?:\s\d{3})+(?!\d)")
# Words behind a number, which count as its unit: "eggs", "km/h", "m^2"; a letter alone may be a variable.
_UNIT = r"(?:[A-Za-z]{3,}+|[cmk]m|[mk]g|m[lL]|[fp]t|in|lb|oz|hr|mi|yd|[ap]m|of|k[WVJN]|[mgshlLNJWVKCF])(?![A-Za-z])"
_POWER = r"(?:\s*\^\s*\{?-?\d\}?)?"
_UNITS = rf"{_UNIT}{_POWER}(?:[\s/*.'~-]*+(?:\\cdot\s*)?{_UNIT}{_POWER})*+[\s.]*$"
_APART = re.compile(rf"(?<=[\d}})%.])(?:\s|~|\\[,;: ])+{_UNITS}")
_GLUED = re.compile(rf"(?<=[\d}})])(?:\s|~|\\[,;: ])*(?:{_UNITS}|\^\s*\{{?\\circ\s*\}}?\s*[CF]?\s*$)")
_MEANING = set(
    "or and to not nor no plus minus times over mod choose squared cubed factorial dozen half third quarter percent "
    f"percentage pct pi sin cos tan cot sec csc log exp det gcd lcm sqrt inf infinity {' '.join(_SCALES)}".split()
)
# "42 (at least)", "42. I hope", "42, because ..."
_REMARK = re.compile(
    r"(?<=[\dA-Za-z}%])\s*\([^()\\]*[A-Za-z]{3}[^()\\]*\)$"
    r"|(?<=[\dA-Za-z}%])(?:[.;]\s+[A-Z]|,?\s+(?:since|because|which)\b).*$",
    re.S,
)
_LABEL = re.compile(
    r"\s*((?:\\?[A-Za-z][A-Za-z ]*(?:_\{?[^\W_]+\}?|')*+(?:\([A-Za-z, ]+\))?)|\([A-Za-z]+(?:\s*,\s*[A-Za-z]+)+\))"
    r"\s*(?:=|\\in(?![A-Za-z]))(?!=)\s*"
)
_TOKEN = re.compile(
    r"(?P<open>\\begin\{[^}]*\}|\\langle|\\?\{|[(\[])|(?P<close>\\end\{[^}]*\}|\\rangle|\\?\}|[)\]])"
    r"|(?P<cut>[,;]\s*(?:and|or)(?![A-Za-z])|[,;]|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))|\\[A-Za-z]+"
)
_MOST = 60  # items; the comparison takes time by their square


def spelled(text: str) -> str:
    """Mathematics in the spelling that math-verify reads."""
    text = plain_signs(text).strip()
    for pattern, plain in _SPELLINGS:
        text = pattern.sub(plain, text)
    text = _SCALED.sub(lambda m: rf"\times 10^{{{_SCALES[m[1]]}}}", text)
    return mixed(times_ten(text, r"\\times 10^{\1}"), r"\1\\frac{\2}{\3}").strip()


def is_number(text: str) -> bool:
    """Whether there is no variable in it."""
    return not re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", unwrapped(text)))


def without_unit(text: str, number: bool) -> str:
    """An expression without the words that stand around it.

    Args:
        text: The expression.
        number: Whether it should be a number: then what follows its last digit may be a unit even without a blank.
    """
    text = re.sub(r"[\s,;:?]+$", "", text)
    if number:
        text = _SPACED.sub(lambda m: re.sub(r"\s", "", m[0]), _LEAD.sub("", text, count=1))
    told = unwrapped(text).rstrip()
    found = (_GLUED if number else _APART).search(told)
    if found and not _MEANING.intersection(re.findall("[a-z]+", found[0].lower())):
        return told[: found.start()].strip()
    return text


def readings(text: str, number: bool = False) -> list[Tree]:
    """A text as a tree; two where a comma may group digits or separate items.

    >>> [[item["text"] for item in tree["items"] or [tree]] for tree in readings("1,234")]
    [['1234'], ['1', '234']]
    """
    text = spelled(text)
    text = _REMARK.sub("", text) if number else text
    found = [_tree(text, number)]
    return [_tree(without_thousands(text), number), *found] if THOUSANDS.search(text) else found


def _tree(text: str, number: bool) -> Tree:
    text = re.sub(r"[\s,;:?]+$", "", text.strip())
    parts = [part for item in _split(text) for part in _both_signs(item)]
    if 1 < len(parts) <= _MOST:
        return {"text": text, "open": "", "close": "", "label": None, "items": [_tree(p, number) for p in parts]}
    label = _LABEL.match(text)
    rest = text[label.end() :] if label else text
    found = {"text": text, "open": "", "close": "", "label": label[1].strip() if label else None, "items": None}
    if inner := _bracket(rest):
        opening, content, closing = inner
        items = _split(content)
        braces = opening == "\\{"
        if len(items) > 1 and len(items) <= _MOST:
            trees = [_tree(p, number) for item in items for p in _both_signs(item)]
            return {**found, "items": trees, "open": "" if braces else opening, "close": "" if braces else closing}
        if braces and not re.search(r"\||\\mid|:", content):  # a set of one
            return {**_tree(content, number), "label": found["label"]}
    return {**found, "text": without_unit(text, number)}


def _split(text: str) -> list[str]:
    """The items of a list: what stands between commas, "and" or "or" outside brackets."""
    depth, start, found = 0, 0, []
    for token in _TOKEN.finditer(text):
        depth += (token["open"] is not None) - (token["close"] is not None)
        if depth < 0:
            return [text]
        if token["cut"] and not depth:
            found.append(text[start : token.start()].strip())
            start = token.end()
    return [item for item in (*found, text[start:].strip()) if item]


def _bracket(text: str) -> tuple[str, str, str] | None:
    """Bracket, content, bracket of a text that stands in one pair of brackets as a whole."""
    depth, opening = 0, ""
    for token in _TOKEN.finditer(text):
        if token["open"]:
            depth, opening = depth + 1, opening or token[0]
        depth -= token["close"] is not None
        if not depth:
            whole = token["close"] and token.end() == len(text) and text.startswith(opening)
            fine = opening in ("(", "[", "\\{", "\\langle")
            return (opening, text[len(opening) : token.start()], token[0]) if whole and fine else None
    return None


def _both_signs(item: str) -> list[str]:
    r"""The two values of an item with ±."""
    if not re.search(r"\\(?:pm|mp)(?![A-Za-z])", item):
        return [item]
    signs = (("+", "-"), ("-", "+"))
    return [re.sub(r"\\mp(?![A-Za-z])", mp, re.sub(r"\\pm(?![A-Za-z])", pm, item)) for pm, mp in signs]
