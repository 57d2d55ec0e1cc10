"""Compares mathematical answers with math-verify, as a program of its own: JSON lines in, JSON lines out.

Run by `maths.py`. Sympy can be made to compute for ever; math-verify's time-outs are signals, which need a main thread
and do not reach into long arithmetic, so whoever waits for an answer must be able to end the process.

What is compared here and not by math-verify: numbers, exactly (it rounds to six decimals); lists, with order, labels
and how often each item is there (it makes sets); and whether an equation of numbers is true (it takes the last term).
"""

import json
import re
import sys
import time
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

MEMORY = 2 << 30
SECONDS = 5  # of each step
_DIGITS = 6  # a decimal with as many stands for the number that it is rounded from
_PRECISION = 50
_EQUAL = re.compile(r"(?<![<>!:\\])(=|\\approx(?![A-Za-z])|\\simeq|\\doteq)(?!=)")
_BOUND = re.compile(r"\s*(?:[<>]|\\(?:le|ge|lt|gt|neq?)(?![A-Za-z]))")  # math-verify reads "< 5" as 5
_BASED = re.compile(r"([0-9A-F]+)_\{?(\d+)\}?")
_PERCENT = re.compile(r"\s*(?:\\?%|\\?\bpercent(?:age)?\b|\bpct\b)\s*$")


def main() -> None:
    """Answer each `{"gold": trees, "answer": trees, "text": ...}` with `{"equal": ..., "found": ..., "seconds": ...}`.

    Trees are those of `math_text.readings`. Where `answer` is null, the last expression in `text` counts.
    """
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):  # no such limit on this system
        pass
    import math_verify.utils

    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        asked, start = json.loads(line), time.monotonic()
        try:
            reply = math_verify.utils.timeout(2 * SECONDS)(judge)(asked)
        except BaseException as error:  # time-outs, and expressions that none of the libraries was made for
            reply = {"equal": False, "found": None, "error": type(error).__name__}
        reply["seconds"] = time.monotonic() - start
        print(json.dumps(reply), file=answers, flush=True)


def judge(asked):
    """Whether any reading of the answer is one of the reference."""
    if asked["answer"] is not None:
        return {"equal": any(same(g, a) for g in asked["gold"] for a in asked["answer"]), "found": None}
    found = parsed(asked["text"])
    equal = bool(found) and any(same_value(parsed(boxed(gold["text"])), found) for gold in asked["gold"])
    return {"equal": equal, "found": str(found[-1]) if found else None}


def same(gold, found):
    """Whether two trees are the same mathematics."""
    if gold["items"] is None and found["items"] is None:
        return same_expression(gold["text"], found["text"])
    if gold["items"] is None or found["items"] is None:
        # An interval may be written as an inequality; a list is no single expression.
        bare, listed = (gold, found) if gold["items"] is None else (found, gold)
        relation = re.search(r"[<>]|\\(?:le|ge|lt|gt|in|cup)(?![A-Za-z])", bare["text"])
        return bool(relation and listed["open"]) and verified(*(parsed(boxed(t["text"])) for t in (gold, found)))
    kinds = [(t["open"], t["close"]) for t in (gold, found)]
    if all(opening for opening, _ in kinds) and kinds[0] != kinds[1]:
        return False
    golds, founds = in_order(gold["items"]), in_order(found["items"])
    if len(gold["items"]) != len(found["items"]):
        return False
    if any(opening for opening, _ in kinds) or bool(golds) != bool(founds):
        return all(map(same, golds or gold["items"], founds or found["items"]))
    left = list(found["items"])
    for item in gold["items"]:
        match = next((i for i, other in enumerate(left) if same(item, other)), None)
        if match is None:
            return False
        del left[match]
    return True


def in_order(items):
    """Items by their labels, if each has one of its own; else None."""
    by_label = {item["label"]: item for item in items if item["label"]}
    return [by_label[label] for label in sorted(by_label)] if len(by_label) == len(items) else None


def same_expression(gold, found):
    """Whether two expressions in LaTeX are equal, the found one free of false equations."""
    matches = [(text, _BASED.fullmatch(text.strip().replace(" ", ""))) for text in (gold, found)]
    (gold, gold_base), (found, base) = (match.groups() if match else (text, None) for text, match in matches)
    if gold_base != base and {gold_base, base} != {None, "10"}:
        return False
    if gold_base not in (None, "10"):
        return gold == found
    if _BOUND.match(found) and not _BOUND.match(gold):
        return False
    said = conclusions(found)
    for candidate in said if not _EQUAL.search(gold) else [found] if said else []:
        for left, right in percents(gold, candidate):
            if same_value(parsed(boxed(left)), parsed(boxed(right))):
                return True
    return False


def percents(gold, found):
    """The pairs to compare: a percent sign on one side may stand for nothing (12 % for 12) or for a hundredth."""
    signs = [_PERCENT.search(text) for text in (gold, found)]
    bare = [text[: sign.start()] if sign else text for text, sign in zip((gold, found), signs, strict=True)]
    hundredth = [f"\\frac{{{b}}}{{100}}" if sign else b for b, sign in zip(bare, signs, strict=True)]
    return [bare] if all(signs) or not any(signs) else [bare, hundredth]


def conclusions(text):
    """What a chain of equations ends with, and before a last ≈ also what is approximated; none if it is false."""
    terms = _EQUAL.split(text)
    last = terms[-1]
    numbers = [(number(parsed(boxed(term))), sign) for term, sign in zip(terms[:-2:2], terms[1::2], strict=True)
               if term.strip() and not re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", term))]  # fmt: skip
    end = number(parsed(boxed(last))) if numbers else None
    for value, sign in numbers:
        if None not in (value, end) and not (equal(value, end) or rounded(end, value, 1, sign == "=")):
            return []
    return [last, *terms[-3:-2]] if len(terms) > 1 and terms[-2] != "=" else [last]


def boxed(text):
    return f"\\boxed{{{text}}}"


@lru_cache(256)
def parsed(text):
    """What math-verify reads: an expression, and the text of it."""
    from math_verify import parse
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig, NormalizationConfig

    # Units are gone already where they are units; "6t" is six times t.
    config = NormalizationConfig(
        basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="all", equations=False
    )
    targets = (LatexExtractionConfig(boxed_match_priority=0, normalization_config=config), ExprExtractionConfig())
    return parse(text, targets, parsing_timeout=SECONDS)


def verified(gold, found):
    from math_verify import verify

    return bool(verify(gold, found, float_rounding=12, timeout_seconds=SECONDS, allow_set_relation_comp=True))


def same_value(gold, found):
    """Whether two results of `parsed` are equal: numbers exactly, all else as math-verify has it."""
    if not gold or not found:
        return False
    values = [number(gold), number(found)]
    if None not in values:
        return equal(*values) or rounded(values[0], values[1]) or rounded(values[1], values[0])
    shapes = [getattr(side[0], "shape", None) for side in (gold, found)]
    if shapes[0] and shapes[0] == shapes[1]:
        pairs = zip(gold[0].flat(), found[0].flat(), strict=True)
        return all(same_value([a, str(a)], [b, str(b)]) for a, b in pairs)
    return verified(gold, found)


class Value:
    """A number: `exact`, and `digits` and `place` (of the last one) of a decimal as it was written, else None."""

    def __init__(self, exact, decimal):
        self.exact, self.digits, self.place = exact, None, 0
        if decimal is not None:
            _, digits, self.place = decimal.as_tuple()
            self.digits = len(digits)


def number(read):
    """A result of `parsed` as a `Value`; None if it is no number."""
    from sympy import Expr, Float, Rational

    expression: Any = read[0] if read else None
    if not isinstance(expression, Expr):
        return None
    floats = expression.atoms(Float)
    exact: Any = expression.xreplace({f: Rational(str(f)) for f in floats}).doit()
    if not exact.is_number or not exact.is_finite:
        return None
    if not exact.is_Rational or not (floats or exact.is_Integer):
        return Value(exact, None)
    with localcontext() as context:
        context.prec = _PRECISION
        return Value(exact, (Decimal(exact.p) / Decimal(exact.q)).normalize() if floats else Decimal(int(exact)))


def equal(a, b):
    """Whether two numbers are equal, the irrational ones to 40 digits."""
    if a.exact.is_Rational and b.exact.is_Rational:
        return a.exact == b.exact
    difference, size = (a.exact - b.exact).evalf(_PRECISION), abs(a.exact).evalf(_PRECISION)
    return bool(abs(difference) <= size / 10**40)


def rounded(decimal, value, least=_DIGITS, fraction=True):
    """Whether a decimal of at least so many digits, by default behind its point, is another number rounded."""
    if decimal.digits is None or decimal.digits < least or (fraction and decimal.place >= 0):
        return False
    return bool(2 * abs(value.exact - decimal.exact).evalf(_PRECISION) <= 10**decimal.place)


if __name__ == "__main__":
    main()
