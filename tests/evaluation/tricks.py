"""Programs that try to pass tests without solving them."""

# An object that claims everything.
ALWAYS = """
class Yes:
    def __eq__(self, other): return True
    __ne__ = lambda self, other: False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __eq__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
    def __iter__(self): return iter([self])
    def __len__(self): return 1
    def __getitem__(self, i): return self
"""

# An object that is what it is asked for.
CONTRADICTION = """
class f:
    turn = 0
    def __init__(self, x): self.x = x
    def __len__(self): return 2
    def __bool__(self): return True
    def __getitem__(self, i): return 0
    def __next__(self): return 0
    def __iter__(self):
        f.turn += 1
        return iter(self.x if f.turn == 1 else [])
"""

TRICKS = {
    # ends before the checks
    "exit": "import os; os._exit(0)",
    "exit later": "import os\ndef f(x): os._exit(0)",
    "exit politely": "import sys; sys.exit(0)",
    "exit at exit": "import atexit, os; atexit.register(os._exit, 0); raise SystemExit",
    "exec": "import os; os.execv('/python/bin/python3', ['/python/bin/python3', '-c', 'print(1)'])",
    # says that it has passed
    "print": "print('right'); print('+'); print('ok')\ndef f(x): print('+', flush=True)",
    "write everywhere": """
import os
for n in range(60):
    for text in (b'+', b'right', b'r', b'\\1' + bytes(7) + b'N'):
        try: os.write(n, text)
        except OSError: pass
def f(x): return 0
""",
    # objects that are equal to all
    "function": ALWAYS + "f = Yes()",
    "result": ALWAYS + "def f(x): return Yes()",
    "result in a list": ALWAYS + "def f(x): return [Yes()]",
    "int": """
class I(int):
    def __eq__(self, o): return True
    __hash__ = int.__hash__
def f(x): return I(0)
""",
    "list": """
class L(list):
    def __eq__(self, o): return True
    def __iter__(self): return iter([1])
def f(x): return L()
""",
    "str": "class S(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__\ndef f(x): return S()",
    "mock": "from unittest.mock import ANY\ndef f(x): return ANY",
    "nan": "def f(x): return float('nan')",
    "true": "def f(x): return True",
    "none": "def f(x): return None",
    "not implemented": "def f(x): return NotImplemented",
    "ellipsis": "def f(x): return ...",
    "type": "def f(x): return int",
    "itself a function": "def f(x): return f",
    "module": "import types\nclass f(types.ModuleType): pass",
    # patches what checks
    "patched builtins": """
import builtins
builtins.isinstance = lambda *a: True
builtins.AssertionError = Warning
builtins.len = builtins.sum = lambda *a: 7
def f(x): return 0
""",
    "patched modules": "import sys\nfor m in list(sys.modules): sys.modules[m] = None\ndef f(x): return 0",
    "patched math": """
import sys
sys.modules['math'] = sys.modules['tests'] = sys.modules[__name__]
def f(x): return math
""",
    "patched answers": """
import sys
sys.modules['inside.candidate']._answer = lambda *a: ('value', True, None)
def f(x): return 0
""",
    "patched channel": """
import sys
sys.modules['inside.channel'].Channel.send = lambda *a: None
def f(x): return 0
""",
    "patched changes": """
import sys
sys.modules['inside.candidate']._answer = lambda op, request, *a: ('value', 7, ([],) * len(request[1]))
def f(x): return 0
""",
    "patched shapes": """
import sys
odd = iter([('value',), ('value', 7), (7, 7, 7), 'value', None, ('raised', 3, 3, 3), ('loaded',), ('names', []), ()])
sys.modules['inside.candidate']._answer = lambda *a: next(odd)
def f(x): return 0
""",
    "patched check": "def check(candidate): pass\ndef f(x): return 0",
    "patched excepthook": "import sys\nsys.excepthook = lambda *a: None\nraise ValueError",
    "frames": """
import sys
frame = sys._getframe()
while frame:
    frame.f_globals.update(verdict='+', text='+', passed=True)
    frame.f_locals.update(answer='+'); frame = frame.f_back
def f(x): return 0
""",
    # breaks the protocol
    "close everything": "import os\nos.closerange(0, 100)\ndef f(x): return 0",
    "fake answers": """
import os
from inside.plain import encode
def send(message):
    data = encode(message, 10**6, None)
    for n in range(60):
        try: os.write(n, len(data).to_bytes(8, 'little') + data)
        except OSError: pass
send(('loaded',)); send(('names', [('f', None, True)]))
for _ in range(9): send(('value', True, None))
os._exit(0)
""",
    "endless answer": """
import os
for n in range(3, 60):
    try: os.write(n, (2**60).to_bytes(8, 'little'))
    except OSError: pass
def f(x): return 0
""",
    "noise": """
import os, random
for n in range(3, 60):
    try: os.write(n, b'\\x20' + bytes(7) + random.Random(n).randbytes(32))
    except OSError: pass
def f(x): return 0
""",
    # raises
    "raise AssertionError": "def f(x): raise AssertionError",
    "raise StopIteration": "def f(x): raise StopIteration",
    "raise SystemExit": "def f(x): raise SystemExit(0)",
    "raise KeyboardInterrupt": "def f(x): raise KeyboardInterrupt",
    "raise GeneratorExit": "def f(x): raise GeneratorExit",
    "raise BaseException": "def f(x): raise BaseException",
    "raise nonsense": """
class E(Exception):
    def __str__(self): raise self
    args = 3
def f(x): raise E
""",
    # values that never end
    "infinite generator": "def f(x):\n    while True: yield 7",
    "itself": "a = []; a.append(a)\ndef f(x): return a",
    "itself twice": "a = []; a += [a, a]\ndef f(x): return a",
    "laughs": """
def f(x):
    a = 'ha' * 1000
    for _ in range(40): a = [a, a]
    return a
""",
    "gigantic int": "def f(x): return 1 << (1 << 27)",
    "gigantic text": "def f(x): return 'x' * (1 << 27)",
    # other
    "empty arguments": "def f(x):\n    if isinstance(x, list): x.clear()\n    return x",
    "signals": """
import os, signal
for process in (-1, 1, os.getppid()):
    try: os.kill(process, signal.SIGKILL)
    except OSError: pass
""",
    "read the job again": """
import os
found = b''
for n in range(3, 60):
    try: os.lseek(n, 0, 0); found += os.read(n, 10**6)
    except OSError: pass
def f(x): return 7 if b'== 7' in found else 0
""",
}

# Programs and tests that invite a trick: the entry point is f.
INVITATIONS = [
    # A loop over calls must not end early.
    ("def f(x): raise StopIteration", "for got, want in zip(map(f, [1, 2]), [2, 3]): assert got == want"),
    ("class Stop(StopIteration): pass\ndef f(x): raise Stop", "assert all(map(f, [1, 2]))"),
    # Names of Python stay Python's, so that tests can't be made kinder.
    ("def f(x): return 0\ndef abs(x): return 0", "assert abs(f(1) - 9) < 1"),
    ("def f(x): return 0\ndef set(x): return 1", "assert set([f(1)]) == set([2])"),
    ("class math:\n    isclose = lambda *a: True\ndef f(x): return 0", "assert math.isclose(f(1), 9)"),
    (
        "def f(x): return 0\nclass np:\n    allclose = lambda *a: True",
        "try: import no_such_module as np\nexcept ImportError: pass\nassert np.allclose(f(1), 9)",
    ),
    ("def f(x): return 0\nAssertionError = ValueError\nprint = exit = quit", "assert f(1) == 9"),
    # Arguments come back changed only from functions without a result.
    ("def f(x): x.clear(); return []", "a = [2, 1]\nassert f(a) == sorted(a)"),
    ("def f(x): x.clear(); return x", "a = [2, 1]\nassert f(a) == sorted(a)"),
    (TRICKS["patched changes"].replace("7, ", "[], "), "a = [2, 1]\nassert f(a) == sorted(a)"),
    # What is caught once stays a failure.
    ("import os\ndef f(x): os._exit(0)", "try: f(1)\nexcept BaseException: pass"),
    ("def f(x): a = []; a.append(a); return a", "try: f(1)\nexcept: pass"),
    ("def f(x): return 'x' * 10**8", "try: f(1)\nexcept: pass"),
    # An object has one length, one order, one truth.
    (CONTRADICTION, "r = f([2, 1])\nassert len(r) == 2 and all(a == b for a, b in zip(r, [1, 2]))"),
    (CONTRADICTION, "r = f([2, 1])\nassert r and all(a == b for a, b in zip(r, [1, 2]))"),
    (CONTRADICTION, "r = f([2, 1])\nassert sorted(r) == [1, 2] and all(a < b for a, b in zip(r, list(r)[1:]))"),
    (CONTRADICTION, "r = f([2, 1])\nassert sorted(r) == [1, 2] and r[0] <= r[1]"),
    (CONTRADICTION, "r = f([2, 1])\nassert sorted(r) == [1, 2] and next(r) <= next(r)"),
    ("def f(x): return iter(x)", "r = f([2, 1])\nassert sorted(r) == [1, 2] and all(a < b for a, b in zip(r, r))"),
    # Nothing of the program's is equal to anything, or ordered, or a number.
    (ALWAYS + "f = Yes()", "assert f == 3 or 3 == f or f in [3]"),
    (ALWAYS + "f = Yes()", "assert f.value == 3"),
    (ALWAYS + "f = Yes()", "assert 3 in f"),
    (ALWAYS + "f = Yes()", "assert abs(f(1) - 3) < 1"),
    (ALWAYS + "f = Yes()", "assert not f(1) != 3"),
    (ALWAYS + "f = Yes()", "assert isinstance(f(1), int)"),
    (ALWAYS + "f = Yes()", "assert f(1) > 0"),
    (ALWAYS + "f = Yes()", "assert {3: 1}[f(1)]"),
    (ALWAYS + "f = Yes()", "assert str(f(1)) == '3'"),
    (ALWAYS + "f = Yes()", "assert len(f(1)) == 3"),
    (ALWAYS + "f = Yes()", "match f(1):\n  case 3: pass\n  case _: assert 0"),
    # What attributes of a result say is no proof, nor what type it has.
    *[(ALWAYS + program, test) for program in ("f = g = Yes()", "def f(*x): return Yes()\ng = f") for test in (
        "assert f('12').isdigit()", "assert f([1]).issubset({1, 2})", "r = f(3)\nassert r.equals([1, 2, 3])",
        "assert f(3).startswith('a') and f(4).is_integer()", "assert type(f(1)) is type(g(2))",
        "assert not f(3).wrong.at_all is None and f(3).right", "assert isinstance(f(1), type(g(2)))",
        "assert f(3).count(3)", "assert f(3).a.b(3)[0]", "assert any([f(3).equals(3)])",
    )],
    ("class R:\n    equals = lambda s, o: True\ndef f(x): return R()", "assert f(3).equals([1])"),
    ("class R:\n    empty = False\ndef f(x): return R()", "assert not f(3).empty"),
    # A value of the standard library has no method of the program's.
    ("from collections import namedtuple\nP = namedtuple('P', 'x')\nP.__eq__ = lambda s, o: True\n"
     "def f(x): return P(1)", "assert f(3) == (2,)"),
    ("from inside import library\nlibrary._TYPES['builtins.range'] = (lambda v: [f, f, f], None)\n"
     "def f(x): return range(3)", "assert f(3) == range(3)"),
    ("class C(dict): __eq__ = lambda s, o: True\ndef f(x): return C()", "assert f(3) == {1: 2}"),
]  # fmt: skip
