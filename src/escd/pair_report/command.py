"""`escd pair TEACHER STUDENT`."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import warnings
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import transformers

from ..errors import ConfigError
from ..flags import json_mapping
from .loading import load_side
from .report import measure
from .text import render

_EPILOG = """\
examples:
  escd pair lab/teacher lab/student
  escd pair Qwen/Qwen2.5-0.5B-Instruct HuggingFaceTB/SmolLM2-135M-Instruct --text answers.txt
  escd pair TEACHER STUDENT --json | jq .verdict

exit code: 0 it works, 1 it will not work, 2 a mistake in the command. docs/pair.md explains every number."""


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are `ConfigError`s that suggest the nearest flag."""

    def error(self, message: str):  # type: ignore[override]
        raise ConfigError(message)


def main(argv: Sequence[str]) -> int:
    """Run `escd pair`.

    Returns:
        0, or 1 if the pair will not work.

    Raises:
        EscdError: Anything about flags, tokenizers and the text that the user can mend.
    """
    args = _parse(argv)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    text, text_name = read_text(args.text)
    own, other = (json_mapping(n, getattr(args, n)) for n in ("chat_template_kwargs", "teacher_chat_template_kwargs"))
    trust = {"trust_remote_code": args.trust_remote_code}
    teacher = load_side(args.teacher, "teacher", revision=args.teacher_model_revision, **trust)
    student = load_side(args.student, "student", revision=args.model_revision, **trust)
    report = measure(teacher, student, text, text_name, own, other)
    # A terminal that does not know a character gets its number instead of a traceback.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    print(
        json.dumps(report.to_dict(), indent=2, allow_nan=False) if args.json else render(report), end="\n" * args.json
    )
    return 1 if report.verdict.level == "fails" else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="escd pair", allow_abbrev=False, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Will this teacher and this student work together? Answered from their tokenizers and chat "
        "templates; no\nweights are loaded.",
    )  # fmt: skip
    parser.add_argument(
        "teacher",
        metavar="TEACHER",
        help="folder, tokenizer file (tokenizer.json, *.gguf, *.model, *.tiktoken), hub id, or lab/teacher",
    )
    parser.add_argument("student", metavar="STUDENT", help="the same")
    flags: dict[str, dict[str, Any]] = {
        "text": {
            "metavar": "FILE",
            "help": "UTF-8 text to measure on, - for standard input; best: answers of your task",
        },
        "json": {"action": "store_true", "help": "one JSON object on standard output"},
        "model_revision": {"metavar": "REV", "help": "revision of the student on the hub"},
        "teacher_model_revision": {"metavar": "REV", "help": "revision of the teacher on the hub"},
        "chat_template_kwargs": {
            "metavar": "JSON",
            "help": "for the student's template: '{\"enable_thinking\": false}'",
        },
        "teacher_chat_template_kwargs": {"metavar": "JSON", "help": "for the teacher's template"},
        "trust_remote_code": {"action": "store_true", "help": "run code that comes with a tokenizer"},
    }
    for name, options in flags.items():
        parser.add_argument(*dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"]), **options)
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        kind = "flag" if unknown[0].startswith("-") else "argument"
        near = difflib.get_close_matches(unknown[0], [f"--{name}" for name in flags], n=1)
        raise ConfigError(f"unknown {kind} {unknown[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return args


def read_text(name: str | None) -> tuple[str, str]:
    """The sample text and how the report names it.

    Args:
        name: A file, `-` for standard input, None for the built-in sample.

    Raises:
        ConfigError: It cannot be read, is no UTF-8 text, or is empty.
    """
    if name is None:
        return files(__package__ or "").joinpath("sample.txt").read_text("utf-8"), "the built-in sample"
    shown = "standard input" if name == "-" else repr(name)
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"--text {shown} cannot be read: {error.strerror or error}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"--text {shown} is no UTF-8 text (byte {error.start}); give text, or convert it: iconv -t UTF-8"
        ) from error
    if "\0" in text:
        raise ConfigError(f"--text {shown} holds NUL characters, so it is no text")
    if not text.strip():
        raise ConfigError(f"--text {shown} is empty; give some text that the student would write")
    return text, "standard input" if name == "-" else name
