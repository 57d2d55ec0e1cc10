"""Grading of a response to a lab problem."""

import re

_ANSWER_LINE = re.compile(r"^[ \t]*Answer:[ \t]*(-?\d+)[ \t]*\.?[ \t]*$")


def grade(response: str, answer: str) -> bool:
    """Whether the last ``Answer:`` line of `response` states the number `answer`.

    Trailing blanks and one full stop are forgiven, leading zeros too. A last ``Answer:`` line
    that holds anything but one number is wrong, whatever stands on earlier ones.

    >>> grade("12 + 7 = 19.\\n\\nAnswer: 19.", "19")
    True
    >>> grade("Answer: 19\\nAnswer: 20", "19")
    False
    """
    lines = [line for line in response.splitlines() if line.strip().startswith("Answer:")]
    if not lines:
        return False
    found = _ANSWER_LINE.match(lines[-1])
    return found is not None and int(found.group(1)) == int(answer)
