"""Grader `science`: a value with its unit, in any spelling and any equivalent unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ..verdict import Verdict, one_line
from .extraction import bare, stated_answer
from .quantities import Quantity, in_unit, plain, quantities

TOLERANCE = 0.01
_EQUALS = re.compile(r"(?<![<>!])=|≈|\\approx(?![A-Za-z])")
# An answer that is denied, or that is only a bound.
_HEDGE = re.compile(
    r"[<>≤≥]|\b(?:less|more|greater|fewer|smaller|larger|higher|lower)\s+than\b|\bat\s+(?:least|most)\b|\bup\s+to\b"
    r"|\bor\s+(?:more|less|above|below|higher|lower)\b",
    re.I,
)
_HEDGE_BEFORE = re.compile(r"\b(?:not|never|no|neither|nor|cannot|without|over|under|above|below)\b|n['’]t\b", re.I)


def grade_science(response: str, record: Mapping[str, Any]) -> Verdict:
    """Compare the value and unit that a response states with `record["answer"]`, such as "3500 m".

    Any unit of the same kind will do: "3.5 km" equals "3500 m". `record["relative_tolerance"]` says how far the value
    may be off, by default 1 %. A missing unit is wrong, and so is an answer of several values or a bound;
    docs/evaluation.md has the conventions.

    >>> grade_science("Answer: 3.5 km", {"answer": "3500 m"})
    Verdict(correct=True, reason='right')
    >>> grade_science("Answer: 3500", {"answer": "3500 m"})
    Verdict(correct=False, reason='no unit: 3500, not 3500 m')
    """
    gold = reference(record["answer"])
    assert gold is not None, "records.fault refuses such records"
    stated = stated_answer(response)
    if not stated:
        return Verdict(False, "no answer found")
    terms = [plain(bare(term)).strip(" ()") if i else plain(term) for i, term in enumerate(_EQUALS.split(stated))]
    found = quantities(terms[-1])
    if not found:
        return Verdict(False, f"no number in the answer: {one_line(stated, 80)}")
    if _hedged(terms[-1]):
        return Verdict(False, f"no single value: {one_line(stated, 80)}")
    told = f"{one_line(str(found[0]), 80)}, not {gold}"
    alike = [(q, value) for q in found if (value := _in(q, gold)) is not None]
    if not alike:
        missing = gold.unit and not all(q.unit for q in found)
        return Verdict(False, f"{'no' if missing else 'wrong'} unit: {told}")
    tolerance = record.get("relative_tolerance")
    off = TOLERANCE if tolerance is None else float(tolerance)
    first, value = alike[0]
    # Other values of the same kind, beside it or before it in a chain of equations, must be the same.
    before = [quantities(term) for term in terms[:-1]]
    others = [v for _, v in alike[1:]] + [
        v for qs in before if len(qs) == 1 and not qs[0].rest and (v := _in(qs[0], gold)) is not None
    ]
    if not all(math.isclose(value, other, rel_tol=max(off, TOLERANCE)) for other in others):
        return Verdict(False, f"more than one value: {one_line(stated, 80)}")
    right = math.isclose(value, gold.value, rel_tol=off, abs_tol=1e-12 if gold.value == 0 else 0)
    right = right and (not gold.rest or first.rest.split() == gold.rest.split())
    return Verdict(right, "right" if right else f"wrong answer: {one_line(str(first), 80)}, not {gold}")


def reference(answer: Any) -> Quantity | None:
    """The one finite quantity that a reference answer is; None if it is something else."""
    text = plain(bare(str(answer)))
    found = quantities(text)
    single = len(found) == 1 and math.isfinite(found[0].value) and not _hedged(text)
    return found[0] if single else None


def _in(found: Quantity, gold: Quantity) -> float | None:
    """The value in the unit of the reference, None if the kinds differ or the unit is missing."""
    return None if gold.unit and not found.unit else in_unit(found, gold.unit)


def _hedged(text: str) -> bool:
    start = re.search(r"\d", text)
    return bool(_HEDGE.search(text) or _HEDGE_BEFORE.search(text[: start.start() if start else 0]))
