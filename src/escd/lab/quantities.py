"""Task `science`: unit conversions and physics with one formula, in worked steps with a unit at the end."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from .mistakes import Mistakes, Pieces, Writer
from .tasks import held_out

FACTORS = {
    ("km", "m"): 1000, ("m", "cm"): 100, ("cm", "mm"): 10, ("m", "mm"): 1000, ("kg", "g"): 1000, ("t", "kg"): 1000,
    ("L", "mL"): 1000, ("kW", "W"): 1000, ("kJ", "J"): 1000, ("kN", "N"): 1000, ("h", "min"): 60, ("min", "s"): 60,
    ("V", "mV"): 1000, ("A", "mA"): 1000,
}  # fmt: skip
"""How many of the second unit make one of the first."""
WRONG_FACTORS = {10: (100, 1000), 60: (10, 100), 100: (10, 1000), 1000: (10, 100)}
ASKED = ("Convert {x} {a} to {b}.", "How many {b} are {x} {a}?", "What is {x} {a} in {b}?")


@dataclass(frozen=True)
class Formula:
    """`text` gives the result of `units[0] operator units[1]` in `units[2]`; `wrong` are units to confuse it with.

    The question of `wordings` states the values in the order of the formula.
    """

    text: str
    operator: str
    units: tuple[str, str, str]
    wrong: tuple[str, ...]
    wordings: tuple[str, ...]


FORMULAS = (
    Formula("d = v * t", "*", ("m/s", "s", "m"), ("m/s", "s", "km"),
            ("A cyclist moves at {a} for {b}. How far does she get?",
             "A ball rolls at {a}. How far is it after {b}?")),
    Formula("F = m * a", "*", ("kg", "m/s^2", "N"), ("kg", "J", "W"),
            ("A cart of {a} speeds up at {b}. What force acts on it?",
             "What force gives a mass of {a} an acceleration of {b}?")),
    Formula("V = I * R", "*", ("A", "ohm", "V"), ("A", "W", "ohm"),
            ("A current of {a} flows through {b}. What is the voltage?",
             "What voltage drives {a} through a resistor of {b}?")),
    Formula("P = V * I", "*", ("V", "A", "W"), ("J", "V", "A"),
            ("A lamp runs at {a} and {b}. What is its power?", "A motor at {a} draws {b}. How much power is that?")),
    Formula("W = F * d", "*", ("N", "m", "J"), ("N", "W", "m"),
            ("A force of {a} pushes a box over {b}. How much work is done?",
             "How much work does a force of {a} do over {b}?")),
    Formula("E = P * t", "*", ("W", "s", "J"), ("W", "N", "s"),
            ("A lamp of {a} burns for {b}. How much energy does it use?",
             "How much energy does a heater of {a} turn into heat in {b}?")),
    Formula("p = m * v", "*", ("kg", "m/s", "kg*m/s"), ("kg", "N", "m/s"),
            ("What is the momentum of {a} moving at {b}?", "A sled of {a} glides at {b}. What is its momentum?")),
    Formula("v = d / t", "/", ("m", "s", "m/s"), ("m", "s", "m/s^2"),
            ("A runner covers {a} in {b}. What is her speed?", "A car drives {a} in {b}. How fast is it?")),
    Formula("a = F / m", "/", ("N", "kg", "m/s^2"), ("m/s", "N", "kg"),
            ("A force of {a} acts on {b}. What is the acceleration?",
             "How strongly does a force of {a} speed up a cart of {b}?")),
    Formula("I = V / R", "/", ("V", "ohm", "A"), ("V", "W", "ohm"),
            ("A battery of {a} is connected to {b}. What current flows?",
             "What current does a voltage of {a} drive through {b}?")),
    Formula("R = V / I", "/", ("V", "A", "ohm"), ("V", "A", "W"),
            ("At {a} a current of {b} flows. What is the resistance?",
             "Which resistor lets {b} flow at a voltage of {a}?")),
    Formula("D = m / V", "/", ("g", "cm^3", "g/cm^3"), ("g", "cm^3", "kg"),
            ("A block of {a} has a volume of {b}. What is its density?", "What is the density of {a} in {b}?")),
    Formula("P = W / t", "/", ("J", "s", "W"), ("J", "N", "s"),
            ("A crane does {a} of work in {b}. What is its power?", "How much power is {a} in {b}?")),
)  # fmt: skip
KINETIC = ("A ball of {a} flies at {b}. What is its kinetic energy?", "What is the kinetic energy of {a} at {b}?")
UNITS_OF_ENERGY = ("N", "W", "kg")


@dataclass(frozen=True)
class Exercise:
    """One question about quantities: `work` writes the solution up to the number and returns it."""

    skeleton: str
    asked: str
    unit: str
    wrong_units: tuple[str, ...]
    work: "Callable[[Steps], Fraction]"

    @property
    def is_test(self) -> bool:
        """By the conversion or the formula and its values."""
        return held_out(self.skeleton)

    @property
    def answer(self) -> str:
        return f"{shown(self.work(Steps(Writer(Mistakes(), random.Random(0)))))} {self.unit}"

    @property
    def tests(self) -> tuple[str, ...]:
        return ()

    def question(self) -> str:
        return self.asked

    def attempt(self, mistakes: Mistakes, rng: random.Random) -> Pieces | None:
        """Formula or factor, the arithmetic, and an ``Answer:`` line with number and unit."""
        writer = Writer(mistakes, rng)
        try:
            value = self.work(Steps(writer))
        except UnusedNumber:
            return None
        writer.say("Answer:")
        writer.say(f" {shown(value)}")
        writer.know(f" {self.unit}", [f" {unit}" for unit in self.wrong_units])
        return writer.pieces


class UnusedNumber(ArithmeticError):
    """A mistake has led to a number that the lab does not use."""


def shown(value: Fraction) -> str:
    """A number with at most one decimal."""
    tenths = value * 10
    if tenths.denominator != 1:
        raise UnusedNumber(str(value))
    return f"{float(value)}" if value.denominator != 1 else f"{value}"


class Steps:
    """Writes the lines of a solution and keeps their results, right or wrong."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def copy(self, value: Fraction) -> Fraction:
        """A number of the question or of the line before."""
        return self._number(self.writer.copy, value)

    def line(self, left: Fraction, operator: str, right: Fraction) -> Fraction:
        """``left operator right = result``."""
        say = self.writer.say
        left = self.copy(left)
        say(f" {operator}")
        say(" ")
        right = self.copy(right)
        say(" =")
        say(" ")
        result = left * right if operator == "*" else left / right
        if right not in (10, 100, 1000) and (min(left, right) > 12 if operator == "*" else result not in range(1, 15)):
            raise UnusedNumber
        result = self._number(self.writer.know, result)
        say(".\n\n")
        return result

    def factor(self, big: str, small: str) -> Fraction:
        """``1 km = 1000 m``, from memory."""
        factor = FACTORS[big, small]
        self.writer.say(f"1 {big} =")
        known = self.writer.know(f" {factor}", [f" {wrong}" for wrong in WRONG_FACTORS[factor]])
        self.writer.say(f" {small}.\n\n")
        return Fraction(known)

    def recall(self, formula: str) -> None:
        """The formula."""
        self.writer.say(f"{formula}.\n\n")

    def _number(self, write: Callable[[str, list[str]], str], value: Fraction) -> Fraction:
        return Fraction(write(shown(value), [shown(wrong) for wrong in near(value)]))


def near(value: Fraction) -> list[Fraction]:
    """Wrong numbers that one might write instead: the last digit that is not 0 is off, or a 0 is lost or added."""
    unit = Fraction(1, 10)
    while value % (unit * 10) == 0 and value:
        unit *= 10
    found = [value + unit * by for by in (1, 1, -1, -1, 2, -2)]
    if value >= 100:
        found += [value / 10, value * 10] if value % 10 == 0 else [value + 10, value - 10]
    return [number for number in found if number > 0]


def draw(rng: random.Random) -> Exercise:
    """A random exercise."""
    return rng.choice((_conversion, _formula, _formula, _minutes, _kinetic))(rng)


def _conversion(rng: random.Random) -> Exercise:
    """One unit into another, either way."""
    (big, small), factor = rng.choice(list(FACTORS.items()))
    down = rng.random() < 0.5
    if factor == 60:
        amount = Fraction(rng.randint(2, 12))
    elif rng.random() < 0.4:
        amount = Fraction(rng.randint(11, 99), 10)
    else:
        amount = Fraction(rng.randint(2, 60))
    start, source, target = (amount, big, small) if down else (amount * factor, small, big)

    def work(steps: Steps) -> Fraction:
        return steps.line(start, "*" if down else "/", steps.factor(big, small))

    asked = rng.choice(ASKED).format(x=shown(start), a=source, b=target)
    return Exercise(f"{source} {target} {start}", asked, target, (source,), work)


def _formula(rng: random.Random) -> Exercise:
    """One formula, values as they are given."""
    formula = rng.choice(FORMULAS)
    left, right = Fraction(rng.randint(2, 12)), Fraction(rng.randint(2, 9))
    if formula.operator == "/":
        left *= right
    elif rng.random() < 0.5:
        left, right = right, left

    def work(steps: Steps) -> Fraction:
        steps.recall(formula.text)
        return steps.line(left, formula.operator, right)

    return _asked(formula, shown(left), shown(right), formula.units[1], work, rng)


def _minutes(rng: random.Random) -> Exercise:
    """A formula with a time that is given in minutes."""
    formula = rng.choice([f for f in FORMULAS if f.operator == "*" and f.units[1] == "s"])
    left, minutes = Fraction(rng.randint(2, 9)), Fraction(rng.randint(2, 6))

    def work(steps: Steps) -> Fraction:
        seconds = steps.line(minutes, "*", steps.factor("min", "s"))
        steps.recall(formula.text)
        return steps.line(left, "*", seconds)

    return _asked(formula, shown(left), shown(minutes), "min", work, rng)


def _asked(
    formula: Formula, left: str, right: str, second: str, work: Callable[[Steps], Fraction], rng: random.Random
) -> Exercise:
    first, _, unit = formula.units
    asked = rng.choice(formula.wordings).format(a=f"{left} {first}", b=f"{right} {second}")
    return Exercise(f"{formula.text} {left} {right} {second}", asked, unit, formula.wrong, work)


def _kinetic(rng: random.Random) -> Exercise:
    """Kinetic energy, in three lines of arithmetic."""
    mass, speed = Fraction(rng.choice((2, 4, 6, 8, 10))), Fraction(rng.randint(2, 9))

    def work(steps: Steps) -> Fraction:
        steps.recall("E = m / 2 * v * v")
        half = steps.line(mass, "/", Fraction(2))
        square = steps.line(speed, "*", speed)
        return steps.line(half, "*", square)

    asked = rng.choice(KINETIC).format(a=f"{shown(mass)} kg", b=f"{shown(speed)} m/s")
    return Exercise(f"kinetic {mass} {speed}", asked, "J", UNITS_OF_ENERGY, work)


def drill_line(rng: random.Random) -> tuple[str, str]:
    """``left operator right =`` and its result, of the kinds that exercises contain."""
    kind = rng.randrange(4)
    if kind == 0:
        left, right = rng.randint(2, 12), rng.randint(2, 12)
    elif kind == 1:
        left, right = rng.randint(2, 9), 10 * rng.randint(8, 40)
    elif kind == 2:
        left, right = rng.randint(1, 6), rng.randint(2, 84)
    else:
        right = rng.randint(2, 9)
        return f"{right * (left := rng.randint(2, 12))} / {right} =", f" {left}"
    return f"{left} * {right} =", f" {left * right}"
