"""Drawing: curves over steps, stacked bars over steps, accuracy before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..evaluation.scores import Score
from .reading import Run
from .svg import FAINT, INK, PAPER, SERIES, canvas

# Lines and bars differ in more than colour.
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_HATCHES = ("", "////", "", "\\\\\\\\", "", "xxxx")
MOST_POINTS, _MOST_BARS, _FEW = 400, 40, 30


@dataclass(frozen=True)
class Line:
    """One metric of a figure: its name in `metrics.jsonl` and how the figure calls it."""

    metric: str
    label: str


@dataclass(frozen=True)
class Panel:
    """Axes of a figure.

    Attributes:
        unit: What stands above the axes.
        lines: Metrics to draw.
        percent: Values are shares from 0 to 1, shown in percent.
        top: Upper end of the axis; by default what the values need.
        band: Metrics of the lower and upper edge of a shaded band around the first line.
        dots: A metric drawn as single points, such as an evaluation now and then.
        exact: The values are not noisy and need no moving mean.
    """

    unit: str
    lines: tuple[Line, ...]
    percent: bool = False
    top: float | None = None
    band: tuple[str, str] | None = None
    dots: Line | None = None
    exact: bool = False

    @property
    def all_lines(self) -> tuple[Line, ...]:
        """Lines and dots."""
        return (*self.lines, self.dots) if self.dots else self.lines


def curves(run: Run, panels: Sequence[Panel]) -> Figure:
    """Curves over steps: every log thin, a moving mean thick. Draws what was logged, leaves out what was not."""
    panels = [p for p in panels if any(len(run.series(line.metric).finite) for line in p.all_lines)]
    figure, axes = canvas([210] if len(panels) == 1 else [90] * len(panels))
    for ax, panel in zip(axes, panels, strict=True):
        labels = []
        if panel.band:
            steps, edges = run.table(panel.band)
            steps, (low, high) = bins(steps, edges, MOST_POINTS)
            ax.fill_between(steps, low, high, color=SERIES[0], alpha=0.15, linewidth=0)
        for i, line in enumerate(panel.lines):
            series = run.series(line.metric)
            if len(series.finite):
                _curve(ax, series.steps, series.values, i, panel.exact)
                key = Line2D([], [], color=SERIES[i], linestyle=DASHES[i], linewidth=2)
                labels.append((series.last, line.label, SERIES[i], key))
        if panel.dots and len(run.series(panel.dots.metric).finite):
            dots, colour = run.series(panel.dots.metric), SERIES[len(panel.lines)]
            ax.plot(dots.steps, dots.values, "D", color=colour, markersize=5)
            key = Line2D([], [], color=colour, marker="D", linestyle="", markersize=5)
            labels.append((dots.finite[-1], panel.dots.label, colour, key))
        _finish(ax, run, panel, last=ax is axes[-1])
        end_labels(ax, labels)
    return figure


def stacked(run: Run, panel: Panel, whole: str | None = None) -> Figure:
    """Stacked bars over steps, long runs in bins; a label gives each part's share of the whole.

    Args:
        run: The run.
        panel: Its lines are the parts, from the bottom up.
        whole: A metric that holds the sum of all parts and of what is in none: drawn as "other".
    """
    figure, (ax,) = canvas([210])
    names = [line.metric for line in panel.lines]
    steps, values = run.table([*names, whole] if whole else names)
    steps, values = bins(steps, values, _MOST_BARS)
    values = np.nan_to_num(values)
    labels = [line.label for line in panel.lines]
    if whole:
        values[-1] = np.maximum(values[-1] - values[:-1].sum(0), 0)
        labels.append("other")
    width = 0.9 * float(np.diff(steps).min()) if len(steps) > 1 else 0.9
    total, bottom, marks = values.sum(), np.zeros(len(steps)), []
    for i, (part, label) in enumerate(zip(values, labels, strict=True)):
        colour = FAINT if label == "other" else SERIES[i]
        if part.any():
            look = {"facecolor": colour, "edgecolor": PAPER, "hatch": _HATCHES[i], "linewidth": 0.6}
            ax.bar(steps, part, width, bottom, **look)
            share = f"{part.sum() / total:.0%}" if part.sum() >= 0.01 * total else "<1%"
            marks.append((bottom[-1] + part[-1] / 2, f"{label} {share}", colour, Rectangle((0, 0), 1, 1, **look)))
        bottom = bottom + part
    _finish(ax, run, panel, last=True)
    end_labels(ax, marks)
    if not marks:
        ax.text(0.5, 0.5, "0 at every step", transform=ax.transAxes, ha="center", color=FAINT)
    return figure


def before_after(scores: Sequence[tuple[str, Score]]) -> Figure:
    """Accuracy as horizontal bars with 95 % intervals, one per (name, score)."""
    figure, (ax,) = canvas([46 * len(scores)], width=360, left=54, right=64)
    for i, (name, score) in enumerate(reversed(scores)):
        ax.barh(i, score.accuracy, 0.56, color=SERIES[0] if name == "after" else FAINT, alpha=0.55)
        if not math.isnan(score.low + score.high):
            ax.plot([score.low, score.high], [i, i], color=INK, linewidth=1.6)
            ax.plot([score.low, score.high], [i, i], "|", color=INK, markersize=12, markeredgewidth=1.6)
        ends = [e for e in (score.accuracy, score.high) if not math.isnan(e)]
        ax.annotate(f"{score.accuracy:.1%}", (max(ends), i), (8, 0), textcoords="offset points", va="center",
                    color=INK, fontweight="bold")  # fmt: skip
    ax.set_yticks(range(len(scores)), [name for name, _ in reversed(scores)])
    ax.set_ylim(-0.6, len(scores) - 0.4)
    ax.set_xlim(0, min(1, 1.15 * max(max(s.accuracy, np.nan_to_num(s.high)) for _, s in scores)) or 1)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_formatter(FuncFormatter(percent_tick))
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.set_title("share of right answers, with 95% interval", loc="left", fontsize=10, color=FAINT)
    return figure


def _curve(ax: Axes, steps: np.ndarray, values: np.ndarray, i: int, exact: bool) -> None:
    """One metric as a thin line, and thick its mean over a twentieth of the run."""
    steps, (values,) = bins(steps, values[None], MOST_POINTS)
    kept = np.isfinite(values)
    if kept.sum() <= _FEW:
        ax.plot(steps, values, color=SERIES[i], linestyle=DASHES[i], linewidth=1.8, marker="o", markersize=3.5)
        return
    if exact:
        ax.plot(steps, values, color=SERIES[i], linestyle=DASHES[i], linewidth=2)
        return
    ax.plot(steps, values, color=SERIES[i], linewidth=0.8, alpha=0.4)
    half = max(1, kept.sum() // 40)
    smooth = np.array([np.mean(values[kept][max(0, j - half) : j + half + 1]) for j in range(kept.sum())])
    ax.plot(steps[kept], smooth, color=SERIES[i], linestyle=DASHES[i], linewidth=2)


def bins(steps: np.ndarray, values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """At most `most` points: steps [n] and values [k, n] averaged over equal runs of logs, NaN left out."""
    size = -(-len(steps) // most)
    if size <= 1:
        return steps, values
    starts = np.arange(0, len(steps), size)
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0), starts, axis=1)
    counts = np.add.reduceat(known, starts, axis=1, dtype=np.int64)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return np.add.reduceat(steps, starts) / np.diff(starts, append=len(steps)), means


def _finish(ax: Axes, run: Run, panel: Panel, last: bool) -> None:
    first, end = run.first_step, max(run.steps, 1)
    margin = max(0.6, 0.015 * (end - first))
    ax.set_xlim(first - margin, end + margin)
    top = panel.top or max(ax.dataLim.y1, 0) * 1.06 or 1.0
    ax.set_ylim(min(0.0, ax.dataLim.y0) if math.isfinite(ax.dataLim.y0) else 0, top)
    ax.set_title(panel.unit, loc="left", fontsize=10, color=FAINT)
    ax.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(percent_tick if panel.percent else tick))
    ax.xaxis.set_major_formatter(FuncFormatter(tick))
    ax.grid(False, axis="x")
    if last:
        ax.set_xlabel("step", fontsize=10, color=FAINT)
    else:
        ax.tick_params(labelbottom=False)


def end_labels(ax: Axes, labels: Sequence[tuple[float, str, str, Line2D | Rectangle]]) -> None:
    """Names at the right end of what they name: (height, text, colour, how it is drawn), apart where they collide."""
    bottom, top = ax.get_ylim()
    width, height = ax.get_window_extent().size  # points
    gap, previous, places = 14 / height, -1.0, []
    order = sorted(labels, key=lambda label: label[0])
    for y, *_ in order:
        previous = max(min(max((y - bottom) / (top - bottom), 0), 1), previous + gap)
        places.append(previous)
    ceiling = 1.0
    for i in reversed(range(len(places))):
        places[i] = min(places[i], ceiling)
        ceiling = places[i] - gap
    for place, (_, text, colour, key) in zip(places, order, strict=True):
        if isinstance(key, Line2D):
            x = [1 + 7 / width, 1 + 15 / width, 1 + 23 / width]
            key.set_data(*((x[1:2], [place]) if key.get_linestyle() == "None" else (x, [place] * 3)))
        else:
            key.set_bounds(1 + 9 / width, place - 4.5 / height, 12 / width, 9 / height)
        key.set(transform=ax.transAxes, clip_on=False)
        ax.add_artist(key)
        ax.annotate(text, (1, place), (28, 0), xycoords="axes fraction", textcoords="offset points", va="center",
                    color=colour, annotation_clip=False)  # fmt: skip


def tick(value: float, _: object = None) -> str:
    """A number in at most six characters."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    if 0 < abs(value) < 0.01:
        digits, power = f"{value:.3e}".split("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{value:g}"


def percent_tick(value: float, _: object = None) -> str:
    return f"{100 * value:.4g}%"
