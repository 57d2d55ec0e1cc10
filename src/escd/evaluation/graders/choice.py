"""Grader `choice`: the letter of a multiple-choice answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..verdict import Verdict
from .extraction import final_part, stated_answer
from .notation import unwrapped

_MARKS = "(\\[{*`\"'“‘$"
_CLOSED = ")\\]}*`\"'”’$"
_NAME = r"(?:(?:the\s+)?(?:option|choice|answer|letter)\s+)?"
# "C", "(C)", "C) because", "C - sound", "option C"; not the word "A" in "A rock".
_LETTER = (
    rf"{_NAME}[{_MARKS}]{{0,6}}([A-Za-z])(?:[{_CLOSED}]{{1,6}}"
    rf"|(?=\s*$|[.,:;!?]|\s+[-–—(]|\s*[/&+]|\s+(?:or|and|because|since|as|is|but)\b))"
)
_FIRST = re.compile(_LETTER, re.I)
# One more letter right behind a letter or its text: "A or C", "A, C", "(A) (C)", "A) heat and C) sound".
_MORE = re.compile(
    rf"(?:\b(?:or|and)\b|[/,;&+])\s*{_NAME}(?:[{_MARKS}]{{1,6}}([A-Z])[{_CLOSED}]"
    rf"|([A-Z])(?:[{_CLOSED}:]|(?=\s*$|[.,;/&]|\s+(?:or|and)\b)))"
    rf"|[{_CLOSED}]\s*[{_MARKS}]{{1,6}}([A-Z])[{_CLOSED}]"
)
_DENIED = re.compile(
    rf"\b(?:not|isn't|neither|nor|never|unlike|rather\s+than|instead\s+of|except)\s+{_NAME}"
    rf"[{_MARKS}]{{0,6}}[A-Z]\b[{_CLOSED}]{{0,6}}"
)
_REASON = re.compile(r"\b(?:because|since|as)\b|[.](?=\s)")
# In running text only a marked letter counts, and one that is chosen in so many words.
_MARKED = re.compile(
    rf"\(([A-Z])\)|\*\*\s{{0,3}}\(?([A-Z])\)?[.:)]?\s{{0,3}}\*\*|\b(?:[Oo]ption|[Cc]hoice)\s+\(?([A-Z])\b\)?"
    rf"|(?:\b(?:[Ii]s|[Ii]t's|be|choose|chose|pick|select|say|with)|[Aa]nswer:)\s+{_NAME}"
    rf"[{_MARKS}]{{0,6}}([A-HJ-Z])(?=[{_CLOSED}.,;:!]|\s*$)"
)


def grade_choice(response: str, record: Mapping[str, Any]) -> Verdict:
    """Compare the letter that a response chooses with the letter `record["answer"]`.

    `record["choices"]`, if it is there, is the texts of the choices in order: then the text of one stands for its
    letter.

    >>> grade_choice("It conducts heat, so **C**.", {"answer": "C"})
    Verdict(correct=True, reason='right')
    """
    gold, letter = str(record["answer"]).strip().strip("()").upper(), chosen(response, record.get("choices") or ())
    if letter is None:
        return Verdict(False, "no answer found")
    if len(letter) > 1:
        return Verdict(False, f"more than one choice: {', '.join(letter)}")
    return Verdict(letter == gold, "right" if letter == gold else f"wrong answer: {letter}, not {gold}")


def chosen(response: str, choices: Any = ()) -> str | None:
    """The letter that a response chooses, several if it does not decide, None if there is none.

    >>> chosen("Answer: (b)"), chosen("Answer: A or C"), chosen("I do not know.")
    ('B', 'AC', None)
    """
    stated = stated_answer(response)
    answer = unwrapped(final_part(response) if stated is None else stated).strip()
    by_text = [i for i, text in enumerate(choices) if _same(answer, str(text))]
    if len(by_text) == 1:
        return chr(ord("A") + by_text[0])
    answer = _DENIED.sub(" ", answer)
    start = re.sub(r"^[\s,;:.*`$]+(?:but\s+)?", "", answer) if answer[:1] in " ,;:.*`$" else answer
    if first := _FIRST.match(start):
        told = _REASON.split(start[first.end(1) :], maxsplit=1)[0]
        more = [next(filter(None, m.groups())) for m in _MORE.finditer(told)]
        return "".join(dict.fromkeys([first[1].upper(), *more]))
    marked = [next(filter(None, m.groups())) for m in _MARKED.finditer(answer)]
    return marked[-1] if marked else None


def _same(answer: str, text: str) -> bool:
    plain = [re.sub(r"[\s.$*\"'“”]+", " ", t).strip().casefold() for t in (answer, text)]
    return bool(plain[1]) and plain[0] == plain[1]
