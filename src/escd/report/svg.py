"""Figures as inline SVG that takes its colours from the page, so that they follow light and dark mode."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Stand-ins that matplotlib draws with; each becomes a CSS variable of the page.
INK, FAINT, GRID, PAPER = "#0a0b00", "#0a0b01", "#0a0b02", "#0a0b03"
SERIES = ("#0a0b11", "#0a0b12", "#0a0b13", "#0a0b14", "#0a0b15", "#0a0b16")
_VARIABLES = {
    **dict(zip((INK, FAINT, GRID, PAPER), ("--ink", "--faint", "--grid", "--paper"), strict=True)),
    **{colour: f"--s{i}" for i, colour in enumerate(SERIES, 1)},
}
# The light colours of `templates/run.css`, for an image on white.
LIGHT = {
    **dict(zip((INK, FAINT, GRID, PAPER), ("#1b2029", "#5b6472", "#e3e6eb", "#ffffff"), strict=True)),
    **dict(zip(SERIES, ("#1f5fbf", "#b0540a", "#14775c", "#8a3fa6", "#7d6608", "#a2244f"), strict=True)),
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 11, "text.color": INK, "axes.edgecolor": FAINT,
    "axes.labelcolor": INK, "xtick.color": FAINT, "ytick.color": FAINT, "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "axes.facecolor": "none", "figure.facecolor": "none", "axes.grid": True,
    "grid.color": GRID, "grid.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False,
    "axes.spines.left": False, "ytick.major.size": 0, "axes.axisbelow": True, "hatch.linewidth": 0.7,
}  # fmt: skip
WIDTH = 430  # points; a page shows a figure at about this width, so that its text stays legible on a phone
_LEFT, _RIGHT, _BOTTOM, _TOP, _GAP = 46, 130, 36, 22, 30  # margins in points


@contextmanager
def drawing(key: str) -> Iterator[None]:
    """Matplotlib's settings for a figure. `key` sets its identifiers apart from those of other figures."""
    with matplotlib.rc_context({**_SETTINGS, "svg.hashsalt": key}):
        yield


def canvas(
    heights: list[int], width: int = WIDTH, left: int = _LEFT, right: int = _RIGHT
) -> tuple[Figure, list[Axes]]:
    """A figure with panels below each other, their heights in points, and room on the right for labels."""
    total = sum(heights) + _TOP + _BOTTOM + _GAP * (len(heights) - 1)
    figure = Figure(figsize=(width / 72, total / 72), dpi=72)  # a pixel is a point
    panels, y = [], total - _TOP
    for height in heights:
        y -= height
        panels.append(figure.add_axes((left / width, y / total, (width - left - right) / width, height / total)))
        y -= _GAP
    return figure, panels


def inline(figure: Figure, key: str, label: str) -> str:
    """The figure as an `<svg>` element.

    Args:
        figure: Drawn inside `drawing(key)`.
        key: Prefix of its identifiers.
        label: What a screen reader says. Plain text.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": key, "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r"""font-family: [^;"]*;? ?""", "", svg)
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    svg = re.sub(r"""((?:fill|stroke))="(#0a0b\d\d)\"""", r'style="\1: \2"', svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg))
    svg = re.sub(r' id="([^"]*)"', lambda m: f' id="{key}-{m[1]}"' if m[1] in used else "", svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{key}-", svg).replace("xlink:href", "href")
    svg = re.sub(r"<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>", rf'<svg class="plot" viewBox="\1" {_role(label)}>', svg)
    svg = re.sub(r"<defs>\s*</defs>", "", svg)
    return re.sub(r"\s*\n\s*", " ", svg)


def _role(label: str) -> str:
    for sign, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;")):
        label = label.replace(sign, entity)
    # A replacement text of re.sub: backslashes would be read as escapes.
    return f'role="img" aria-label="{label}"'.replace("\\", r"\\")
