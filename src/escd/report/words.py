"""Numbers in words: percent, durations, values of settings."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .reading import text

NOTHING = "–"
# A report is made to be passed on; access tokens are not.
_SECRET = re.compile(r"api_?key|hub_token|hf_token|access_token|password|secret", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"\b(hf_|sk-)[A-Za-z0-9_-]{16,}")


def figure(value: float) -> str:
    """Three significant digits.

    >>> figure(0.04321), figure(12345.6), figure(float("nan"))
    ('0.0432', '12,346', '–')
    """
    if math.isnan(value):
        return NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}".replace("-", "−", 1) if value < 0 else f"{value:.3g}"


def percent(share: float) -> str:
    """A share from 0 to 1 in percent, with two digits where one decimal would show too little.

    >>> percent(0.31), percent(0.0004), percent(1.0)
    ('31.0%', '0.04%', '100%')
    """
    if math.isnan(share):
        return NOTHING
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{100 * share:.2g}%" if abs(share) < 0.001 else f"{share:.1%}"


def points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign.

    >>> points(-0.0213)
    '−2.1'
    """
    return f"{100 * difference:+.1f}".replace("-", "−")


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "step"), plural(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.82), duration(75), duration(3723)
    ('0.8 s', '1 min 15 s', '1 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def setting(name: str, value: Any) -> str:
    """The value of a setting as a command line or a recipe would have it; secrets are withheld."""
    shown = text(value) if isinstance(value, str) else text(json.dumps(value, ensure_ascii=False, default=str))
    if value and (_SECRET.search(name) or _SECRET_VALUE.search(shown)):
        return "(withheld)"
    return shown
