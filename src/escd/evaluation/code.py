"""Grading of programs: functions by their tests, scripts by what they print."""

from __future__ import annotations

import os
import re
import textwrap
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from ..errors import ConfigError
from .sandbox.box import Box
from .sandbox.confine import open_box
from .sandbox.limits import DEFAULT, Limits
from .sandbox.outcome import end_reason
from .sandbox.run import collect, run_python
from .verdict import Verdict, one_line

# Seconds for a program that has closed its pipe to end.
_GRACE = 1.0
# Possessive: nothing is tried twice, so that a long line takes no longer than it is long.
_OPENING = re.compile(r"([ \t]*+)(`{3,}+|~{3,}+)([^`]*+)$")
_LANGUAGE = re.compile(r"[ \t]*([\w+.-]*)")
_MARK = "\ufeff"  # a byte-order mark is no part of a program
_PYTHON = ("python", "py", "python3")


def extract_code(response: str) -> str:
    """The program in a response: its last fenced block of Python, else its last fenced block, else all of it.

    What is thought in `<think>` does not count. A last fence that is never closed runs to the end.

    >>> extract_code("<think>```python\\nbad\\n```</think>Here:\\n```python\\nx = 1\\n```\\nDone.")
    'x = 1\\n'
    """
    head, tag, tail = response.rpartition("</think>")
    said = tail if tag else head + tail
    said = said.partition("<think>")[0]
    blocks: list[tuple[str, str]] = []
    fence, language, indent, lines = "", "", "", []
    for line in said.splitlines():
        if not fence:
            if opening := _OPENING.match(line):
                indent, fence, information = opening.groups()
                language, lines = _LANGUAGE.match(information)[1], []  # type: ignore[index]
        elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            blocks.append((language.lower(), _dedented(lines, indent)))
            fence = ""
        else:
            lines.append(line)
    if fence:
        blocks.append((language.lower(), _dedented(lines, indent)))
    python = [code for language, code in blocks if language in _PYTHON]
    code = python[-1] if python else blocks[-1][1] if blocks else said
    return code.removeprefix(_MARK)


def _dedented(lines: list[str], indent: str) -> str:
    """A block without the indentation of its fence."""
    text = "".join(f"{line}\n" for line in lines)
    return textwrap.dedent(text) if indent else text


def grade_functions(
    program: str, tests: str | Sequence[str], *, entry_point: str | None = None, limits: Limits = DEFAULT
) -> Verdict:
    """Run tests against the functions of a program.

    Program and tests run in two sandboxes. Names that the tests use and do not define are the program's; calling one
    sends the arguments there and brings the result back, as plain data of Python's own types (of a subclass, its
    base). Other objects stay with the program: the tests can call them, read attributes, index and iterate; each
    equals only itself. What a function without a result changes in its positional lists, dicts and sets is changed in
    the tests' too. Only the tests' process decides, and the program can't write to it: ending early, printing and
    patching gain nothing. A helper that the tests take from the program is the program's word, though.

    Args:
        program: Source that defines the functions. `__name__` is not `"__main__"`.
        tests: Source, or assert lines. Where they define `check(candidate)`, as HumanEval's do, it is called with the
            entry point.
        entry_point: Name of the function to test. Needed with `check`, and where it has the name of a builtin.
        limits: Of both processes, all tests together.

    Returns:
        A verdict whose reason is "right" or one line: "wrong answer: ...", "exception: NameError: ...",
        "did not define f", "time limit", "memory limit", "output limit", "crash: SIGSEGV", "no code found", ...

    Raises:
        ConfigError: There is no sandbox on this machine, or the tests can test nothing.
        SandboxError: The machine failed to start the sandbox.

    Example:
        `grade_functions("def f(x): return 2 * x", ["assert f(3) == 7"]).reason` is
        "wrong answer: f(3) is 6, fails assert f(3) == 7".
    """
    tests = tests if isinstance(tests, str) else "\n".join(tests)
    program = program.removeprefix(_MARK)
    if not program.strip():
        return Verdict(False, "no code found")
    with ExitStack() as own:
        # Each pipe as its reading and its writing end; no process gets more than its own ends.
        pipes = {name: os.pipe() for name in ("requests", "answers", "verdict")}
        told = pipes["verdict"][0]
        own.callback(os.close, told)
        try:
            checks = own.enter_context(
                _open(
                    "checks",
                    {"tests": tests, "entry_point": entry_point},
                    limits,
                    requests=pipes["requests"][1],
                    answers=pipes["answers"][0],
                    verdict=pipes["verdict"][1],
                )
            )
            candidate = own.enter_context(
                _open(
                    "candidate",
                    {"source": program},
                    limits,
                    requests=pipes["requests"][0],
                    answers=pipes["answers"][1],
                )
            )
        finally:
            for ends in pipes.values():
                for end in set(ends) - {told}:
                    os.close(end)
        [text], stopped = collect([told], checks, [checks, candidate], limits)
        line = one_line(text.decode("utf-8", "replace"), 300)
        if not line and not stopped:
            line = f"-{_ending(checks, limits)}"
        elif line == "?":
            line = f"-{_ending(candidate, limits)}"
        if stopped:
            for box in (checks, candidate):
                box.kill()
                box.exit_code()  # raises if it never began
            return Verdict(False, stopped)
    if line.startswith("!"):
        raise ConfigError(line[1:])
    return Verdict(line == "+", "right" if line == "+" else line[1:])


def _open(role: str, arguments: dict, limits: Limits, **pipes: int) -> Box:
    arguments = {**arguments, **pipes, "limit": limits.output}
    return open_box(role, arguments, limits, fds=tuple(pipes.values()))


def _ending(box: Box, limits: Limits) -> str:
    """Why a process that closed its pipe without an answer ended."""
    if not box.ended(_GRACE):
        return "the program stopped answering"
    seconds = time.monotonic() - box.started
    return end_reason(box.exit_code(), seconds, limits) or "the program ended before the checks"


def grade_stdio(program: str, cases: Sequence[tuple[str, str]], *, limits: Limits = DEFAULT) -> Verdict:
    """Run a program once for each case and compare what it prints.

    As LiveCodeBench compares: line by line without outer blank space, and where the text of a line differs, its words
    as exact decimal numbers (`1.0` is `1`, `0.3333` is not `0.3334`). Unlike there, space between words may differ.

    Args:
        program: Source of a script.
        cases: What it reads and what it should print.
        limits: Of each case. Output may always be twice as long as what is expected.

    Returns:
        A verdict as of `grade_functions`; the reason names the first case that fails.

    Raises:
        ConfigError: There is no sandbox on this machine, or there are no cases.
        SandboxError: The machine failed to start the sandbox.
    """
    if not cases:
        raise ConfigError("a program can't be judged without cases of input and output")
    program = program.removeprefix(_MARK)
    if not program.strip():
        return Verdict(False, "no code found")
    for number, (given, expected) in enumerate(cases, 1):
        room = max(limits.output, 2 * len(expected.encode("utf-8", "surrogatepass")))
        outcome = run_python(program, stdin=given, limits=replace(limits, output=room))
        if outcome.reason:
            return Verdict(False, f"{outcome.reason} (case {number} of {len(cases)})")
        if difference := _difference(outcome.stdout, expected):
            return Verdict(False, f"wrong answer: {difference} (case {number} of {len(cases)})")
    return Verdict(True, "right")


def _difference(printed: str, expected: str) -> str:
    """The first line that differs; empty for none."""
    wanted = expected.strip().split("\n")
    found = printed.strip().split("\n", len(wanted))
    for number, (line, target) in enumerate(zip(found, wanted, strict=False), 1):
        words, targets = line.split(), target.split()
        if len(words) != len(targets) or not all(map(_same_word, words, targets)):
            return one_line(f"line {number} is {line.strip()[:60]!r}, not {target.strip()[:60]!r}")
    if len(found) == len(wanted):
        return ""
    return f"{len(found) if len(found) < len(wanted) else 'more'} lines, not {len(wanted)}"


def _same_word(word: str, target: str) -> bool:
    if word == target:
        return True
    # Decimal takes more for a number than programs print: 1_2, １２.
    if not (word.isascii() and target.isascii()) or "_" in word + target:
        return False
    try:
        return Decimal(word) == Decimal(target)
    except InvalidOperation:
        return False
