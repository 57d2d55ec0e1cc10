"""What tests of a program are made of: the names that they need of it, and the cases in them.

Read also outside, before anything is sampled, so that tests that can test nothing are found out in time.
"""

import builtins
import sys

_ONLY_TREE = 0x400  # ast.PyCF_ONLY_AST; the module ast takes longer to import than most tests to run


def parsed(tests):
    """Their syntax tree."""
    return compile(tests, "tests", "exec", _ONLY_TREE)


def fault(tests, entry_point):
    """Why tests can test nothing, on one line; empty if they can."""
    try:
        tree = parsed(tests)
        compile(tests, "tests", "exec")
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"the tests are not Python: {error}"
    for node in tree.body:  # type: ignore[attr-defined]
        kind = type(node).__name__
        names = [a.name for a in node.names] if kind == "Import" else [node.module] if kind == "ImportFrom" else []
        for name in names:
            if (name or "").partition(".")[0] not in sys.stdlib_module_names:
                return f"the tests import {name}, which is not of Python's standard library"
    argument = takes_candidate(tree)
    if argument and entry_point is None:
        return f"the tests define check({argument}): name the function to check as entry point"
    if not free_names(tree, entry_point)[0]:
        return "the tests use no name of the program: name the function that they call as entry point"
    return ""


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
    """The argument of a function `check(candidate)`, as HumanEval's tests are, if they do not call it themselves."""
    called = any(type(n).__name__ == "Name" and n.id == "check" for n in nodes(tree))
    for node in tree.body:
        if type(node).__name__ == "FunctionDef" and node.name == "check":
            names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
            needed = len(names) - len(node.args.defaults)
            if names and needed <= 1 and None not in node.args.kw_defaults and (names[0] == "candidate" or not called):
                return names[0]
    return None


def run_cases(namespace, given):
    """Call the tests that wait for a runner: functions `test...`, methods of classes `Test...`, cases of unittest."""
    for name, value in list(namespace.items()):
        if name in given:
            continue
        if isinstance(value, type) and value.__module__ == namespace["__name__"]:
            unittest = sys.modules.get("unittest")
            if unittest and issubclass(value, unittest.TestCase):
                unittest.defaultTestLoader.loadTestsFromTestCase(value).debug()
            elif name.startswith("Test"):
                for method in [m for m in dir(value) if m.startswith("test")]:
                    getattr(value(), method)()
        elif type(value) is type(run_cases) and name.startswith("test") and _without_arguments(value):
            value()


def _without_arguments(function):
    code = function.__code__
    optional = len(function.__defaults__ or ())
    return code.co_argcount <= optional and code.co_kwonlyargcount <= len(function.__kwdefaults__ or ())
