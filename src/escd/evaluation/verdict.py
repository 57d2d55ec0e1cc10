"""What a grader says of one response."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether a response is right, and why in one line, e.g. "right", "wrong answer: 12, not 13", "time limit"."""

    correct: bool
    reason: str


def one_line(text: str, length: int = 200) -> str:
    """`text` from an untrusted source as one printable line of at most `length` characters.

    >>> one_line("a\\n\\tb\\x1b[31m")
    'a b?[31m'
    """
    words = " ".join(text[: 4 * length].split())
    line = "".join(c if c.isprintable() else "?" for c in words)
    return line if len(line) <= length else line[: length - 3] + "..."
