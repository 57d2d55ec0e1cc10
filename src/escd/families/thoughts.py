"""Markers around a thought are written by the model itself, so they are content, even where flagged special."""

from __future__ import annotations

import re

_MARKER = re.compile(r"^(<|\[|◁|<\|)/?(begin_of_)?(end_of_)?(think|thinking|thought|reasoning)(\|>|>|\]|▷)$", re.I)


def is_thought(text: str) -> bool:
    """Whether a token is a marker like `<think>` or `</think>`.

    >>> is_thought("</think>"), is_thought("<|im_end|>")
    (True, False)
    """
    return _MARKER.match(text) is not None
