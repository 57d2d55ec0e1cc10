"""The page of a comparison: headline, table, figures, runs and settings, in one file without network or scripts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .. import __version__
from ..files import write_whole
from ..report import words, write_report
from ..report.reading import text
from ..report.svg import inline
from . import figures, tables
from .results import Result, Results
from .statistics import BETTER, UNCERTAIN, WORSE


def write_page(results: Results) -> Path:
    """Write `comparison.html` and `curves.png` into the output folder.

    A finished run that was stopped before it wrote its own report gets one, since the page links to it.

    Returns:
        Path of the page.
    """
    folder = results.plan.folder
    for result in results.results:
        if not result.failure and not (result.run.folder / "report.html").is_file():
            write_report(result.run.folder)
    unfinished = folder / ".curves.tmp.png"
    try:
        figures.write_png(results, unfinished)
        os.replace(unfinished, folder / "curves.png")
    finally:
        unfinished.unlink(missing_ok=True)
    write_whole(folder / "comparison.html", render(results))
    return folder / "comparison.html"


def render(results: Results) -> str:
    """The page as HTML."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("escd.compare"), PackageLoader("escd.report")]), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters.update(percent=words.percent, plural=words.plural, figure=words.figure, text=text)
    plan = results.plan
    shared, arms = plan.settings()
    return environment.get_template("compare.html.j2").render(
        plan=plan,
        headline=headline(results),
        basis=tables.basis(results),
        facts=facts(results),
        tasks=[_task(results, task) for task in results.tasks],
        curves=[_curve(results, about) for about in figures.CURVES],
        failures=results.failures,
        runs=[_run(results, result) for result in results.results],
        shared=[(text(k), words.setting(k, v)) for k, v in shared.items()],
        arms=[(arm, [(text(k), words.setting(k, v)) for k, v in own.items()]) for arm, own in arms.items()],
        many=len(results.tasks) * (len(plan.arms) - 1) >= 5,
        version=__version__,
    )


def headline(results: Results) -> str:
    """Which arms are better or worse than the reference, task by task."""
    reference, found = results.plan.reference, []
    for task in results.tasks:
        rows = [r for r in results.of_task(task) if r.arm in results.plan.arms and r.arm != reference]
        parts = []
        for word in (BETTER, WORSE, UNCERTAIN):
            these = [row for row in rows if tables.verdict(results, row) == word]
            # Many figures make no headline; the table has them.
            named = [f"{r.arm} ({tables.gap(r.difference)})" if len(rows) <= 3 else r.arm for r in these]
            if named:
                parts.append(f"{words_of(named)} {_VERB[word](len(named))}")
        if parts:
            found.append(f"On {task}, {'; '.join(parts)}.")
    return " ".join(found) or f"There is nothing to compare {reference} with."


def words_of(names: list[str]) -> str:
    """
    >>> words_of(["a"]), words_of(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_VERB: dict[str, Callable[[int], str]] = {
    BETTER: lambda n: f"{'is' if n == 1 else 'are'} better than the reference",
    WORSE: lambda n: f"{'is' if n == 1 else 'are'} worse than the reference",
    UNCERTAIN: lambda n: f"show{'s' if n == 1 else ''} no certain difference",
}


def facts(results: Results) -> list[tuple[str, str]]:
    """What was compared: (name, value)."""
    plan = results.plan
    request = plan.requests[plan.reference]
    teachers = Counter(str(r.training.teacher_model_name_or_path) for r in plan.requests.values())
    responses = request.training.per_device_train_batch_size * request.training.gradient_accumulation_steps
    steps = plan.steps or max((result.log.steps for result in results.results), default=0)
    return [
        ("Student", text(request.model.model_name_or_path)),
        ("Teacher", text(", ".join(teachers))),
        ("Reference", plan.reference),
        ("Arms", str(len(plan.arms))),
        ("Seeds", ", ".join(map(str, plan.seeds)) if len(plan.seeds) <= 8 else str(len(plan.seeds))),
        ("Steps", f"{steps:,}"),
        ("Responses per step", f"{responses:,}"),
    ]


def _task(results: Results, task: str) -> dict[str, Any]:
    rows = results.of_task(task)
    key = f"task-{results.tasks.index(task) + 1}"
    told = [f"{row.arm} {tables.share(row.accuracy)}" for row in rows]
    gaps = [f"{row.arm} {tables.gap(row.difference)}" for row in rows if row.difference]
    with figures.on_page(f"{key}-accuracy"):
        accuracy = inline(
            figures.accuracies(results, task), f"{key}-accuracy", f"Accuracy on {task}: {'; '.join(told)}"
        )
    difference = None
    if len(results.plan.arms) > 1:
        with figures.on_page(f"{key}-gap"):
            label = f"Difference to {results.plan.reference} on {task}, points: {'; '.join(gaps)}"
            difference = Markup(inline(figures.differences(results, task), f"{key}-gap", label))
    table = [
        (row.arm, tables.share(row.accuracy), tables.gap(row.difference), tables.verdict(results, row),
         row.accuracy.seeds, row.accuracy.problems)
        for row in rows
    ]  # fmt: skip
    return {"name": text(task), "key": key, "rows": table, "accuracy": Markup(accuracy), "difference": difference}


def _curve(results: Results, about: figures.Curve) -> dict[str, Any]:
    shown = words.percent if about.percent else words.figure
    ends = []
    for arm in results.plan.arms:
        _, values = figures.mean_curve(results.of(arm), about)
        if values.shape[1]:
            ends.append((arm, f"{shown(values[1, 0])} → {shown(values[1, -1])}"))
    svg = None
    if ends:
        with figures.on_page(about.key):
            label = f"{about.title} over steps: " + "; ".join(f"{arm} {value}" for arm, value in ends)
            svg = Markup(inline(figures.curve(results, about), about.key, label))
    return {"about": about, "svg": svg, "ends": ends}


def _run(results: Results, result: Result) -> dict[str, Any]:
    run, root = result.run, results.plan.folder
    report = run.folder / "report.html"
    return {
        "arm": run.arm, "seed": run.seed, "failure": text(result.failure),
        "accuracy": [words.percent(result.accuracy(task)) for task in results.tasks],
        "seconds": words.NOTHING if result.seconds != result.seconds else words.duration(result.seconds),
        "step": words.figure(result.step_seconds), "tokens": words.figure(result.tokens),
        "memory": words.NOTHING if result.peak_memory != result.peak_memory else f"{result.peak_memory / 2**20:,.0f}",
        "report": report.relative_to(root).as_posix() if report.is_file() else "",
        "log": run.log.relative_to(root).as_posix() if run.log.is_file() else "",
    }  # fmt: skip
