"""Drawing: learning curves of the arms, accuracies and differences with intervals; as PNG and for the page.

Colours come from matplotlib's settings (`C0`, `C1`, ..., the colour of ticks and text), so that one drawing serves a
page, whose colours follow light and dark mode, and a file on white. Arms also differ in dashes and markers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..report.figures import DASHES, MOST_POINTS, bins, end_labels, percent_tick, tick
from ..report.svg import LIGHT, SERIES, canvas, drawing
from .results import BASE_NAME, Result, Results
from .statistics import BETTER, WORSE, Estimate
from .tables import signed

_MARKERS = "osD^vPX*<>"


@dataclass(frozen=True)
class Curve:
    """A learning curve that can be compared between arms.

    Attributes:
        key: Name of the figure in links.
        metric: Name in `metrics.jsonl`.
        title: Its heading.
        unit: What stands above the axes.
        what: What it shows.
        percent: Values are shares from 0 to 1, shown in percent.
        complement: The share that is left is drawn.
    """

    key: str
    metric: str
    title: str
    unit: str
    what: str
    percent: bool = False
    complement: bool = False


# Entropy is not among them: it is logged over supervised rows, and these are the objective's choice.
CURVES = (
    Curve("finished", "completions/clipped_ratio", "Finished responses", "share of responses that stop by themselves",
          "Training responses that the student ended itself, before the length limit.", True, True),
    Curve("length", "completions/mean_length", "Response length", "tokens per training response",
          "Falling to a few tokens: collapse. The limit is max_completion_length."),
    Curve("supervised", "rows/none", "Supervised rows", "share of response rows that carry a loss",
          "How much of what the student writes an objective can learn from.", True, True),
)  # fmt: skip


@contextmanager
def on_page(key: str) -> Iterator[None]:
    """Settings for a figure of the page; `key` sets its identifiers apart."""
    settings: Any = {"axes.prop_cycle": cycler(color=SERIES)}
    with drawing(key), matplotlib.rc_context(settings):
        yield


@contextmanager
def _on_white() -> Iterator[None]:
    """The same look with the page's light colours."""
    with on_page("png"):
        settings: Any = {k: LIGHT[v] for k, v in matplotlib.rcParams.items() if isinstance(v, str) and v in LIGHT}
        settings |= {
            "figure.facecolor": "white",
            "axes.prop_cycle": cycler(color=[LIGHT[colour] for colour in SERIES]),
        }
        with matplotlib.rc_context(settings):
            yield


def style(i: int) -> dict:
    """Colour, dashes and marker of arm i."""
    return {"color": f"C{i % len(SERIES)}", "linestyle": DASHES[(i + i // len(SERIES)) % len(DASHES)],
            "marker": _MARKERS[i % len(_MARKERS)]}  # fmt: skip


def mean_curve(of: Sequence[Result], about: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Steps [n] and lowest, mean and highest value over seeds [3, n], of steps that every seed has logged."""
    series = [s for result in of if len((s := result.log.series(about.metric)).finite)]
    if not series:
        return np.zeros(0), np.zeros((3, 0))
    steps = np.array(sorted(set.intersection(*({*s.steps.tolist()} for s in series))), np.int64)
    values = np.stack([s.values[np.isin(s.steps, steps)] for s in series])
    values = 1 - values if about.complement else values
    return steps, np.stack([values.min(0), values.mean(0), values.max(0)])


def draw_curve(ax: Axes, results: Results, about: Curve) -> None:
    """Mean over seeds per arm, and a band from the lowest seed to the highest."""
    labels = []
    for i, arm in enumerate(results.plan.arms):
        steps, values = mean_curve(results.of(arm), about)
        if not len(steps):
            continue
        steps, (low, mean, high) = bins(steps, values, MOST_POINTS)
        look = style(i)
        ax.fill_between(steps, low, high, color=look["color"], alpha=0.12, linewidth=0)
        ax.plot(steps, mean, linewidth=1.8, markersize=4.5, markevery=(i % 3, max(1, len(steps) // 8)), **look)
        labels.append(
            (mean[-1], arm, look["color"], Line2D([], [], linewidth=2, markersize=4.5, markevery=[1], **look))
        )
    ax.set_title(about.unit, loc="left", fontsize=10, color=_faint())
    ax.set_ylim(min(0.0, ax.dataLim.y0), 1.02 if about.percent else max(ax.dataLim.y1, 0) * 1.06 or 1.0)
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(percent_tick if about.percent else tick))
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    ax.grid(False, axis="x")
    ax.set_xlabel("step", fontsize=10, color=_faint())
    end_labels(ax, labels)


def draw_accuracy(ax: Axes, results: Results, task: str) -> None:
    """Accuracy of the base student and of each arm, as dots with intervals."""
    rows = results.of_task(task)
    for y, row in enumerate(reversed(rows)):
        _dot(ax, y, row.accuracy, f"{row.accuracy.mean:.1%}", _faint() if row.arm == BASE_NAME else _ink(), "o", True)
    _finish(ax, [row.arm for row in rows], f"{task}: share of right answers, with 95% interval", percent_tick)


def draw_differences(ax: Axes, results: Results, task: str) -> None:
    """Paired differences to the reference, as dots with intervals; the form of a dot is the verdict."""
    rows = [row for row in results.of_task(task) if row.difference and row.arm != BASE_NAME]
    ax.axvline(0, color=_ink(), linewidth=1.2)
    for y, row in enumerate(reversed(rows)):
        found = row.difference
        assert found is not None
        word = found.verdict
        marker, colour = {BETTER: ("^", "C2"), WORSE: ("v", "C1")}.get(word, ("o", _ink()))
        _dot(ax, y, found, signed(found.mean), colour, marker, word in (BETTER, WORSE))
    _finish(
        ax, [row.arm for row in rows], f"{task}: points against {results.plan.reference}, with 95% interval", _points
    )


def accuracies(results: Results, task: str) -> Figure:
    """`draw_accuracy` as a figure of the page."""
    return _rows_figure(results, len(results.plan.arms) + 1, task, draw_accuracy)


def differences(results: Results, task: str) -> Figure:
    """`draw_differences` as a figure of the page."""
    return _rows_figure(results, len(results.plan.arms) - 1, task, draw_differences)


def curve(results: Results, about: Curve) -> Figure:
    """`draw_curve` as a figure of the page."""
    figure, (ax,) = canvas([max(210, 15 * len(results.plan.arms))])
    draw_curve(ax, results, about)
    return figure


def write_png(results: Results, path: Path) -> None:
    """Learning curves above, below them accuracies and differences of each task, in one image."""
    arms, tasks = len(results.plan.arms), results.tasks
    # Inches. What stands beside the axes (names of arms) is placed by hand: no layout engine knows its size.
    width, gap, high, low = 15.0, 0.9, max(3.0, 0.22 * arms), 0.4 + 0.3 * (arms + 1)
    total = 0.3 + high + gap + len(tasks) * (low + gap)
    with _on_white():
        figure = Figure(figsize=(width, total), dpi=110)

        def panel(left: float, bottom: float, right: float, height: float) -> Axes:
            return figure.add_axes((left / width, bottom / total, (right - left) / width, height / total))

        bottom = total - 0.3 - high
        for i, about in enumerate(CURVES):
            slot = width / len(CURVES)
            draw_curve(panel(slot * i + 0.6, bottom, slot * (i + 1) - 1.75, high), results, about)
        names = 0.35 + _name_width(results) / 72
        for task in tasks:
            bottom -= gap + low
            draw_accuracy(panel(names, bottom, width / 2 - 0.4, low), results, task)
            if arms > 1:
                draw_differences(panel(width / 2 + names, bottom, width - 0.4, low), results, task)
        figure.savefig(path, format="png", metadata={"Software": None})


def _name_width(results: Results) -> int:
    """Room for the name of an arm, in points."""
    return min(7 * max(len(name) for name in (*results.plan.arms, BASE_NAME)), 176)


def _rows_figure(results: Results, rows: int, task: str, draw) -> Figure:
    figure, (ax,) = canvas([max(28 * rows, 40)], left=14 + _name_width(results), right=26)
    draw(ax, results, task)
    return figure


def _dot(ax: Axes, y: int, found: Estimate, label: str, colour: str, marker: str, filled: bool) -> None:
    if math.isnan(found.mean):
        ax.annotate(
            "no result", (0.02, y), xycoords=("axes fraction", "data"), va="center", color=_faint(), fontsize=9
        )
        return
    if not math.isnan(found.low):
        ax.plot([found.low, found.high], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
        ax.plot([found.low, found.high], [y, y], "|", color=colour, markersize=8, markeredgewidth=1.6)
    face = colour if filled else matplotlib.rcParams["figure.facecolor"]
    ax.plot([found.mean], [y], marker, color=colour, markersize=8, markerfacecolor=face, markeredgewidth=1.6)
    ax.annotate(label, (found.mean, y), (0, 6), textcoords="offset points", ha="center", color=_ink(), fontsize=9)


def _finish(ax: Axes, names: Sequence[str], unit: str, form) -> None:
    ax.set_yticks(range(len(names)), list(reversed(names)))
    ax.set_ylim(-0.5, len(names) - 0.3)
    ax.margins(x=0.06)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_formatter(FuncFormatter(form))
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_title(unit, loc="left", fontsize=10, color=_faint())


def _points(value: float, _: object = None) -> str:
    return f"{100 * value:+.4g}".replace("-", "−") if value else "0"


def _ink() -> str:
    return matplotlib.rcParams["text.color"]


def _faint() -> str:
    return matplotlib.rcParams["xtick.color"]
