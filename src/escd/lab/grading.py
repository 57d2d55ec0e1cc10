"""Grading of a response to a lab problem."""

import re
import signal
import warnings
from types import FrameType

from .problems import Problem

_ANSWER_LINE = re.compile(r"^[ \t]*Answer:[ \t]*(-?\d+)[ \t]*\.?[ \t]*$")
_QUANTITY_LINE = re.compile(r"^[ \t]*Answer:[ \t]*(-?\d+(?:\.\d+)?)[ \t]*(\S.*?)[ \t]*$")
_SECONDS = 1.0
_BUILTINS = {"abs": abs, "len": len, "max": max, "min": min, "range": range, "sum": sum}


def grade(response: str, problem: Problem | str) -> bool:
    """Whether `response` solves a problem; a text stands for a problem of the task `math` with that answer.

    Math and science go by the last ``Answer:`` line: trailing blanks and leading zeros are forgiven,
    after a number one full stop too. A last ``Answer:`` line that holds anything else is wrong,
    whatever stands on earlier ones. Code is run against the problem's tests.

    >>> grade("12 + 7 = 19.\\n\\nAnswer: 19.", "19")
    True
    >>> grade("Answer: 19\\nAnswer: 20", "19")
    False
    """
    if isinstance(problem, Problem) and problem.task == "code":
        return _passes(response, problem.tests)
    lines = [line for line in response.splitlines() if line.strip().startswith("Answer:")]
    if not lines:
        return False
    if isinstance(problem, Problem) and problem.task == "science":
        quantity = _QUANTITY_LINE.match(lines[-1])
        value, unit = problem.answer.split(" ", 1)
        return quantity is not None and float(quantity.group(1)) == float(value) and quantity.group(2) == unit
    found = _ANSWER_LINE.match(lines[-1])
    answer = problem.answer if isinstance(problem, Problem) else problem
    return found is not None and int(found.group(1)) == int(answer)


def _passes(program: str, tests: tuple[str, ...]) -> bool:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # "3(x)" is one before it is an error
            names: dict[str, object] = {"__builtins__": _BUILTINS}
            exec(compile("\n".join([program, *tests]), "response", "exec"), names)
        return True
    except Exception:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
