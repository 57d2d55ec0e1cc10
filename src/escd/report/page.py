"""The page: figures, words and samples put into the template, written whole or not at all."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..files import write_whole
from . import checks as checking
from . import samples as sampling
from . import words
from .charts import CHARTS, Chart
from .figures import before_after, curves, stacked
from .reading import WHENS, Run, mapping, number, read_run, text
from .svg import drawing, inline
from .verdict import run_time, verdict


def write_report(run_dir: str | os.PathLike[str]) -> Path:
    """Write `report.html` into a run folder: one file that needs nothing else, neither network nor scripts.

    Reads `metrics.jsonl`, `run.json` and `evaluation/{before,after}/<task>.jsonl`. Whatever is missing (a run that has
    just begun, one without an evaluation, a metric that was never logged) is named on the page. The same folder always
    gives the same bytes. Losses and entropy are in nats per response token, times in seconds per step, lengths in
    tokens, shares and probabilities in percent.

    Args:
        run_dir: Output folder of a run. A report in it is replaced as a whole, or left alone if this one fails.

    Returns:
        Path of the page.

    Raises:
        ConfigError: `run_dir` is no folder.
    """
    folder = Path(run_dir)
    page = render(read_run(folder))
    target = folder / "report.html"
    write_whole(target, page)
    return target


def render(run: Run) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=PackageLoader("escd.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(figure=words.figure, percent=words.percent, plural=words.plural)
    by_task = [sampling.cases(task) for task in run.tasks]
    every = [case for each in by_task for case in each]
    outcomes = [sampling.outcomes(each) for each in by_task]
    return environment.get_template("run.html.j2").render(
        run=run,
        verdict=verdict(run, outcomes),
        facts=facts(run),
        evaluation=evaluation(run),
        outcomes=[(text(task.name), outcome) for task, outcome in zip(run.tasks, outcomes, strict=True)],
        checks=checking.checks(run, every),
        charts=[chart(run, each) for each in CHARTS],
        cases=sampling.choose(every),
        total=len(every),
        metrics=[(text(name), run.series(name)) for name in run.metrics if len(run.series(name).values)],
        settings=[(text(k), words.setting(k, v)) for k, v in mapping(run.info.get("settings")).items()],
        version=text(run.info.get("version")),
    )


def facts(run: Run) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """What was run: (name, value, options of it)."""
    info, unknown = run.info, "not known"
    options = [(f"{text(k)} =", words.setting(k, v)) for k, v in mapping(info.get("options")).items()]
    found: list[tuple[str, str, list[tuple[str, str]]]] = [
        ("Student", text(info.get("student")) or unknown, []),
        ("Teacher", text(info.get("teacher")) or unknown, []),
        ("Objective", text(info.get("objective")) or unknown, options),
    ]
    overlap = mapping(info.get("overlap"))
    shared, teacher, student = (number(overlap.get(k)) for k in ("shared", "teacher_vocabulary", "student_vocabulary"))
    if not math.isnan(shared):
        parts = [
            (f"{words.percent(shared / size)} of the {who}'s", f"{size:,.0f}")
            for who, size in (("teacher", teacher), ("student", student))
            if size > 0
        ]
        found.append(("Shared tokens", f"{shared:,.0f}", parts))
    return [*found, ("Steps", f"{run.steps:,}", []), ("Run time", run_time(run), [])]


def evaluation(run: Run) -> list[tuple[str, Markup]]:
    """For every task that was evaluated its name and the figure of accuracy before and after."""
    figures = []
    for number_, task in enumerate(run.tasks):
        scores = [(when, score) for when in WHENS if (score := task.score(when))]
        if scores:
            told = [f"{when} {words.percent(s.accuracy)}, 95% interval {words.percent(s.low)} to "
                    f"{words.percent(s.high)}" for when, s in scores]  # fmt: skip
            key = f"evaluation-{number_}"
            with drawing(key):
                label = f"Accuracy on {text(task.name)}: {'; '.join(told)}"
                figures.append((text(task.name), Markup(inline(before_after(scores), key, label))))
    return figures


def chart(run: Run, about: Chart) -> dict[str, Any]:
    """One figure with its explanation, how its values went, and the metrics that it lacks."""
    lines = about.lines
    known = [line for line in lines if len(run.series(line.metric).finite)]
    absent = [line.metric for line in lines if line not in known and line.metric not in about.optional]
    percent = {line.metric: panel.percent for panel in about.panels for line in panel.lines}
    summary = []
    for line in known:
        series, shown = run.series(line.metric), words.percent if percent.get(line.metric) else words.figure
        first, last = shown(series.first), shown(series.last)
        summary.append((line.label, last if len(series.finite) == 1 else f"{first} → {last}"))
    if about.whole and len((series := run.series(about.whole)).finite):
        summary.append(("whole step", f"{words.figure(series.first)} → {words.figure(series.last)}"))
    svg = None
    if known:
        with drawing(about.key):
            panel = about.panels[0]
            figure = stacked(run, panel, about.whole) if about.parts else curves(run, about.panels)
            label = f"{about.title}, over steps {run.first_step} to {run.steps}. "
            label += "; ".join(f"{name} {value}" for name, value in summary)
            svg = Markup(inline(figure, about.key, label))
    return {"about": about, "svg": svg, "summary": summary, "absent": absent}
