"""Tests of a model's program that runs elsewhere; decides alone.

The verdict is one line: `+` right, `-` and why not, `?` the program was lost, `!` the tests themselves are at fault.
"""

import os
import sys

from .channel import Channel
from .remote import Lost, Program
from .suite import fault, free_names, parsed, run_cases, takes_candidate


def main(tests, entry_point, requests, answers, verdict, limit):
    try:
        text = judge(tests, entry_point, requests, answers, limit)
    except MemoryError:
        text = "-memory limit"
    except BaseException as error:  # out of the error that a test ended in
        text = f"-wrong answer: {type(error).__name__}"
    os.write(verdict, text[:2000].encode("utf-8", "backslashreplace"))


def judge(tests, entry_point, requests, answers, limit):
    wrong = fault(tests, entry_point)
    if wrong:
        return f"!{wrong}"
    tree = parsed(tests)
    needed, modules = free_names(tree, entry_point)
    program = Program(Channel(answers, requests, limit, Program.number, lambda *told: program.remote(*told)))
    # As a program of its own, so that what stands below `if __name__ == "__main__"` counts.
    namespace = sys.modules["__main__"] = type(sys)("__main__")
    namespace, found = namespace.__dict__, {}
    try:
        failure = program.load()
        if failure:
            return f"-{failure}"
        found = program.names(sorted(needed))
        if entry_point is not None and entry_point not in found:
            return f"-did not define {entry_point}"
        namespace.update({name: __import__(name) for name in modules})
        namespace.update(found)
        if "unittest" in tests:  # would end this process, without saying which case failed
            __import__("unittest").main = lambda *_, **__: None
        exec(compile(tests, "tests", "exec"), namespace)
        if takes_candidate(tree):
            namespace["check"](found[entry_point])
        run_cases(namespace, found)
    except Lost:
        pass
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and id(error) not in program.raised:
            return f"!the tests import {error.name}, which is not of Python's standard library"
        if program.failure is None:
            return f"-{reason(error, program, needed - found.keys(), tests)}"
    # A test may have caught these and gone on.
    if program.failure is not None:
        return program.failure
    return "+" if program.calls else "-the tests called nothing of the program"


def reason(error, program, missing, tests):
    """Why the tests failed, on one line."""
    if isinstance(error, NameError) and error.name in missing:
        return f"did not define {error.name}"
    text = program.raised.get(id(error))
    if isinstance(error, MemoryError):
        return "memory limit"
    if text is not None:
        return f"exception: {text}"
    line, trace = 0, error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == "tests" else line
        trace = trace.tb_next
    said = "" if type(error) is AssertionError else f"{type(error).__name__}: {error} in "
    lines = tests.splitlines()
    source = lines[line - 1].strip() if 0 < line <= len(lines) else "the tests"
    return f"wrong answer: {program.last_call()}, {said or 'fails '}{source[:100]}"
