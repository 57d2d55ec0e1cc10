"""Task `code`: short Python functions asked for in words.

A rule (what the function does, with its constants) is drawn together with the names of function
and arguments. The body is a list of lines; each line is a list of places, some of which invite a
mistake: a constant, an operator, an argument.
"""

import random
from dataclasses import dataclass

from .mistakes import SLIP_WEIGHTS, SLIPS, Mistakes, Pieces, Writer, spoil
from .tasks import held_out

VERBS = (
    "mix", "fold", "shift", "blend", "trim", "scale", "score", "pack", "join", "rate", "spin", "turn",
    "count", "check", "merge", "pick", "move", "grow", "drop", "build",
)  # fmt: skip
NOUNS = (
    "price", "total", "value", "level", "point", "bonus", "weight", "step", "code", "name", "part", "list",
    "size", "rank", "unit", "word", "item", "tax", "fee", "sum",
)  # fmt: skip
NUMBERS, LISTS, TEXTS = ("x", "n", "a", "k"), ("xs", "values", "items", "nums"), ("s", "text", "word", "line")
PAIRS = (("a", "b"), ("x", "y"), ("p", "q"), ("m", "n"))
SIGNS = {"<": "less than", ">": "greater than", "<=": "at most", ">=": "at least"}
LETTERS = "aeioustrn"

SOME_LISTS = ([4, 9, 2, 15, 7], [11, 3, 18, 6, 6, 12], [1, 20, 5, 13, 8, 10])
SOME_TEXTS = ("strange ruins", "An orange Tourist", "unison", "Tea at nine")


@dataclass(frozen=True)
class Place:
    """A part of a line with what may stand there by mistake; `copied`: it is taken from the question."""

    right: str
    wrong: tuple[str, ...] = ()
    copied: bool = False


Line = list[Place]


@dataclass(frozen=True)
class Request:
    """One function to write: `phrase` says what it does, `inputs` are the arguments of its tests."""

    name: str
    arguments: tuple[str, ...]
    skeleton: str
    phrase: str
    body: tuple[Line, ...]
    inputs: tuple[tuple[object, ...], ...]
    wording: int

    @property
    def is_test(self) -> bool:
        """By the rule and its constants, whatever function and arguments are called."""
        return held_out(self.skeleton)

    @property
    def answer(self) -> str:
        return self.name

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"

    @property
    def tests(self) -> tuple[str, ...]:
        program = [f"def {self.signature}:", *("".join(place.right for place in line) for line in self.body)]
        names: dict[str, object] = {}
        exec("\n".join(program), names)
        calls = [f"{self.name}({', '.join(map(repr, values))})" for values in self.inputs]
        return tuple(f"assert {call} == {eval(call, names)!r}" for call in calls)

    def question(self) -> str:
        opening = ("Write a Python function {} that {}.", "Write {}, a function that {}.")[self.wording % 2]
        return opening.format(self.signature, self.phrase)

    def attempt(self, mistakes: Mistakes, rng: random.Random) -> Pieces | None:
        """The function as code, nothing around it."""
        writer = Writer(mistakes, rng)
        writer.say("def ")
        misspelt = next(wrong for wrong in iter(lambda: spoil(self.name, rng), None) if wrong != self.name)
        writer.copy(self.name, [misspelt.strip()])
        writer.say(f"({', '.join(self.arguments)}):\n")
        for i, line in enumerate(self.body):
            for place in line:
                if place.wrong:
                    (writer.copy if place.copied else writer.know)(place.right, place.wrong)
                else:
                    writer.say(place.right)
            if i + 1 < len(self.body):
                writer.say("\n")
        return writer.pieces


def number(value: int, blank: str = " ") -> Place:
    """A constant of the question; by mistake another one near it."""
    near = [(value + by, weight) for by, weight in zip(SLIPS, SLIP_WEIGHTS, strict=True)]
    return Place(f"{blank}{value}", tuple(f"{blank}{n}" for n, w in near for _ in range(w) if n > 0), copied=True)


def operator(sign: str, others: str) -> Place:
    """An operator, by mistake one of `others`."""
    return Place(f" {sign}", tuple(f" {other}" for other in others.split() if other != sign))


def argument(name: str, other: str, before: str = "") -> Place:
    """An argument of a function of two, by mistake the other."""
    return Place(before + name, (before + other,), copied=True)


def say(text: str) -> Place:
    """A part without mistakes."""
    return Place(text)


def draw(rng: random.Random) -> Request:
    """A random function to write."""
    name = rng.choice(VERBS) if rng.random() < 0.5 else f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}"
    rule = rng.choice((_chain, _chain, _pair, _condition, _loop, _numbers, _text))
    arguments, skeleton, phrase, body, inputs = rule(rng)
    return Request(name, arguments, skeleton, phrase, body, inputs, rng.getrandbits(32))


Rule = tuple[tuple[str, ...], str, str, tuple[Line, ...], tuple[tuple[object, ...], ...]]


def _chain(rng: random.Random) -> Rule:
    """Two steps of arithmetic on one argument."""
    x, signs = rng.choice(NUMBERS), (rng.choice("+-*"), rng.choice("+-*"))
    c, d = rng.randint(2, 12), rng.randint(2, 12)
    first = {"+": f"adds {c} to {x}", "-": f"subtracts {c} from {x}", "*": f"multiplies {x} by {c}"}[signs[0]]
    second = {"+": f"adds {d}", "-": f"subtracts {d}", "*": f"multiplies by {d}"}[signs[1]]
    wrapped = signs[0] != "*" and signs[1] == "*"
    line = [say(f"    return {'(' if wrapped else ''}{x}"), operator(signs[0], "+ - *"), number(c)]
    line += [say(")")] if wrapped else []
    line += [operator(signs[1], "+ - *"), number(d)]
    return (x,), f"chain {signs} {c} {d}", f"{first} and then {second}", (line,), ((0,), (3,), (8,), (21,))


def _pair(rng: random.Random) -> Rule:
    """Arithmetic on two arguments and a constant or two."""
    (a, b), c, sign = rng.choice(PAIRS), rng.randint(2, 12), rng.choice("+-")
    inputs = ((0, 1), (2, 7), (9, 4), (12, 12))
    if rng.random() < 0.5:
        what = f"adds {b} to {a}" if sign == "+" else f"subtracts {b} from {a}"
        line = [say("    return ("), argument(a, b), operator(sign, "+ - *"), argument(b, a, " "), say(")")]
        line += [operator("*", "+ - *"), number(c)]
        return (a, b), f"pair {sign} {c}", f"{what} and then multiplies by {c}", (line,), inputs
    d = rng.randint(2, 12)
    what = f"adds {c} times {a} and {d} times {b}" if sign == "+" else f"subtracts {d} times {b} from {c} times {a}"
    line = [say("    return "), argument(a, b), operator("*", "+ -"), number(c), operator(sign, "+ - *")]
    line += [argument(b, a, " "), operator("*", "+ -"), number(d)]
    return (a, b), f"pair {sign} {c} {d}", what, (line,), inputs


def _condition(rng: random.Random) -> Rule:
    """One of two results, after a comparison."""
    x, sign, limit = rng.choice(NUMBERS), rng.choice(list(SIGNS)), rng.randint(2, 20)
    then, other = (rng.choice("+-*"), rng.randint(2, 12)), (rng.choice("+-*"), rng.randint(2, 12))
    words = {"+": "plus", "-": "minus", "*": "times"}
    results = [f"{x} {words[operation]} {constant}" for operation, constant in (then, other)]
    phrase = f"returns {results[0]} if {x} is {SIGNS[sign]} {limit}, and {results[1]} otherwise"
    lines = (
        [say(f"    if {x}"), operator(sign, "< > <= >="), number(limit), say(":")],
        [say(f"        return {x}"), operator(then[0], "+ - *"), number(then[1])],
        [say(f"    return {x}"), operator(other[0], "+ - *"), number(other[1])],
    )
    inputs = tuple((value,) for value in (0, limit - 1, limit, limit + 1, 30))
    return (x,), f"condition {sign} {limit} {then} {other}", phrase, lines, inputs


def _loop(rng: random.Random) -> Rule:
    """A sum over a range."""
    n, sign, c, start = rng.choice("nkm"), rng.choice("+-*"), rng.randint(2, 12), rng.randint(0, 9)
    words = {"+": "plus", "-": "minus", "*": "times"}
    phrase = f"adds up i {words[sign]} {c} for every i from {start} to {n}"
    lines = (
        [say("    total = 0")],
        [say("    for i in range("), number(start, ""), say(f", {n}"), Place(" + 1", ("", " - 1")), say("):")],
        [say("        total += i"), operator(sign, "+ - *"), number(c)],
        [say("    return total")],
    )
    return (n,), f"loop {sign} {c} {start}", phrase, lines, ((start,), (start + 1,), (12,), (20,))


def _numbers(rng: random.Random) -> Rule:
    """Something of a list of numbers."""
    xs, c = rng.choice(LISTS), rng.randint(2, 14)
    inputs = tuple((some,) for some in (*SOME_LISTS, [c - 1, c, c + 1]))
    kind = rng.choice(("every", "most", "keep", "total"))
    if kind == "every":
        sign = rng.choice("+-*")
        phrase = {"+": f"adds {c} to", "-": f"subtracts {c} from", "*": f"multiplies by {c}"}[sign]
        line = [say("    return [v"), operator(sign, "+ - *"), number(c), say(f" for v in {xs}]")]
        return (xs,), f"every {sign} {c}", f"{phrase} every number in {xs}", (line,), inputs
    if kind == "most":
        sign, (function, words) = rng.choice("+-*"), rng.choice(_OF_LISTS)
        operation = {"+": "plus", "-": "minus", "*": "times"}[sign]
        others = tuple(f for f, _ in _OF_LISTS if f != function)
        line = [say("    return "), Place(function, others), say(f"({xs})"), operator(sign, "+ - *"), number(c)]
        return (xs,), f"{function} {sign} {c}", f"returns the {words} of {xs} {operation} {c}", (line,), inputs
    sign = rng.choice(list(SIGNS))
    condition = [operator(sign, "< > <= >="), number(c)]
    if kind == "keep":
        line = [say(f"    return [v for v in {xs} if v"), *condition, say("]")]
        return (xs,), f"keep {sign} {c}", f"keeps the numbers in {xs} that are {SIGNS[sign]} {c}", (line,), inputs
    line = [say(f"    return sum(v for v in {xs} if v"), *condition, say(")")]
    return (xs,), f"total {sign} {c}", f"adds up the numbers in {xs} that are {SIGNS[sign]} {c}", (line,), inputs


_OF_LISTS = (("max", "maximum"), ("min", "minimum"), ("sum", "sum"), ("len", "length"))


def _text(rng: random.Random) -> Rule:
    """Something of a text."""
    s, c, inputs = rng.choice(TEXTS), rng.randint(2, 9), tuple((some,) for some in SOME_TEXTS)
    if rng.random() < 0.3:
        old, new = rng.sample(LETTERS, 2)
        places = [Place(f'"{letter}"', tuple(f'"{other}"' for other in LETTERS if other != letter), True)
                  for letter in (old, new)]  # fmt: skip
        line = [say(f"    return {s}.replace("), places[0], say(", "), places[1], say(")")]
        return (s,), f"replace {old} {new}", f"replaces every {old} in {s} by {new}", (line,), inputs
    start, end, words = rng.choice(_CUTS)
    change, said = rng.choice((("", ""), (".upper()", " in upper case"), (".lower()", " in lower case"), ("*", "")))
    line = [say(f"    return {s}"), Place(start, tuple(o for o in ("[:", "[-", "[") if o != start))]
    line += [number(c, ""), say(end)]
    phrase = words.format(c, s)
    if change == "*":
        times = rng.randint(2, 9)
        line += [operator("*", "+ *"), number(times)]
        return (s,), f"cut {start} {c} {times}", f"repeats {phrase} {times} times", (line,), inputs
    if change:
        line += [Place(change, tuple(o for o in ("", ".upper()", ".lower()") if o != change))]
    return (s,), f"cut {start} {c} {change}", f"returns {phrase}{said}", (line,), inputs


_CUTS = (
    ("[:", "]", "the first {} letters of {}"), ("[-", ":]", "the last {} letters of {}"),
    ("[", ":]", "{1} without its first {0} letters"),
)  # fmt: skip
