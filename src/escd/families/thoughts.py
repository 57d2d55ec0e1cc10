"""Markers around a thought are written by the model itself, so they are content, even where flagged special.

Channels (`<|channel|>` of gpt-oss, `<|channel>` of Gemma 4) are not markers: they lead to answers as well as thoughts.
"""

from __future__ import annotations

import re

_WORD = r"(?:think|thinking|thought|reasoning)"
_SPACE = r"(?:\w+:)?"  # <mm:think>, <seed:think>
OPENING = rf"(?:<|\[|◁|<\|){_SPACE}(?:begin_of_|start_)?{_WORD}(?:\|>|>|\]|▷)"
CLOSING = rf"(?:(?:<|\[|◁|<\|)/{_SPACE}|<\|?end_(?:of_)?){_WORD}(?:\|>|>|\]|▷)"
_MARKER = re.compile(f"{OPENING}|{CLOSING}", re.I)
_TRAILING = re.compile(rf"(?:(?:{OPENING}|{CLOSING})\s*)+\Z", re.I)
_CLOSING = re.compile(CLOSING, re.I)


def is_thought(text: str) -> bool:
    """Whether a token is a marker like `<think>` or `</think>`.

    >>> is_thought("</think>"), is_thought("<|im_end|>")
    (True, False)
    """
    return _MARKER.fullmatch(text) is not None


def trailing(text: str) -> str:
    """The thought markers that a text ends with, and the whitespace between and after them.

    >>> trailing("assistant\\n<think>\\n"), trailing("<think> hm"), trailing("assistant\\n<think>\\n\\n</think>\\n\\n")
    ('<think>\\n', '', '<think>\\n\\n</think>\\n\\n')
    """
    found = _TRAILING.search(text)
    return found[0] if found else ""


def closes(text: str) -> bool:
    """Whether a thought ends in a text.

    >>> closes("7, no, 8</think>8"), closes("<think>7")
    (True, False)
    """
    return _CLOSING.search(text) is not None
