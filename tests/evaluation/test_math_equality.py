r"""What the math grader takes for equal, and what not: order, labels, bases, digits, false equations, units."""

import pytest

from escd.evaluation.graders import grade

pytest.importorskip("math_verify")


def verdict(answer, gold):
    """Of an answer on a line of its own, and in a box."""
    found = {
        grade("math", said, {"answer": gold}).correct for said in (f"Answer: {answer}", f"So \\boxed{{{answer}}}")
    }
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        # a number with words around it
        *[(said, "42") for said in (
            "42 dollars", "42 eggs", "42 people", "42 years old", "42 hours", "42,", "42;", "42?", "about 42",
            "42 (approximately)", "42cm", "USD 42", "x = 42", "40 + 2 = 42", "42, because it is", "42. I hope so",
        )],
        *[(said, "1234") for said in ("1,234 km/h", "1,234 m^2", "1,234%", "1\\,234", "1{,}234", "1 234", "1,234.0")],
        ("5 \\text{ cm}^2", "5"), ("5", "5 \\text{ cm}^2"), ("5.4 cents", "5.4 \\text{ cents}"), ("90", "90^\\circ"),
        ("90 degrees", "90^\\circ"), ("$5 million", "5000000"),
        # notation
        ("12.5%", "12.5"), ("33.33%", "33.33"), ("12\\%", "12"), ("0.12", "12\\%"), ("12", "12\\%"), ("1 1/2", "1.5"),
        ("1.5 x 10^3", "1500"), ("1e-7", "0.0000001"), ("10⁻³", "0.001"), ("2√3", "2\\sqrt{3}"),
        ("\\sin 30^\\circ", "\\frac12"), ("\\varnothing", "\\emptyset"), ("x\\le 3", "(-\\infty,3]"),
        ("1<x<3", "(1,3)"), ("x ≥ 2", "[2,\\infty)"), ("evelyn", "Evelyn"), ("No", "no"), ("ab", "ba"), ("6t", "6t"),
        ("123_5", "123_{5}"), ("123_{10}", "123"), ("2020-01-01", "2020-01-01"),
        # digits
        ("0.333333", "1/3"), ("3.14159265", "\\pi"), ("0.3333333333", "0.333333"), ("0.1\\pi", "\\frac{\\pi}{10}"),
        ("x = \\frac{10}{3} \\approx 3.33", "\\frac{10}{3}"), ("1/3 = 0.33", "0.33"),
        # lists
        ("2, 1", "1,2"), ("(1,2)", "1,2"), ("1,2", "(1,2)"), ("\\{2,1\\}", "1,2"), ("a=5, b=6", "5,6"),
        ("b=6, a=5", "5,6"), ("b=6, a=5", "a=5,b=6"), ("x=1 or x=2", "2,1"), ("100, 200", "100,200"),
        ("2 and -1", "-1,2"), ("1 \\pm \\sqrt{2}", "1+\\sqrt2, 1-\\sqrt2"), ("(1,2),(3,4)", "(3,4),(1,2)"),
        ("5 cm, 6 cm", "6,5"), ("(0.5,1]", "(1/2,1]"), ("(x,y) = (1,2)", "(1,2)"),
    ],
)  # fmt: skip
def test_equal(answer, gold):
    assert verdict(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("123_6", "123_5"), ("123", "123_{5}"), ("38", "123_5"), ("123_5", "123"), ("0.0000004", "0.0000001"),
        ("0.1234567", "0.1234568"), ("1e-17", "3e-17"), ("0.33", "1/3"), ("5.0000001", "5"), ("0.333333", "0.333334"),
        ("5=6", "6"), ("42=43", "43"), ("40 + 3 = 42", "42"), ("5 \\approx 6", "5"), ("2/3 = 1", "1"),
        ("a=6,b=5", "5,6"), ("a=6,b=5", "a=5,b=6"), ("(2,1)", "1,2"), ("2,1", "(1,2)"), ("1,2,2", "1,1,2"),
        ("1,2", "1,2,2"), ("1", "1,1"), ("[1,2]", "(1,2)"), ("(1,2]", "(1,2)"), ("x<3", "(-\\infty,3]"),
        ("(1,2),(4,3)", "(1,2),(3,4)"), ("2018", "2020-01-01"), ("2020-01-01", "2018"), ("1:10", "3:30"),
        ("not 42", "42"), ("42 or 43", "42"), ("42 and 43", "42"), ("42 to 43", "42"), ("42 million", "42"),
        ("< 42", "42"), ("\\le 42", "42"), ("at least 42", "42"), ("42 or more", "42"), ("≠ 42", "42"),
        ("5 squared", "5"), ("5x", "5"), ("3 pi", "3"), ("6", "6t"), ("y=1", "x=1"), ("Eylvne", "Evelyn"),
    ],
)  # fmt: skip
def test_unequal(answer, gold):
    assert not verdict(answer, gold)


def test_a_base_in_running_text():
    assert grade("math", "so it is $123_5$.", {"answer": "123_5"}).correct
    for said in ("so it is $123_6$.", "so it is $123$."):
        assert not grade("math", said, {"answer": "123_5"}).correct
    assert not grade("math", "The answer is not 42.", {"answer": "42"}).correct
