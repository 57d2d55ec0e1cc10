"""The report as text: tables of at most 100 columns for a terminal, without colour."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from ..analysis.sample import SPANS, Use
from ..analysis.static import Group
from ..analysis.vocabulary import Token
from ..report.words import percent, plural
from .report import ModelFacts, PairReport

WIDTH = 100
_LABEL, _CELL = 34, 31
_OUTCOMES = {"yes": "yes", "ignored": "left out", "rejected": "rejected"}
_THOUGHTS = {"no": "no", "open": "yes", "closed": "an empty one"}


def render(report: PairReport) -> str:
    """The whole report."""
    parts = [
        _head(report), _verdict(report), _vocabularies(report), _templates(report), _stops(report), _overlap(report),
        _groups(report), _sample(report), _worst(report),
    ]  # fmt: skip
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _head(report: PairReport) -> Iterator[str]:
    yield _line("teacher", report.teacher.name, indent="")
    yield _line("student", report.student.name, indent="")
    sample = report.sample
    yield _line("measured on", f"{report.text}: {sample.bytes:,} bytes, {sample.characters:,} characters", indent="")


def _verdict(report: PairReport) -> Iterator[str]:
    verdict = report.verdict
    yield from _wrapped(verdict.headline, "", "")
    for finding in verdict.findings:
        yield from _wrapped(printable(finding.text), "  - ", "    ")
        if finding.advice:
            yield from _wrapped(finding.advice, "    -> ", "       ")
    if verdict.level != "fails":
        flags = " ".join(verdict.flags)
        yield from _wrapped(f"flags for escd distill: {flags or 'none needed; the defaults will do'}", "", "  ")


def _vocabularies(report: PairReport) -> Iterator[str]:
    models = (report.teacher, report.student)
    yield _row("VOCABULARIES", ["teacher", "student"], indent="")
    v = [m.vocabulary for m in models]
    yield _row("tokenizer", [x.scheme or "longest match" for x in v])
    yield _row("token ids", [f"{x.size:,}" for x in v])
    yield _row("token ids by the configuration", [f"{m.head_rows:,}" if m.head_rows else "unknown" for m in models])
    yield _row("content tokens", [f"{x.content:,}" for x in v])
    yield _row("tokens without bytes", [f"{x.silent:,}" for x in v])
    yield _row("single bytes that are no token", [_bytes(x.missing_bytes) for x in v])
    yield _row("of them in valid UTF-8 text", [_bytes(x.missing_in_text) for x in v])
    yield _row("mean bytes of a content token", [f"{x.mean_bytes:.2f}" for x in v])
    yield _row("longest, in bytes", [f"{len(x.longest.hex) // 2:,}" if x.longest else "-" for x in v])
    yield _row("longest", [shown(x.longest, _CELL - 3) if x.longest else "-" for x in v])
    yield _row("thought markers", [_joined((t.text for t in x.thoughts), _CELL - 1) for x in v])
    yield _row("normaliser", [_joined(m.rewriting.normalizers if m.rewriting else [], _CELL - 1) for m in models])
    yield _row("lines of the text that it changes", [_changed(m) for m in models])
    yield _row("space put before a text", [_yes(m.rewriting and m.rewriting.prefix_space) for m in models])
    yield _row("decode() takes away spaces", [_yes(m.rewriting and m.rewriting.cleans_spaces) for m in models])


def _templates(report: PairReport) -> Iterator[str]:
    templates = [report.teacher.template, report.student.template]
    yield _row("CHAT TEMPLATES", ["teacher", "student"], indent="")
    yield _row("has one", [_yes(t) for t in templates])
    yield _row("takes a system message", [_OUTCOMES[t.system] if t else "-" for t in templates])
    yield _row("takes a tool's result", [_OUTCOMES[t.tools] if t else "-" for t in templates])
    yield _row("opens a thought", [_THOUGHTS[t.thought] if t else "-" for t in templates])
    # The end is what stands next to the response.
    yield _row("before the response", [_tail(t.response_starts) if t else "-" for t in templates])
    yield _row("after an assistant's text", [_quoted(t.turn_ends, _CELL - 3) if t else "-" for t in templates])


def _stops(report: PairReport) -> Iterator[str]:
    stops, specials = report.stops, report.stops.shared_specials
    yield _row("STOPS", ["teacher", "student"], indent="")
    yield _row(
        "all", [_joined((t.text for t in m.vocabulary.stops), _CELL - 1) for m in (report.teacher, report.student)]
    )
    yield _row("preferred", [shown(t, _CELL - 3) if t else "-" for t in (stops.teacher, stops.student)])
    mapped = f"all to {shown(stops.student)}" if stops.joined and stops.student else "to nothing: one side has no stop"
    yield _line("the teacher's map", mapped)
    yield _line("special tokens spelled alike", f"{len(specials)}: {_joined(specials, 56)}" if specials else "none")


def _overlap(report: PairReport) -> Iterator[str]:
    o, p = report.overlap, report.projection
    yield "OVERLAP AND ENTRY"
    yield _line("shared tokens, one to one", f"{o.shared:,}")
    yield _line("teacher and student coverage", f"{percent(o.teacher_coverage)}, {percent(o.student_coverage)}")
    yield _line("Jaccard index", f"{o.jaccard:.3f}")
    yield _line("teacher tokens that enter", f"{percent(p.coverage)} of {p.content:,} content tokens")
    yield _line("by the same bytes", f"{p.exact:,}")
    yield _line("by a shorter student token", f"{p.shortened:,}")
    yield _line("not at all (⊥)", f"{p.bottom:,}{_examples(p.bottom_examples)}")
    yield _line("student tokens entered", f"{p.reached:,} ({percent(p.reached_share)} of its content tokens)")


def _groups(report: PairReport) -> Iterator[str]:
    g = report.groups
    yield "GROUPS of teacher tokens that are not one student token"
    yield _line("tokens, groups", f"{g.candidates:,}, {g.groups:,}")
    if not g.groups:
        return
    yield _line("size", f"mean {g.mean_size:.2f}, largest {g.max_size:,}, {percent(g.singletons)} of one token")
    yield _line("branchable", f"{percent(g.branchable)}")
    yield _line("with a one-step completion", f"{percent(g.completable)}")
    yield _line("(group, student token) entries", f"{g.entries:,}, {percent(g.completable_entries)} with a completion")
    yield _line("entries completed by overshooting", f"{percent(g.overshooting_entries)}")
    yield from _list("largest", (_group(x) for x in g.largest[:3]))
    yield from _list("without one-step completion", (_group(x) for x in g.stuck[:3]))


def _sample(report: PairReport) -> Iterator[str]:
    s = report.sample
    yield "ON THE TEXT"
    yield _row("", ["teacher", "student"])
    yield _row("tokens", [f"{s.teacher_tokens:,}", f"{s.student_tokens:,}"])
    yield _row("bytes per token", [f"{s.teacher_bytes_per_token:.2f}", f"{s.student_bytes_per_token:.2f}"])
    yield _row(
        "characters that it cannot spell", [f"{s.unspelled[who].characters:,}" for who in ("teacher", "student")]
    )
    yield _line("student tokens per teacher token", f"{s.student_per_teacher:.2f}")
    yield _line("student rows: roots", percent(s.rows["root"]))
    yield _line("child rows", percent(s.rows["child"]))
    for name, words in (("interior", "interior, no loss"), ("blank", "blank, no loss")):
        yield _line(words, percent(s.rows[name]))
    if rest := s.rows["no_teacher_row"] + s.rows["diverged"]:
        yield _line("beyond the teacher, no loss", percent(rest))
    yield _line("roots that run past the teacher's", percent(s.overrun))
    spans = ", ".join(f"{percent(s.spans[n])} {n}" for n in SPANS)
    yield _line("student tokens in a teacher token", spans)
    t = s.tokens
    yield _line("teacher tokens: one student token", percent(t["exact"]))
    yield _line("entered, completed in one step", percent(t["one_step"]))
    yield _line("entered, not in one step", percent(t["deeper"]))
    yield _line("not entered", percent(t["passed"] + t["inside"]))
    yield _line("one-step share of those entered", percent(s.one_step) if t["one_step"] + t["deeper"] else "-")
    yield _line("teacher mass on a child row", f"about {s.child_mass:.2f}" if s.rows["child"] else "-")
    yield _line("teacher tokens at ⊥", percent(s.bottom))


def _worst(report: PairReport) -> Iterator[str]:
    s = report.sample
    yield "WORST TOKENS of the text"
    yield from _list("most extra student tokens", map(_use, s.costly))
    stuck = (f"{_group(x.group)}, {_times(x.count)}" for x in s.stuck)
    yield from _list("entered, no one-step completion", stuck)
    yield from _list("at ⊥", (f"{shown(x.token)} {_times(x.count)}" for x in s.bottom_tokens))


def shown(token: Token, room: int = 24) -> str:
    """A token between quotation marks, in at most `room` columns and the marks."""
    return _quoted(token.text, room)


def printable(text: str) -> str:
    """A text in which all that a terminal does not show, or obeys, is spelled out.

    >>> printable("a b\\n\\x1b[31m")
    'a b\\\\n\\\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def columns(text: str) -> int:
    """Columns that a terminal takes for a text: two for a wide character, none for a combining one.

    >>> columns("a漢"), columns("e\\u0301")
    (3, 1)
    """
    return sum(_columns(c) for c in text)


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, room: int) -> str:
    """A text in at most `room` columns.

    >>> cut("abcdef", 4), cut("abcd", 4)
    ('abc…', 'abcd')
    """
    if columns(text) <= room:
        return text
    kept = ""
    for c in text:
        if columns(kept + c) > room - 1:
            break
        kept += c
    return kept + "…"


def _quoted(text: str, room: int = 24) -> str:
    return f"'{cut(printable(text), room)}'"


def _tail(text: str) -> str:
    """The end of a text between quotation marks, in a cell."""
    plain = printable(text)
    start = 0
    while columns(plain[start:]) > _CELL - 3 - bool(start):
        start += 1
    return f"'{'…' * bool(start)}{plain[start:]}'"


def _joined(texts: Iterable[str], room: int) -> str:
    return cut(" ".join(map(printable, texts)), room) or "none"


def _padded(text: str, room: int) -> str:
    return text + " " * (room - columns(text))


def _row(label: str, cells: Sequence[str], indent: str = "  ") -> str:
    return (indent + label.ljust(_LABEL + 2 - len(indent)) + "".join(_padded(c, _CELL) for c in cells)).rstrip()


def _line(label: str, value: str, indent: str = "  ") -> str:
    start = indent + label.ljust(_LABEL + 2 - len(indent))
    return start + cut(printable(value), WIDTH - len(start))


def _list(label: str, items: Iterable[str]) -> Iterator[str]:
    for item in items:
        yield _line(label, item)
        label = ""


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - 8, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def _bytes(values: list[int]) -> str:
    if not values:
        return "none"
    return cut(f"{len(values)}: {' '.join(f'{b:02x}' for b in values)}", _CELL - 1)


def _yes(what: object) -> str:
    return "yes" if what else "no"


def _changed(model: ModelFacts) -> str:
    return f"{model.rewriting.changed_lines} of {model.rewriting.lines}" if model.rewriting else "unknown"


def _examples(tokens: list[Token]) -> str:
    return ": " + " ".join(shown(t, 8) for t in tokens[:6]) if tokens else ""


def _group(group: Group) -> str:
    members = " ".join(shown(t, 12) for t in group.examples[:2])
    more = f" and {members}{' …' if group.size > 3 else ''}" if members else ""
    return f"{shown(group.representative, 14)}{more} ({plural(group.size, 'token')})"


def _times(count: int) -> str:
    return f"×{count:,}"


def _use(use: Use) -> str:
    return f"{shown(use.token)} {_times(use.count)}, {use.student_tokens:.1f} student tokens each"
