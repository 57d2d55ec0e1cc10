"""Grader `choice`: the letter of a multiple-choice answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..verdict import Verdict
from .extraction import final_part, stated_answer

_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
# A letter at the start of an answer: "C", "(C)", "C) because", "option C", but not the word "A" in "A rock".
_FIRST = re.compile(
    r"\W*(?:(?:option|choice|answer)\s+)?[(\[*$`]*([A-Za-z])(?:[)\]*$`]+(?:[\s.,:;]|$)|[.,:;](?:\s|$)|\s*$)", re.I
)
_MORE = re.compile(r"(?:\b(?:or|and)\b|[/,&])\s*[(\[*]*([A-Z])[)\]*]*\s*(?:$|[.,])")
_BEFORE = re.compile(r"\W*(?:(?:option|choice)\s+)?\(?([A-Z])\)?\s+(?:because|since|as|is)\b", re.I)
# In running text only a marked letter counts.
_MARKED = re.compile(r"\(([A-Z])\)|\*\*\s*\(?([A-Z])\)?[.:)]?\s*\*\*|(?:option|choice)\s+\(?([A-Z])\b\)?")


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
    whole = final_part(response).strip()
    for answer in [stated] if stated is not None else [whole]:
        answer = _TEXT.sub(r"\1", answer).strip()
        by_text = [i for i, text in enumerate(choices) if _same(answer, str(text))]
        if len(by_text) == 1:
            return chr(ord("A") + by_text[0])
        found = _FIRST.match(answer) or _BEFORE.match(answer)
        if found:
            more = [m[1] for m in _MORE.finditer(answer[found.end(1) :])] if stated is not None else []
            return "".join(dict.fromkeys([found[1].upper(), *more]))
        if two := re.match(r"\W*([A-Z])\W", answer):
            more = [m[1] for m in _MORE.finditer(answer[two.end(1) :])]
            if more:
                return "".join(dict.fromkeys([two[1], *more]))
    marked = [next(filter(None, m.groups())) for m in _MARKED.finditer(stated if stated is not None else whole)]
    return marked[-1] if marked else None


def _same(answer: str, text: str) -> bool:
    plain = [re.sub(r"[\s.$*]+", " ", t).strip().casefold() for t in (answer, text)]
    return bool(plain[1]) and plain[0] == plain[1]
