"""Graders of programs: right answers pass, and no trick does."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sandboxed import SHORT, need_sandbox
from tricks import INVITATIONS, TRICKS

from escd.errors import ConfigError
from escd.evaluation.code import extract_code, grade_functions, grade_stdio
from escd.evaluation.sandbox import Limits
from escd.evaluation.verdict import Verdict

RIGHT = Verdict(True, "right")
TESTS = ["assert f(3) == 7", "assert f(0) == 1", "assert f([1, 2]) == [1, 2, 1]"]
HUMAN_EVAL = "METADATA = {}\n\ndef check(candidate):\n" + "".join(
    f"    {t.replace('f(', 'candidate(')}\n" for t in TESTS
)


@pytest.fixture(autouse=True)
def _sandbox(request):
    if "extract" not in request.node.name:
        need_sandbox()


def verdict(program, *tests, **options):
    return grade_functions(program, tests or TESTS, **{"limits": SHORT, **options})


# --- right programs ---------------------------------------------------------------------------

GOOD = "def f(x):\n    return x + [1] if isinstance(x, list) else 2 * x + 1"


def test_asserts_and_check():
    assert verdict(GOOD) == RIGHT
    assert grade_functions(GOOD, HUMAN_EVAL, entry_point="f") == RIGHT


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("def f(): return (None, True, 2**200, -1, 1.5, 2j, 'é\\ud800', b'\\0', [()], {1: {2}}, frozenset('a'))",
         "assert f() == (None, True, 2**200, -1, 1.5, 2j, 'é\\ud800', b'\\0', [()], {1: {2}}, frozenset('a'))"),
        ("def f(x): return x", "import math\nassert math.isnan(f(float('nan'))) and f(-math.inf) == -math.inf"),
        ("def f(): return True", "assert f() is True"),
        ("from collections import Counter\ndef f(x): return Counter(x)", "assert f('aab') == {'a': 2, 'b': 1}"),
        ("from collections import namedtuple\nf = namedtuple('P', 'x y')", "assert f(1, 2) == (1, 2)"),
        ("import enum\nclass E(enum.IntEnum): A = 3\ndef f(): return E.A", "assert f() == 3"),
        ("def f(*a, k=1, **o): return a, k, o", "assert f(1, k=2, z=3) == ((1,), 2, {'z': 3})"),
        ("def f(n):\n    for i in range(n): yield i", "assert list(f(3)) == [0, 1, 2] and sum(f(4)) == 6"),
        ("class Solution:\n    def add(self, a, b): return a + b", "assert Solution().add(1, 2) == 3"),
        ("class Pair:\n    def __init__(self, a): self.a = a\ndef f(p): return [x.a for x in p]",
         "assert f([Pair(1), Pair(2)]) == [1, 2]\nassert Pair(3).a == 3"),
        ("def f(n): return (i for i in range(n))", "g = f(3)\nassert next(g) == 0 and list(g) == [1, 2]"),
        ("class Stack:\n  def __init__(s): s.x = []\n  def push(s, v): s.x.append(v)\n  __len__ = lambda s: len(s.x)",
         "s = Stack()\nassert len(s) == 0 and not s\ns.push(3)\nassert len(s) == 1 and s.x == [3]"),
        ("from collections import deque\ndef f(x): return deque(x)",
         "d = f([1, 2])\nd.appendleft(0)\nassert list(d) == [0, 1, 2] and len(d) == 3 and d[-1] == 2 and 1 in d"),
        ("class S:\n    __len__ = lambda s: 2\n    __getitem__ = lambda s, i: i * 2\n    __str__ = lambda s: 's'",
         "s = S()\nassert len(s) == 2 and s[4] == 8 and str(s) == 's' and bool(s)"),
        ("def f(x): raise ValueError('no', x)",
         "try: f(3)\nexcept ValueError as e: assert e.args == ('no', 3)\nelse: assert 0"),
        ("class Bad(KeyError): pass\ndef f(x): raise Bad(x)", "try: f(3)\nexcept Bad: pass\nelse: assert 0"),
        ("class Bad(KeyError): pass\ndef f(x): raise Bad(x)", "try: f(3)\nexcept KeyError: pass\nelse: assert 0"),
        ("def f(x): x.sort()", "a = [3, 1, 2]\nf(a)\nassert a == [1, 2, 3]"),
        ("def f(x): x[0].append(1); x.append(2)", "a = []\nb = [a]\nf(b)\nassert a == [1] and b == [a, 2]"),
        ("def f(x): x['a'] = 1; x.pop('b')", "a = {'b': 2}\nf(a)\nassert a == {'a': 1}"),
        ("def f(x): x.add(1)", "a = set()\nf(a)\nassert a == {1}"),
        ("import math\ndef f(x): return math.sqrt(x)", "assert math.isclose(f(2), 1.41421356, rel_tol=1e-6)"),
        ("LIMIT = 5\ndef f(): return LIMIT", "assert f() == LIMIT"),
        ("import sys; sys.setrecursionlimit(10**5)\ndef f(n): return n and 1 + f(n - 1)", "assert f(20000) == 20000"),
        ("print('hello')\ndef f(): print('x' * 10**6); return 1", "print('test')\nassert f() == 1"),
        ("if __name__ == '__main__': raise SystemExit\ndef f(): return 1", "assert f() == 1"),
        ("def f(x): return list(x)", "assert f(y := [1]) == y"),
        ("from dataclasses import dataclass\n@dataclass\nclass A: x: int\ndef f(): return A(1).x", "assert f() == 1"),
        ("from dataclasses import dataclass\n@dataclass\nclass A: x: int\ndef f(): return A(1)", "assert f().x == 1"),
        ("class Stack:\n  def __init__(s): s.x = []\n  def push(s, v): s.x.append(v)\n"
         "  def is_empty(s): return not s.x",
         "s = Stack()\nassert s.is_empty()\ns.push(3)\nassert not s.is_empty() and s == s and s != Stack()"),
        ("class Trie:\n  def startswith(s, x): return x == 'a'", "assert Trie().startswith('a')"),
        ("class Node:\n  def __init__(s, v, next=None): s.v, s.next = v, next\ndef f(n): return n.next",
         "assert f(Node(1, Node(2))).v == 2\nassert Node(1).next is None"),
        ("def f(x):\n    while True: yield x; x += 1",
         "from itertools import islice\nassert list(islice(f(1), 3)) == [1, 2, 3]\ng = f(5)\n"
         "assert next(g) == 5 == g[0]\nassert g[2] == 7 and g[1:3] == [6, 7] and f(0)"),
        ("def f():\n    yield 1\n    raise ValueError('no')",
         "g = f()\nassert next(g) == 1\ntry: next(g)\nexcept ValueError: pass\nelse: assert 0"),
    ],
)  # fmt: skip
def test_right_programs_pass(program, test):
    assert verdict(program, test) == RIGHT


DATA = {
    "range": ("range(1, 9, 2)", "len(r) == 4 and list(r) == [1, 3, 5, 7]"),
    "bytearray": ("bytearray(b'ab')", "r == b'ab' and r.hex() == '6162'"),
    "deque": ("deque([1, 2], 5)", "r.maxlen == 5 and r[0] == 1 and r.popleft() == 1"),
    "Decimal": ("Decimal('1.50')", "r == 1.5 and str(r) == '1.50'"),
    "Fraction": ("Fraction(1, 3)", "r.denominator == 3 and r < 0.5"),
    "Counter": ("Counter('aab')", "r.most_common(1) == [('a', 2)] and r == {'a': 2, 'b': 1} and r['z'] == 0"),
    "OrderedDict": ("OrderedDict(a=1, b=2)", "list(r) == ['a', 'b'] and r == {'b': 2, 'a': 1}"),
    "defaultdict": ("defaultdict(list, a=[1])", "r == {'a': [1]} and r['z'] == []"),
    "namedtuple": (
        "namedtuple('P', 'x y')(1, [2])",
        "r.x == 1 and r._asdict() == {'x': 1, 'y': [2]} and r == (1, [2])",
    ),
    "date": ("d.date(2020, 2, 29)", "r.year == 2020 and r.isoformat() == '2020-02-29'"),
    "datetime": (
        "d.datetime(2020, 1, 2, 3, tzinfo=d.timezone(d.timedelta(hours=1)))",
        "r.utcoffset().seconds == 3600",
    ),
    "time": ("d.time(3, 4)", "r.hour == 3"),
    "timedelta": ("d.timedelta(hours=36)", "r.days == 1"),
    "keys": ("{'a': 1}.keys()", "r == {'a'} and list(r) == ['a']"),
    "items": ("{'a': 1}.items()", "r == {('a', 1)}"),
}
IMPORTS = (
    "from collections import *\nfrom decimal import Decimal\nfrom fractions import Fraction\nimport datetime as d\n"
)


@pytest.mark.parametrize("kind", DATA)
def test_data_of_the_standard_library(kind):
    value, claim = DATA[kind]
    equal = f"r == {value}" if kind != "namedtuple" else "r == (1, [2])"
    assert verdict(f"{IMPORTS}def f(): return {value}", f"{IMPORTS}r = f()\nassert {equal} and {claim}") == RIGHT
    # And as an argument, which comes back as what it was.
    assert verdict("def f(x): return [x]", f"{IMPORTS}assert f({value}) == [{value}]") == RIGHT
    assert not verdict("def f(): return 3", f"{IMPORTS}r = f()\nassert {equal}").correct


def test_data_of_a_class_of_the_programs_own_is_not_kept():
    program = "from collections import deque\nclass D(deque):\n    __eq__ = lambda s, o: True\ndef f(): return D([1])"
    assert not verdict(program, "from collections import deque\nassert f() == deque([2])").correct
    program = "import datetime\nclass D(datetime.date):\n    __eq__ = lambda s, o: True\ndef f(): return D(2020, 1, 1)"
    assert not verdict(program, "import datetime\nassert f() == datetime.date(2021, 1, 1)").correct


def test_arguments_of_the_standard_library_are_changed_too():
    program = "def f(x): x.pop()"
    assert verdict(program, "from collections import deque\na = deque([1, 2])\nf(a)\nassert a == deque([1])") == RIGHT
    assert verdict(program, "a = bytearray(b'ab')\nf(a)\nassert a == b'a'") == RIGHT


UNITTEST = "import unittest\nclass Tests(unittest.TestCase):\n  def test_f(self): self.assertEqual(f(1), 1)\n"
MAIN = "if __name__ == '__main__':\n    "


@pytest.mark.parametrize(
    ("tests", "entry_point"),
    [
        ("def test_f():\n    assert f(1) == 1", None),
        ("class TestF:\n    def test_f(self):\n        assert f(1) == 1", None),
        (UNITTEST, None), (f"{UNITTEST}{MAIN}unittest.main()", None), (f"{MAIN}assert f(1) == 1", None),
        ("def check(candidate, n=1):\n    assert candidate(n) == n", "f"),
        ("def check(g):\n    assert g(1) == 1", "f"),
        ("def check(n):\n    assert f(n) == n\ncheck(1)", None),
    ],
)  # fmt: skip
def test_tests_that_wait_for_a_runner(tests, entry_point):
    assert verdict("def f(x): return x", tests, entry_point=entry_point) == RIGHT
    wrong = verdict("def f(x): return 2", tests, entry_point=entry_point)
    assert wrong.reason.startswith("wrong answer: f(1) is 2, fails ")


def test_a_byte_order_mark_is_no_part_of_a_program():
    assert verdict("\ufeffdef f(x): return x", "assert f(1) == 1") == RIGHT
    assert grade_stdio("\ufeffprint(1)", [("", "1")]) == RIGHT


def test_an_entry_point_may_have_the_name_of_a_builtin():
    program = "def sum(a, b): return a + b"
    assert verdict(program, "assert sum(1, 2) == 3", entry_point="sum") == RIGHT
    with pytest.raises(ConfigError, match="name the function that they call as entry point"):
        verdict(program, "assert sum(1, 2) == 3")


def test_large_values_pass():
    program = "def f(x): return [i + 1 for i in x]"
    assert verdict(program, "x = list(range(100_000))\nassert f(x) == [i + 1 for i in x]", limits=Limits()) == RIGHT


def test_graders_in_threads_do_not_mix():
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: verdict(f"def f(): return {n}", "assert f() % 2 == 0").correct, range(8)))
    assert found == [True, False] * 4


# --- wrong programs, and what is said of them ---------------------------------------------------


@pytest.mark.parametrize(
    ("program", "test", "reason"),
    [
        ("def f(x): return 2 * x", "assert f(3) == 7", "wrong answer: f(3) is 6, fails assert f(3) == 7"),
        ("def f(x): return None", "assert f(3)[0] == 7",
         "wrong answer: f(3) is None, TypeError: 'NoneType' object is not subscriptable in assert f(3)[0] == 7"),
        ("def f(x): return y", "assert f(3) == 7", "exception: NameError: name 'y' is not defined"),
        ("def g(x): return y", "assert f(3) == 7", "did not define f"),
        ("import numbers_of_mine", "assert f(3)", "exception: ModuleNotFoundError: No module named 'numbers_of_mine'"),
        ("def f(x) return 1", "assert f(3)", "exception: SyntaxError: expected ':' (program.py, line 1)"),
        ("def f(x): return f(x)", "assert f(3)", "exception: RecursionError: maximum recursion depth exceeded"),
        ("def f(x): return bytearray(1 << 40)", "assert f(3)", "memory limit"),
        ("x = bytearray(1 << 40)", "assert f(3)", "memory limit"),
        ("def f(x): raise SystemExit(0)", "assert f(3)", "exception: SystemExit: 0"),
        ("def f(x): return 'a\\nb\\x1b[31m'", "assert f(1) == ''", r"wrong answer: f(1) is 'a\nb\x1b[31m', fails"),
        ("def f(x): raise ValueError('a\\nb\\x1b[31m')", "assert f(1)", "exception: ValueError: a b?[31m"),
        ("", "assert f(3)", "no code found"),
        ("  \n", "assert f(3)", "no code found"),
        ("Sorry, I can't.", "assert f(3)", "exception: SyntaxError: unterminated string literal (detected at line 1)"),
        ("def f(x): return 1 / 0", "assert f(3)", "exception: ZeroDivisionError: division by zero"),
        ("import time\ndef f(x): time.sleep(1e6)", "assert f(3)", "time limit"),
        ("import os; os.kill(os.getpid(), 11)", "assert f(3)", "crash: SIGSEGV"),
        ("def f(x): return x", "assert f(lambda: 1)",
         "not gradable: the tests pass an object of type function, which is no plain data"),
        ("f = 3", "assert f(3) == 4", "wrong answer: no call, TypeError: 'int' object is not callable in assert f"),
    ],
)  # fmt: skip
def test_reasons(program, test, reason):
    found = verdict(program, test, limits=Limits(cpu=5, wall=3))
    assert found == Verdict(False, found.reason)
    assert found.reason.startswith(reason)
    assert "\n" not in found.reason


def test_a_slow_function_is_a_time_limit():
    assert verdict("def f(x):\n    while True: pass").reason == "time limit"
    assert verdict("while True: pass").reason == "time limit"


def test_the_entry_point_must_be_there():
    assert grade_functions("def g(x): return x", HUMAN_EVAL, entry_point="f").reason == "did not define f"


@pytest.mark.parametrize(
    ("tests", "match"),
    [("assert f(3) ==", "the tests are not Python"), ("assert 1 == 1", "use no name of the program"),
     ([], "use no name of the program"), (HUMAN_EVAL, "name the function to check"),
     ("import numpy\nassert f(1)", "the tests import numpy")],
)  # fmt: skip
def test_tests_that_test_nothing_are_the_users_mistake(tests, match):
    with pytest.raises(ConfigError, match=match):
        grade_functions("def f(x): return 7", tests)


# --- tricks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_passes(trick):
    program = TRICKS[trick]
    begun = time.monotonic()
    tests = ["assert f(3) == 7, 'more'", "assert f(0) == 1", "assert f([1, 2]) == [1, 2, 1]"]
    assert not verdict(program, *tests, limits=Limits(cpu=1, wall=3)).correct
    assert not grade_functions(program, HUMAN_EVAL, entry_point="f", limits=Limits(cpu=1, wall=3)).correct
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(("program", "tests"), INVITATIONS)
def test_no_trick_passes_tests_that_invite_it(program, tests):
    assert not verdict(program, tests, entry_point="f").correct


def test_calling_nothing_is_not_right():
    assert "called nothing" in verdict("def f(x): return 7", "if False: f(1)").reason


def test_the_program_never_sees_the_tests():
    program = """
import gc, os, sys
def f(x):
    seen = [repr(o) for o in gc.get_objects() if isinstance(o, (str, bytes, tuple, list, dict))]
    for folder, _, names in os.walk('/'):
        if folder.startswith(('/python/lib', '/python/shared', '/usr')): continue
        for name in names:
            try: seen.append(open(os.path.join(folder, name), 'rb').read(1000).hex())
            except OSError: pass
    marker = '-'.join(['SECRET', '7'])
    return any(marker in s or marker.encode().hex() in s for s in seen)
"""
    assert verdict(program, "marker = 'SECRET-7'\nassert f(1) is True", limits=Limits()).reason.startswith(
        "wrong answer"
    )


# --- scripts ----------------------------------------------------------------------------------

ADD = "a, b = map(int, input().split())\nprint(a + b)"


def test_scripts():
    assert grade_stdio(ADD, [("1 2\n", "3\n"), ("2 2", "4")]) == RIGHT
    found = grade_stdio(ADD, [("1 2\n", "3\n"), ("2 2", "5")])
    assert found == Verdict(False, "wrong answer: line 1 is '4', not '5' (case 2 of 2)")


@pytest.mark.parametrize(
    ("printed", "expected", "correct"),
    [
        ("3\n\n", "3", True),
        ("  3 4\t\n5", "3  4\n5\n", True),
        ("3 4", "3\n4", False),
        ("3\n4", "3", False),
        ("\n" * 100_000 + "3\n" * 100_000, "3", False),
        ("", "3", False),
        ("1.0", "1", True),
        ("1e3", "1000", True),
        ("0.3333", "0.3334", False),
        ("0.1", "0.10", True),
        ("-0", "0", True),
        ("YES", "Yes", False),
        ("1_2", "12", False),
        ("１２", "12", False),
        ("nan", "nan", True),
        ("NaN", "nan", False),
        ("sNaN", "1", False),
        ("1", "sNaN", False),
        ("inf", "1e999", False),
        ("Infinity", "inf", True),
        ("1 a", "1.0 a", True),
        ("é", "é", True),
        ("a\x00b", "a b", False),
        ("1\r\n2", "1\n2", True),
    ],
)
def test_comparison_of_output(printed, expected, correct):
    program = f"import sys\nsys.stdout.buffer.write({printed.encode()!r})"
    assert grade_stdio(program, [("", expected)]).correct is correct


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("print(1 / 0)", "exception: ZeroDivisionError: division by zero (case 1 of 1)"),
        ("print(3); exit(1)", "exit code 1 (case 1 of 1)"),
        ("import time; print(3, flush=True); time.sleep(1e6)", "time limit (case 1 of 1)"),
        ("while True: print(3)", "output limit (case 1 of 1)"),
        ("x = bytearray(1 << 40)", "memory limit (case 1 of 1)"),
        (" ", "no code found"),
    ],
)
def test_reasons_of_scripts(program, reason):
    assert grade_stdio(program, [("", "3")], limits=Limits(wall=2, output=10_000)) == Verdict(False, reason)


def test_long_expected_output_lifts_the_limit():
    expected = "1\n" * 3000
    assert grade_stdio("print('1\\n' * 3000)", [("", expected)], limits=Limits(output=4000)).correct


def test_scripts_need_cases():
    with pytest.raises(ConfigError, match="without cases"):
        grade_stdio("print(1)", [])


# --- code in responses ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ("x = 1", "x = 1"),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("First\n```python\nx = 1\n```\nthen\n```python\nx = 2\n```\nbye", "x = 2\n"),
        ("```python\nx = 1\n```\noutput:\n```\n1\n```", "x = 1\n"),
        ("```\nx = 1\n```\n```\nx = 2\n```", "x = 2\n"),
        ("```Python3\nx = 1\n```\n```bash\nls\n```", "x = 1\n"),
        ("```py\nx = 1", "x = 1\n"),
        ("~~~python\nx = '''\n```\n'''\n~~~", "x = '''\n```\n'''\n"),
        ("````python\n```\n````", "```\n"),
        ("1. so\n   ```python\n   if x:\n       y\n   ```", "if x:\n    y\n"),
        ("<think>```python\nx = 1\n```</think>```python\nx = 2\n```", "x = 2\n"),
        ("```python\nx = 1\n```</think>\nx = 2", "\nx = 2"),
        ("<think>hm ```python\nx = 1\n```", ""),
        ("```python {.numbered}\nx = 1\n```", "x = 1\n"),
        ("inline ```code``` only", "inline ```code``` only"),
        ("", ""),
        ("```python\n\ufeffx = 1\n```", "x = 1\n"),
    ],
)
def test_extract_code(response, code):
    assert extract_code(response) == code
