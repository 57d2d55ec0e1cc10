"""The page: records as data beside the script that draws them, in one file without network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .. import __version__
from ..files import write_whole
from ..report.reading import text
from .record import Inspector

# Parts of the script, which share one scope.
_SCRIPTS = ("characters", "layout", "rows", "moving", "panel", "start")
# Student rows whose events lie in one element, which is read when one of them is shown.
_BLOCK = 256


def write_page(
    path: Path, inspector: Inspector, records: Sequence[dict[str, Any]], names: tuple[str, str]
) -> None:  # fmt: skip
    """Write the page, whole or not at all.

    Args:
        path: The file.
        inspector: What made the records.
        records: From `Inspector.record`, each with `title`, `prompt` (None, text or messages) and `ended` besides.
        names: What student and teacher are called.
    """
    write_whole(path, render(inspector, records, names))


def render(inspector: Inspector, records: Sequence[dict[str, Any]], names: tuple[str, str]) -> str:
    """The page as HTML. Text of a response is only in the data: JSON in which nothing can end its element."""
    objective, pair = inspector.objective, inspector.pair
    overlap = pair.overlap()
    titles = [record["title"] for record in records]
    shared = {**inspector.names(), "childWeight": objective.child_weight, "titles": titles, "block": _BLOCK}
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("escd.inspector"), PackageLoader("escd.report")]), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    student, teacher = (text(name) for name in names)
    return environment.get_template("inspect.html.j2").render(
        student=student,
        teacher=teacher,
        sizes=(len(pair.student), len(pair.teacher)),
        overlap=overlap,
        options=[f"{name} = {value}" for name, value in _options(objective).items()],
        scored=any(record["root"] is not None for record in records),
        shared=_json(shared),
        records=[(_json(_rows(record)), [_json(events) for events in _events(record)]) for record in records],
        script=Markup(script),
        script_hash=digest,
        version=__version__,
    )


def _script() -> str:
    folder = files("escd.inspector") / "templates"
    parts = "".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _options(objective: Any) -> dict[str, Any]:
    return {
        "completion": objective.sets.arm, "completion_weight": "posterior" if objective.posterior else "mass",
        "child_weight": objective.child_weight, "mask_whitespace_roots": objective.mask_whitespace_roots,
    }  # fmt: skip


def _rows(record: dict[str, Any]) -> dict[str, Any]:
    """What the page needs at once."""
    kept = ("title", "ended", "student", "teacher", "common", "status", "kind", "teacher_row", "root", "child")
    links = [[link["root"], link["child"]] for link in record["links"]]
    return {**{k: record[k] for k in kept}, "prompt": _prompt(record["prompt"]), "links": links}


def _events(record: dict[str, Any]) -> list[dict[str, Any]]:
    """For each block of rows what happens at its root rows."""
    blocks: list[dict[str, Any]] = [
        {"entries": {}, "links": {}, "unfinished": {}} for _ in range(0, len(record["student"]), _BLOCK)
    ]
    for name in ("entries", "unfinished"):
        for row, value in record[name].items():
            blocks[row // _BLOCK][name][row] = value
    for link in record["links"]:
        blocks[link["root"] // _BLOCK]["links"].setdefault(link["root"], []).append(link)
    return blocks


def _prompt(prompt: Any) -> list[tuple[str, str]] | None:
    """A prompt as (role, text) pairs."""
    if prompt is None or isinstance(prompt, str):
        return None if prompt is None else [("prompt", prompt)]
    return [(str(m.get("role")), m["content"] if isinstance(m.get("content"), str) else "") for m in prompt]


def _json(value: Any) -> Markup:
    """JSON that is inert inside `<script>`: in ASCII, without `<`, `>` and `&`."""
    found = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(found.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
