"""Graders `code` and `stdio`: a program in the response, run in the sandbox against the tests of the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import SandboxError
from ..code import extract_code, grade_functions, grade_stdio
from ..verdict import Verdict
from .cases import cases_of


def grade_code(response: str, record: Mapping[str, Any]) -> Verdict:
    """Run `record["tests"]`, a program or assert lines, against the functions of a response.

    `record["entry_point"]` names the function that HumanEval's `check(candidate)` is called with. `record["prefix"]`
    is the beginning of the program, if the response may go on from there instead of repeating it.
    """
    program = extract_code(response)
    prefix = record.get("prefix") or ""
    if prefix and program.strip():
        program = f"{prefix}{'' if prefix.endswith(chr(10)) else chr(10)}{program}"
    return _patient(lambda: grade_functions(program, record["tests"], entry_point=record.get("entry_point") or None))


def grade_program(response: str, record: Mapping[str, Any]) -> Verdict:
    """Run a response as a script on each case of `record["cases"]` and compare what it prints (LiveCodeBench)."""
    return _patient(lambda: grade_stdio(extract_code(response), cases_of(record["cases"])))


def _patient(judge: Callable[[], Verdict], attempts: int = 5) -> Verdict:
    """Try again where the machine was too busy to start a sandbox: that says nothing of the program.

    Raises:
        SandboxError: It failed every time.
    """
    for attempt in range(1, attempts):
        try:
            return judge()
        except SandboxError:
            time.sleep(2**attempt)
    return judge()
