"""Tests of a model's program that runs elsewhere; decides alone.

The verdict is one line: `+` right, `-` and why not, `?` the program was lost, `!` the tests themselves are at fault.
"""

import builtins
import os
import sys

from .channel import Channel
from .remote import Lost, Program

_ONLY_TREE = 0x400  # ast.PyCF_ONLY_AST; the module ast takes longer to import than most tests to run


def main(tests, entry_point, requests, answers, verdict, limit):
    try:
        text = judge(tests, entry_point, requests, answers, limit)
    except MemoryError:
        text = "-memory limit"
    except BaseException as error:  # out of the error that a test ended in
        text = f"-wrong answer: {type(error).__name__}"
    os.write(verdict, text[:2000].encode("utf-8", "backslashreplace"))


def judge(tests, entry_point, requests, answers, limit):
    try:
        tree = compile(tests, "tests", "exec", _ONLY_TREE)
        code = compile(tests, "tests", "exec")
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"!the tests are not Python: {error}"
    needed, modules = free_names(tree, entry_point)
    checks = takes_candidate(tree)
    if checks and entry_point is None:
        return "!the tests define check(candidate): name the function to check as entry point"
    if not needed:
        return "!the tests use no name of the program: name the function that they call as entry point"
    program = Program(Channel(answers, requests, limit, Program.number, lambda *told: program.remote(*told)))
    namespace = sys.modules["tests"] = type(sys)("tests")
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
        exec(code, namespace)
        if checks:
            namespace["check"](found[entry_point])
    except Lost:
        pass
    except BaseException as error:
        if program.failure is None:
            return f"-{reason(error, program, needed - found.keys(), tests)}"
    # A test may have caught these and gone on.
    if program.failure is not None:
        return program.failure
    return "+" if program.calls else "-the tests called nothing of the program"


def nodes(tree):
    """All nodes of a syntax tree."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            waiting += [v for v in (value if isinstance(value, list) else [value]) if hasattr(v, "_fields")]


def free_names(tree, entry_point):
    """Names that the tests use and nowhere bind, and those among them that can only be modules of Python.

    A name of Python itself is never the program's, so that it can't bring a kinder `len` or `math`; only the entry
    point may hide one.
    """
    used, bound, bases, elsewhere = set(), set(), set(), set()
    for node in nodes(tree):
        kind = type(node).__name__
        if kind == "Attribute" and type(node.value).__name__ == "Name":
            bases.add(id(node.value))
        if kind == "alias":
            bound.add((node.asname or node.name).partition(".")[0])
        elif kind == "Name":
            (used if type(node.ctx).__name__ == "Load" else bound).add(node.id)
        elif kind == "arg":
            bound.add(node.arg)
        elif isinstance(getattr(node, "name", None), str):
            bound.add(node.name)
    for node in nodes(tree):
        if type(node).__name__ == "Name" and id(node) not in bases:
            elsewhere.add(node.id)
    own = {entry_point} - {None}
    free = {n for n in used - bound if not hasattr(builtins, n)} - {"__name__", "__file__"}
    modules = (free & sys.stdlib_module_names) - elsewhere - own
    return (free - modules) | own, modules


def takes_candidate(tree):
    """Whether the tests are a function `check(candidate)`, as HumanEval's are."""
    return any(
        type(node).__name__ == "FunctionDef"
        and node.name == "check"
        and [a.arg for a in node.args.args] == ["candidate"]
        for node in tree.body
    )


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
