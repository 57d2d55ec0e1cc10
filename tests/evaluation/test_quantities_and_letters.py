r"""The graders `science` and `choice`: spellings of right answers, hedges, and time on degenerate text."""

import time

import pytest

from escd.evaluation.code import extract_code
from escd.evaluation.graders import grade
from escd.evaluation.graders.choice import chosen
from escd.evaluation.graders.extraction import stated_answer
from escd.evaluation.graders.math_text import readings

pytest.importorskip("pint")


@pytest.mark.parametrize(
    ("stated", "gold"),
    [
        ("\\boxed{\\frac{1}{2}\\,\\text{m}}", "0.5 m"), ("\\boxed{5\\,\\mathrm{m\\,s^{-1}}}", "5 m/s"),
        ("5 Newtons", "5 N"), ("5 Joules", "5 J"), ("5 Volts", "5 V"), ("5 Amps", "5 A"), ("5 Watts", "5 W"),
        ("5 Kelvin", "5 K"), ("5 Kg", "5 kg"), ("5 KW", "5 kW"), ("5 Nm", "5 N m"), ("10^3 J", "1 kJ"),
        ("10³ J", "1 kJ"), ("5 amps", "5 A"), ("5 mins", "5 min"),
        ("1{,}000 m", "1 km"), ("1 1/2 m", "1.5 m"), ("- 5 m", "-5 m"), ("– 5 m", "-5 m"), ("5. m", "5 m"),
        ("5 ± 1 m", "5 m"), ("1 h 30 min", "90 min"), ("5 m/s north", "5 m/s"), ("5 m/s downward", "5 m/s"),
        ("CO2: 5 g", "5 g"), ("The H2 mass is 5 g", "5 g"), ("(5 ± 1) m", "5 m"), ("5 m ± 1 m", "5 m"),
        ("$5 \\pm 1$ m", "5 m"), ("90 min", "1 h 30 min"), ("5 ft 6 in", "66 in"),
        ("1 hour and 30 minutes", "5400 s"), ("5 m (about 16.4 ft)", "5 m"), ("340 m/s at 20 °C", "340 m/s"),
        ("3.5 km, i.e. 3500 m", "3500 m"), ("5 m, not 6 m", "5 m"), ("1\\frac{1}{2} m", "1.5 m"),
        ("\\frac{5\\,\\text{m}}{\\text{s}}", "5 m/s"), ("\\dfrac{3}{4}\\text{ kg}", "750 g"),
        ("5\\times10^{3}\\,\\mathrm{W}", "5 kW"), ("v = 100 m / 20 s = 5 m/s", "5 m/s"),
        ("3500 m = 3.5 km", "3500 m"), ("F = - 5 N", "-5 N"), ("5 km/h", "5 kmh"), ("12 apples left", "12 apples"),
        ("5 m above the ground", "5 m"), ("12.7 cm", "5 in"), ("5 in", "5 in"), ("about 5 m", "5 m"), ("~5 m", "5 m"),
        ("5 m to the left", "5 m"), ("5 J/(kg K)", "5 J kg^-1 K^-1"), ("5 (m/s)", "5 m/s"), ("5 m s^-1", "5 m/s"),
        ("5 m s⁻¹", "5 m/s"), ("5\\;\\text{m/s}^2", "5 m/s^2"), ("5 m/s south", "5 m/s south"),
        ("3 light years", "3 light_year"), ("5 kWh", "18 MJ"), ("20 °C", "293.15 K"),
        ("The mass of 2 mol of H2 is 5 g", "5 g"), ("+5 m", "5 m"), ("5 m, to the left", "5 m"),
        ("0.5 × 10⁻³ m", "0.5 mm"), ("1e3 J", "1 kJ"), ("50%", "0.5"), ("5 kg of water", "5 kg"), ("6 cm³", "6 mL"),
        ("**5 m**", "5 m"), ("5 meters", "5 m"), ("-40 °F", "-40 °C"), ("5,6 m", "5.6 m"), ("5 m.", "5 m"),
        ("10^{-3}\\ \\text{m}", "1 mm"), ("approximately 5.0 m", "5 m"), ("v = 5 m/s, since it is uniform", "5 m/s"),
        ("(a) 5 m", "5 m"),
    ],
)  # fmt: skip
def test_spellings_of_a_quantity(stated, gold):
    assert grade("science", f"Answer: {stated}", {"answer": gold}).reason == "right"


@pytest.mark.parametrize(
    ("stated", "gold"),
    [
        ("not 5 m", "5 m"), ("5 m, 6 m, 7 m", "5 m"), ("5 m to 6 m", "5 m"), ("5 m; no, 7 m", "5 m"),
        ("< 5 m", "5 m"), ("5 m or 6 m", "5 m"), ("5 or 6 m", "6 m"), ("5 or 6 m", "5 m"), ("5-6 m", "6 m"),
        ("5-6 m", "5 m"), ("5–6 m", "5 m"), ("between 5 and 6 m", "5 m"), ("between 5 m and 6 m", "6 m"),
        ("from 5 m to 6 m", "6 m"), ("from 5 m to 6 m", "5 m"), ("at least 5 m", "5 m"), ("5 m or more", "5 m"),
        ("5 m = 6 m", "6 m"), ("5 m or 6", "5 m"), ("5 m/s north", "5 m/s south"), ("\\ge 5 m", "5 m"),
        ("it isn't 5 m", "5 m"), ("5 m and 6 m", "5 m"), ("5 m / 6 m", "5 m"), ("5, 6 m", "5 m"), ("5 m 6 m", "5 m"),
        ("2 H2", "2 g"), ("up to 5 m", "5 m"), ("less than 5 m", "5 m"), ("over 5 m", "5 m"), ("-5 m", "5 m"),
        ("- 5 m", "5 m"), ("5 in", "5 m"), ("5 cm", "5 in"), ("5 kg", "5 m"), ("5 m^2", "5 m"), ("5", "5 m"),
        ("m", "5 m"), ("5 M", "5 m"), ("5 m by 6 m", "5 m"), ("5 m × 6 m", "5 m"), ("either 5 m or 6 m", "5 m"),
        ("5 m (or 6 m)", "6 m"), ("10^3 J", "1 J"), ("3/0 m", "5 m"), ("5 Nm", "5 nm"), ("5 m and 30 cm", "5 m"),
    ],
)  # fmt: skip
def test_no_quantity_or_several_or_another(stated, gold):
    assert not grade("science", f"Answer: {stated}", {"answer": gold}).correct


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("The best answer is C.", "C"), ("The right answer is C", "C"), ("The answer to the question is C.", "C"),
        ("I think it's C", "C"), ("So I choose C.", "C"), ("Answer: C - sound", "C"), ('Answer: "C"', "C"),
        ("The answer is not A, but C.", "C"), ("A rock is hard. Answer: C", "C"),
        ("Vitamin **C** is good. Answer: B", "B"), ("Answer: A\nWait. Answer: C", "C"),
        ("Answer: A) heat and C) sound", "AC"), ("Answer: (A) (C)", "AC"), ("A, C", "AC"), ("A or C", "AC"),
        ("Answer: not A", None), ("Answer: neither A nor B", None), ("Answer: A/C", "AC"),
        ("Answer: A, B, and C", "ABC"), ("Answer: C, because A is wrong", "C"), ("Answer: C. A is wrong", "C"),
        ("Answer: (C) sound, not (A)", "C"), ("It is A. No wait, it is (C).", "C"), ("So the answer: C", "C"),
        ("I would go with B.", "B"), ("**Answer: C**", "C"), ("Answer: C) Vitamin A", "C"), ("Answer: C: sound", "C"),
        ("Answer: **C) sound**", "C"), ("Answer: (C) A and B are both wrong", "C"),
        ("Therefore I say that it is a rock", None), ("The answer is a rock.", None), ("It is A rock", None),
        ("Answer: The answer is C", "C"), ("\\boxed{C}", "C"), ("\\boxed{\\textbf{(C)}}", "C"), ("answer is C", "C"),
        ("Correct answer: C", "C"), ("C", "C"), ("Answer: option C", "C"), ("Answer: A and not C", "A"),
        ("The answer is (A) or (B)", "AB"), ("The correct option is (D).", "D"), ("The answer is: C", "C"),
        ("My choice is B", "B"), ("Answer: $C$", "C"), ("Answer: C (sound)", "C"), ("Answer: C and D", "CD"),
        ("Answer: A+B", "AB"), ("Answer: I", "I"), ("So I am sure.", None), ("Answer:\nC", "C"),
        ("The answer is **C**.", "C"), ("The answer is C because A and B fail", "C"),
        ("Final Answer: The final answer is C", "C"), ("Answer: C!", "C"), ("Answer: C?", "C"),
    ],
)  # fmt: skip
def test_letters(response, letter):
    assert chosen(response) == letter


PIECES = [
    "*", "$", " ", "\\", "{", "(", "`", "~", "```", "a", "1", ",", "#", "_", ".", "-", "^", "\t", "\n", "the ",
    "answer ", "Answer: ", "\\boxed{", "\\text{", "or A ", "not ", "A", "A, ", "(A) ", "<think>", "\\frac{", "10",
    "1,000", "**A",
    "is ", "²", "* ", ": ", "the answer to ", "```a", " m", "/ ", "\\pm ", "()", ") (",
]  # fmt: skip
READERS = {
    "choice": lambda response: grade("choice", response, {"answer": "C", "choices": ["heat", "light", "sound"]}),
    "science": lambda response: grade("science", response, {"answer": "5 m"}),
    "stated answer": stated_answer,
    "mathematics": lambda response: readings(response[:1000], number=True),
    "code": extract_code,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("before", "behind"), [("", ""), ("Answer: ", ""), ("", "`"), ("Answer: ", "C"), ("x", "!")])
def test_degenerate_responses_take_no_time(reader, before, behind):
    """A response of one repeated piece: a pattern that tries all of it twice would take seconds."""
    read = READERS[reader]
    for piece in PIECES:
        taken = []
        for length in (20_000, 40_000):
            response, times = before + piece * (length // len(piece)) + behind, []
            for _ in range(2):  # once the garbage of all other tests may be collected
                start = time.process_time()
                read(response)
                times.append(time.process_time() - start)
            taken.append(min(times))
        assert taken[1] < 0.5 + 3 * taken[0], piece
        assert taken[1] < 2, piece
