"""Graders: what is right, what is wrong and why, and that no response can stop or break them."""

import threading
import time

import pytest
from sandboxed import need_sandbox

from escd.errors import ConfigError
from escd.evaluation.graders import GRADERS, grade
from escd.evaluation.graders.cases import cases_of
from escd.evaluation.graders.choice import chosen
from escd.evaluation.graders.extraction import stated_answer

pytest.importorskip("math_verify")
pytest.importorskip("pint")


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("Answer: 42", "42"),
        ("**Answer:** $42$.", "42"),
        ("Answer:\n\n42", "42"),
        ("## Final Answer\n42", "42"),
        ("The final answer is $\\boxed{3.5}$. I hope it is correct.", "3.5"),
        ("5 + 5 = 10\n#### 1,234", "1,234"),
        ("#### Step 1\nwe add", None),
        ("Answer: 19\nAnswer: 20", "20"),
        ("Answer: 42\nI believe the answer is correct.", "42"),
        ("Answer: \\boxed{\\frac{1}{2}} and so on", "\\frac{1}{2}"),
        ("Therefore, the answer is 3.5. Done.", "3.5"),
        ("<think>Answer: 3</think>\nAnswer: 4", "4"),
        ("<think>Answer: 3", None),
        ("Answer:", ""),
        ("I do not know", None),
        ("", None),
    ],
)
def test_where_an_answer_is_stated(response, answer):
    assert stated_answer(response) == answer


@pytest.mark.parametrize(
    ("stated", "gold"),
    [
        ("42", "42"), ("42.0", "42"), ("42 apples", "42"), ("$42", "42"), ("1,234 dollars", "1234"), ("x = 42", "42"),
        ("\\dfrac12", "\\frac{1}{2}"), ("0.5", "1/2"), ("[-2,7]", "x \\in [-2,7]"), ("p-q", "-q + p"),
        ("-2, 1", "1,-2"), ("90°", "90^\\circ"), ("3.5e3", "3500"), ("East", "\\text{east}"), ("(C)", "\\text{(C)}"),
        ("32,348", "\\$32,348"), ("\u22127", "-7"), ("070", "70"), ("1+\\sqrt{19}, 1-\\sqrt{19}", "1 \\pm \\sqrt{19}"),
        ("\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"),
    ],
)  # fmt: skip
def test_equal_mathematics(stated, gold):
    for response in (f"Answer: {stated}", f"So \\boxed{{{stated}}}."):
        assert grade("math", response, {"answer": gold}).reason == "right"


@pytest.mark.parametrize(
    ("response", "gold", "reason"),
    [
        ("Answer: 43", "42", "wrong answer: 43, not 42"),
        ("Answer: 42\nAnswer: 43", "42", "wrong answer: 43, not 42"),
        ("Answer: 14 or 42", "42", "wrong answer: 14 or 42, not 42"),
        ("Answer: (1,2)", "[1,2]", "wrong answer: (1,2), not [1,2]"),
        ("Answer: west", "\\text{east}", "wrong answer: west, not east"),
        ("I cannot say.", "42", "no answer found"),
        ("Answer:", "42", "no answer found"),
        ("", "42", "no answer found"),
        ("<think>It is 42, I think", "42", "no answer found"),
    ],
)
def test_wrong_mathematics(response, gold, reason):
    assert grade("math", response, {"answer": gold}).reason == reason


def test_gsm8k_solutions_on_both_sides():
    gold = "She has 2 + 3 = <<2+3=5>>5 eggs.\n#### 5"
    assert grade("math", "2 + 3 is 5 eggs", {"answer": gold}).correct
    assert grade("math", gold, {"answer": gold}).correct
    assert not grade("math", "2 + 3 is 6 eggs", {"answer": gold}).correct


@pytest.mark.slow
@pytest.mark.parametrize(
    "stated",
    [
        "9^{9^{9^9}}", "10^{10^{10}}!", "\\sum_{n=1}^{10^{12}} \\frac{1}{n^2}", "((1+x)^{5000})^{50}", "(" * 900,
        "\\binom{10^9}{5\\cdot 10^8}", "\\begin{matrix}" * 50, "{" * 900, "\\frac{1}{" * 200, "\\boxed{" * 100_000,
        "$" * 100_000, "__import__('os').system('true')", "\x00\ud800",
    ],
)  # fmt: skip
def test_mathematics_that_would_take_for_ever(stated):
    start = time.monotonic()
    verdict = grade("math", f"Answer: {stated}", {"answer": "9"})
    assert not verdict.correct
    assert len(verdict.reason) < 200
    assert "\n" not in verdict.reason
    assert time.monotonic() - start < 30


def test_mathematics_in_threads():
    """math-verify's own time-outs only work in the main thread."""
    found = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(grade("math", f"Answer: {i}+0", {"answer": str(i)}).correct))
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_a_comparison_that_hangs_is_ended(monkeypatch):
    from escd.evaluation.graders import maths

    worker = maths._Worker()
    monkeypatch.setattr(maths, "_WORKER", worker)
    assert grade("math", "Answer: 1+1", {"answer": "2"}).correct
    monkeypatch.setattr(maths, "_SECONDS", 0.01)
    worker._process.send_signal(19)  # SIGSTOP: it answers no more
    assert grade("math", "Answer: 1+1", {"answer": "2"}).reason == "time limit: 1+1 cannot be compared"
    monkeypatch.setattr(maths, "_SECONDS", 20)
    assert grade("math", "Answer: 1+1", {"answer": "2"}).correct
    worker._process.kill()  # out of memory, say
    worker._process.wait()
    grade("math", "Answer: 1+1", {"answer": "2"})
    assert grade("math", "Answer: 1+1", {"answer": "2"}).correct
    worker.close()


@pytest.mark.parametrize(
    ("stated", "gold"),
    [
        ("3.5 km", "3500 m"), ("3,500 m", "3500 m"), ("3.5e3 m", "3500 m"), ("3.5 × 10^3 m", "3500 m"),
        ("3.5 \\times 10^{3}\\ \\text{m}", "3500 m"), ("3.5·10³ m", "3500 m"), ("$3500$ m", "3500 m"),
        ("d = v t = 3500 m.", "3500 m"), ("about 3520 m", "3500 m"), ("9.8 m s^-2", "9.8 m/s^2"),
        ("9.8 m/s²", "9.8 m/s^2"), ("9.8 meters per second squared", "9.8 m/s^2"), ("9.8 N/kg", "9.8 m/s**2"),
        ("9.8\\ \\frac{\\text{m}}{\\text{s}^2}", "9.8 m/s^2"), ("36 km/h", "10 m/s"), ("25 °C", "298.15 K"),
        ("25 degrees Celsius", "25 °C"), ("25^\\circ C", "25 °C"), ("50 %", "0.5"), ("12 apple", "12 apples"),
        ("4.7 kΩ", "4700 ohm"), ("2 \\mu F", "2e-6 F"), ("1/2 m", "0.5 m"), ("3 g/cm^3", "3000 kg/m^3"),
        ("6.02e23 /mol", "6.02e23 mol^-1"), ("45 degrees", "45°"), ("340 m/s (in air)", "340 m/s"), ("0 m", "0 m"),
    ],
)  # fmt: skip
def test_equal_quantities(stated, gold):
    for response in (f"Answer: {stated}", f"So \\boxed{{{stated}}}."):
        assert grade("science", response, {"answer": gold}).reason == "right"


@pytest.mark.parametrize(
    ("response", "gold", "reason"),
    [
        ("Answer: 3500", "3500 m", "no unit: 3500, not 3500 m"),
        ("Answer: 3500 s", "3500 m", "wrong unit: 3500 s, not 3500 m"),
        ("Answer: 3600 m", "3500 m", "wrong answer: 3600 m, not 3500 m"),
        ("Answer: -3500 m", "3500 m", "wrong answer: -3500 m, not 3500 m"),
        ("Answer: 3500 M", "3500 m", "wrong unit: 3500 M, not 3500 m"),
        ("Answer: 12 pears", "12 apples", "wrong unit: 12 pears, not 12 apples"),
        ("Answer: many", "3500 m", "no number in the answer: many"),
        ("It is 3500 m", "3500 m", "no answer found"),
        ("", "3500 m", "no answer found"),
        ("Answer: 3 m**9**9**9**9", "3 m", "wrong unit: 3 m**9**9**9**9, not 3 m"),
        ("Answer: 1e999 m", "3 m", "wrong answer: inf m, not 3 m"),
    ],
)
def test_wrong_quantities(response, gold, reason):
    assert grade("science", response, {"answer": gold}).reason == reason


def test_tolerance():
    assert not grade("science", "Answer: 3501 m", {"answer": "3500 m", "relative_tolerance": 1e-6}).correct
    assert grade("science", "Answer: 3.5000001 km", {"answer": "3500 m", "relative_tolerance": 1e-6}).correct
    assert grade("science", "Answer: 4 km", {"answer": "3500 m", "relative_tolerance": 0.2}).correct


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("Answer: C", "C"), ("(C)", "C"), ("**C**", "C"), ("\\boxed{\\text{(C)}}", "C"), ("c", "C"), ("C.", "C"),
        ("C) because it is", "C"), ("The correct answer is B.", "B"), ("The answer is B because of", "B"),
        ("I think (A) is wrong, so (D)", "D"), ("so the best is option D", "D"), ("Answer: D) Paris", "D"),
        ("<think>A</think>B", "B"), ("Answer: B. Because A is wrong", "B"), ("Answer: Paris", "B"),
        ("Answer: A or C", "AC"), ("Answer: (A) and (C)", "AC"), ("Answer: A/B", "AB"),
        ("Answer: A rock", None), ("A rock is hard.", None), ("I do not know", None), ("", None),
    ],
)  # fmt: skip
def test_chosen_letters(response, letter):
    assert chosen(response, ["London", "Paris"]) == letter


def test_choice():
    assert grade("choice", "Answer: (b)", {"answer": "B"}).reason == "right"
    assert grade("choice", "Answer: A", {"answer": "B"}).reason == "wrong answer: A, not B"
    assert grade("choice", "Answer: A or B", {"answer": "B"}).reason == "more than one choice: A, B"
    assert grade("choice", "Hard to say", {"answer": "B"}).reason == "no answer found"


@pytest.mark.parametrize(
    "value",
    [
        [("1\n", "2\n")], [["1\n", "2\n"]], [{"input": "1\n", "output": "2\n", "testtype": "stdin"}],
        {"input": ["1\n"], "output": ["2\n"]}, '{"inputs": ["1\\n"], "outputs": ["2\\n"]}',
        [{"input": ["1", ""], "output": "2\n"}],
    ],
)  # fmt: skip
def test_cases_in_the_forms_of_several_sets(value):
    assert cases_of(value) == [("1\n", "2\n")]


@pytest.mark.parametrize("value", ["nonsense", 3, None, [("1",)], [{"input": "1"}], {"inputs": ["1"], "outputs": []}])
def test_cases_that_are_none(value):
    with pytest.raises(ConfigError, match="pairs of input and output"):
        cases_of(value)


def test_programs():
    need_sandbox()
    double = {"tests": ["assert f(3) == 6"], "prefix": "import math\ndef g(x):\n    return 2 * x\n"}
    assert grade("code", "Here:\n```python\ndef f(x):\n    return g(x)\n```\nDone.", double).reason == "right"
    assert "wrong answer" in grade("code", "def f(x): return x", double).reason
    assert not grade("code", "", double).correct
    humaneval = {
        "prefix": 'def add(a, b):\n    """Add."""\n', "entry_point": "add",
        "tests": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    }  # fmt: skip
    for response in ("    return a + b\n", "```python\ndef add(a, b):\n    return a + b\n```"):
        assert grade("code", response, humaneval).reason == "right"
    twice = {"cases": [("3\n", "6\n"), ("4\n", "8\n")]}
    assert grade("stdio", "```python\nprint(2 * int(input()))\n```", twice).reason == "right"
    assert "case 2 of 2" in grade("stdio", "print(6)", twice).reason


def test_mistakes_in_a_record():
    with pytest.raises(ConfigError, match="unknown grader 'maths'; did you mean 'math'"):
        grade("maths", "1", {"answer": "1"})
    for name, about in GRADERS.items():
        with pytest.raises(ConfigError, match=f"grader '{name}' needs '{about.needs[0]}'; the record has question"):
            grade(name, "1", {"question": "?"})


@pytest.mark.parametrize(
    ("name", "record", "says"),
    [
        ("math", {"answer": 10**5000}, "too many digits"), ("math", {"answer": float("nan")}, "'nan'"),
        ("science", {"answer": "much"}, "not one value and unit"), ("choice", {"answer": "heat"}, "no letter"),
        ("science", {"answer": "1 m", "relative_tolerance": "x"}, "relative_tolerance must be a finite number"),
        ("code", {"tests": 5}, "tests must be a program"), ("stdio", {"cases": []}, "cases: there is none"),
    ],
)  # fmt: skip
def test_records_that_nothing_can_be_judged_by(name, record, says):
    with pytest.raises(ConfigError, match=says):
        grade(name, "Answer: 1", record)


def test_a_grader_that_is_not_installed(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pint", None)
    with pytest.raises(ConfigError, match="pint is not installed; run: pip install 'escd\\[eval\\]'"):
        grade("science", "1", {"answer": "1 m"})
