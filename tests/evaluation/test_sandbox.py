"""Attacks on the machine: each ends soon, harms nothing, and reads nothing."""

import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandboxed import SHORT, need_sandbox

import escd
from escd.errors import ConfigError
from escd.evaluation.sandbox import Limits, run_python
from escd.evaluation.sandbox.run import collect

PYTHON = "/python/bin/python3"


@pytest.fixture(autouse=True)
def _sandbox():
    need_sandbox()


def attempt(source, limits=SHORT, **options):
    """Run an attack that must end within its limits."""
    begun = time.monotonic()
    outcome = run_python(source, limits=limits, **options)
    assert time.monotonic() - begun < limits.wall + 10
    return outcome


def refused(statement, prelude="import os, ctypes\nlibc = ctypes.CDLL(None, use_errno=True)"):
    """Run one statement that must raise or print -1, and the line that says how it failed."""
    source = f"{prelude}\ntry:\n    print({statement})\nexcept OSError as error:\n    print('refused', error)\n"
    outcome = attempt(source)
    assert outcome.exit_code == 0, outcome
    assert outcome.stdout.startswith(("refused", "-1")), outcome.stdout
    return outcome.stdout


# --- what it is for ---------------------------------------------------------------------------


def test_a_program_reads_prints_and_ends():
    outcome = run_python("import sys\nprint(input())\nprint('é', file=sys.stderr)\nsys.exit(3)", stdin="ü\nrest")
    assert (outcome.stdout, outcome.stderr, outcome.exit_code) == ("ü\n", "é\n", 3)
    assert outcome.reason == "exit code 3"


def test_the_standard_library_works():
    source = """
import asyncio, bisect, collections, ctypes, dataclasses, decimal, fractions, hashlib, heapq, itertools, json
import lzma, math, queue, random, re, sqlite3, statistics, string, tempfile, threading, typing, uuid, zlib, zoneinfo
from concurrent.futures import ThreadPoolExecutor
@dataclasses.dataclass
class Point: x: int
async def main(): return await asyncio.to_thread(lambda: Point(4))
zoneinfo.ZoneInfo("Europe/Berlin") if zoneinfo.available_timezones() else None
print(asyncio.run(main()), sum(ThreadPoolExecutor(8).map(int, "123")))
with tempfile.TemporaryFile() as f: print(f.write(b"ab"))
open("/tmp/x", "w").write("y"); print(open("x").read())
sys = __import__("sys"); sys.setrecursionlimit(10**6); threading.stack_size(2**27)
def deep(n): return 0 if n == 0 else 1 + deep(n - 1)
t = threading.Thread(target=lambda: print(deep(50_000))); t.start(); t.join()
exit()
"""
    outcome = run_python(source)
    assert (outcome.stdout, outcome.reason) == ("Point(x=4) 6\n2\ny\n50000\n", ""), outcome


def test_files_lie_in_the_folder_of_the_program():
    outcome = run_python(
        "import helper\nprint(helper.x, open('data/a.txt').read())", files={"helper.py": "x = 1", "data/a.txt": "b"}
    )
    assert outcome.stdout == "1 b\n"
    for name in ("../x", "/etc/x", "a/../../b", ""):
        with pytest.raises(ConfigError, match="relative to the program's folder"):
            run_python("", files={name: ""})


def test_exceptions_are_named():
    assert run_python("import nowhere").reason == "exception: ModuleNotFoundError: No module named 'nowhere'"
    assert run_python("x = (").reason == "exception: SyntaxError: '(' was never closed"
    assert run_python("def f(): raise ValueError('a\\nb')\nf()").reason == "exception: ValueError: a"
    assert run_python("try: 1 / 0\nexcept Exception as e: raise KeyError(3) from e").reason == "exception: KeyError: 3"
    assert "program.py" in run_python("1 / 0").stderr
    assert "inside" not in run_python("1 / 0").stderr


def test_runs_repeat_exactly():
    source = "print({str(i) for i in range(50)})"
    assert run_python(source).stdout == run_python(source).stdout


def test_a_run_leaves_nothing_for_the_next():
    run_python("open('left', 'w').write('x')")
    assert run_python("import os; print(os.listdir('/sandbox'))").stdout == "[]\n"


def test_runs_in_threads_do_not_mix():
    with ThreadPoolExecutor(4) as pool:
        printed = list(pool.map(lambda n: run_python("print(input())", stdin=str(n)).stdout, range(12)))
    assert printed == [f"{n}\n" for n in range(12)]


def test_no_descriptor_or_file_of_ours_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run_python("pass")
    before = len(os.listdir("/proc/self/fd"))
    for source in ("pass", "1/0", "while True: pass"):
        run_python(source, limits=SHORT)
    assert len(os.listdir("/proc/self/fd")) == before
    assert not list(tmp_path.iterdir())


# --- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "import signal as s\nfor n in {*range(1, 65)} - {9, 19, 32, 33}: s.signal(n, s.SIG_IGN)\nwhile True: pass",
        "10 ** 10 ** 10",
        "import re; re.match('(a+)+b', 'a' * 100)",
        "import threading\nfor _ in range(8): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()",
    ],
    ids=["loop", "loop that ignores signals", "power", "regular expression", "threads"],
)
def test_endless_work_ends(source):
    assert attempt(source).reason == "time limit"


@pytest.mark.parametrize(
    "source",
    [
        "import time; time.sleep(1e6)",
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); signal.sigwait([60])",
        "import os; os.close(1); os.close(2); import time; time.sleep(1e6)",
        "import threading; threading.Event().wait()",
        "import os; r, w = os.pipe(); os.read(r, 1)",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    ],
    ids=["sleep", "blocked signals", "closed output", "lock", "pipe", "stopped"],
)
def test_endless_waiting_ends(source):
    assert attempt(source, Limits(wall=1)).reason == "time limit"


def test_nothing_survives_the_run():
    token = f"escd-{os.getpid()}-{time.time_ns()}"
    source = f"import os; os.execv('{PYTHON}', ['{PYTHON}', '-c', 'import time; time.sleep(1e6)', '{token}'])"
    seen = []

    def watch():
        while not seen and time.monotonic() < begun + 8:
            seen.extend(running(token))
            time.sleep(0.02)

    begun = time.monotonic()
    watcher = threading.Thread(target=watch)
    watcher.start()
    assert attempt(source, Limits(wall=1.5)).reason == "time limit"
    watcher.join()
    assert seen
    assert not running(token)


@pytest.mark.parametrize("end", ["kill", "interrupt"])
def test_nothing_survives_the_end_of_this_process(end):
    token = f"escd-{os.getpid()}-{time.time_ns()}"
    program = f"import os; os.execv('{PYTHON}', ['{PYTHON}', '-c', 'import time; time.sleep(1e6)', '{token}'])"
    # A shell that puts its jobs into the background has them ignore the interrupt.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    ours = f"{heed}from escd.evaluation.sandbox import *; run_python({program!r}, limits=Limits(wall=60))"
    process = subprocess.Popen([sys.executable, "-c", ours], stderr=subprocess.DEVNULL)
    wait(lambda: running(token))
    process.send_signal(signal.SIGKILL if end == "kill" else signal.SIGINT)
    process.wait()
    wait(lambda: not running(token))


def wait(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def running(token):
    """Processes of the machine that a program started with `token` among their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if command.startswith(PYTHON.encode()) and token.encode() in command:
                found.append(folder.name)
        except OSError:
            continue
    return found


# --- processes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "os.fork()",
        "os.forkpty()",
        "os.posix_spawn('/python/bin/python3', ['python3'], {})",
        "libc.fork()",
        "libc.vfork()",
    ],
)
def test_no_second_process(statement):
    refused(statement)


def test_fork_bomb_and_daemon():
    source = """
import os, subprocess, multiprocessing
for start in (os.fork, lambda: subprocess.Popen(['/python/bin/python3']), lambda: multiprocessing.Process().start()):
    try: start(); print("started")
    except OSError as error: print(type(error).__name__)
while True:
    try: os.fork()
    except OSError: break
"""
    outcome = attempt(source)
    assert (outcome.stdout, outcome.reason) == ("PermissionError\n" * 3, "")


def test_raw_clone_is_refused():
    call = 56 if platform.machine() == "x86_64" else 220
    assert "-1" in refused(f"libc.syscall({call}, 17, 0, 0, 0, 0)")  # SIGCHLD: a process
    assert "-1" in refused(f"libc.syscall({call}, 0x10000000 | 17, 0, 0, 0, 0)")  # in a user namespace
    assert "-1" in refused("libc.syscall(435, 0, 0)")  # clone3


def test_thread_bomb():
    source = """
import threading
threading.stack_size(32768)
n = 0
try:
    while True:
        threading.Thread(target=threading.Event().wait, daemon=True).start(); n += 1
except RuntimeError: print(n)
"""
    outcome = attempt(source)
    assert outcome.exit_code == 0
    assert 16 <= int(outcome.stdout) <= SHORT.threads + 1


def test_signals_reach_nobody():
    mine = os.getpid()
    source = f"""
import os, signal
for process in ({mine}, {os.getppid()}, os.getppid(), 1, -1):
    try: os.kill(process, signal.SIGKILL); print("sent")
    except OSError as error: print(type(error).__name__)
"""
    outcome = attempt(source)
    # In root's sandbox process 1 is another user's; elsewhere it ignores what comes from within; -1 spares the caller.
    assert set(outcome.stdout.split()) <= {"ProcessLookupError", "PermissionError", "sent"}
    assert outcome.stdout.split()[:2] == ["ProcessLookupError"] * 2


# --- memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "x = bytearray(1 << 40)",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "x = 'a'\nwhile True: x += x",
        "import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 1 << 24))",
    ],
    ids=["at once", "bit by bit", "doubling", "shared"],
)
def test_memory_hog(source):
    outcome = attempt(source, Limits(memory=256 << 20))
    assert outcome.reason in ("memory limit", "exception: OSError: [Errno 12] Cannot allocate memory")


@pytest.mark.parametrize(
    "statement",
    [
        "os.memfd_create('x')",
        "libc.shmget(0, 1 << 20, 0o1600)",
        "libc.mq_open(b'/x', 0o102, 0o600, None)",
        "os.setxattr('/sandbox', 'user.x', b'y')",
        "__import__('socket').socketpair()[0].setsockopt(1, 7, 1 << 24)",
        "libc.mlock(ctypes.create_string_buffer(1 << 16), 1 << 16)",
    ],
)
def test_memory_that_no_limit_counts(statement):
    refused(statement)


def test_deep_recursion_only_kills_itself():
    source = """
import gc, sys
gc.disable(); sys.setrecursionlimit(10**9)
x, y = [], []
for _ in range(10**6): x, y = [x], [y]
x == y
"""
    outcome = attempt(source, Limits(cpu=10, wall=60))
    assert outcome.reason.startswith(("crash: SIGSEGV", "memory limit", "exception: RecursionError"))


# --- output and files -------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_endless_output(stream):
    outcome = attempt(f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)", Limits(output=1_000_000))
    assert outcome.reason == "output limit"
    assert len(getattr(outcome, stream)) == 1_000_000


def test_huge_file():
    source = """
with open('x', 'wb', buffering=0) as file:
    try:
        while True: file.write(bytes(1 << 20))
    except OSError as error: print(error, file.tell())
"""
    assert attempt(source, Limits(file_size=4 << 20)).stdout == f"[Errno 27] File too large {4 << 20}\n"


def test_many_bytes():
    source = """
for n in range(100):
    with open(str(n), 'wb', buffering=0) as file:
        try: file.write(bytes(1 << 20))
        except OSError as error: print(error, n); break
"""
    outcome = attempt(source, Limits(folder=8 << 20))
    assert outcome.stdout.startswith("[Errno 28] No space left on device")
    assert int(outcome.stdout.split()[-1]) <= 8


def test_many_files():
    source = "import os\nn = 0\nwhile True: os.mkdir(str(n)); n += 1"
    assert attempt(source, Limits(entries=1000)).reason == "too many files"


@pytest.mark.parametrize(
    "path",
    [
        "/x",
        "/etc/x",
        "/root/x",
        "/home/x",
        "/dev/x",
        "/dev/shm/x",
        "/usr/x",
        "/python/x",
        "/python/lib/x",
        "/var/tmp/x",
    ]
    + [f"{Path.home()}/x", f"{Path(__file__).parent}/x", f"{Path(escd.__file__).parent}/x"]
    + [f"/python/{sys.platlibdir}/python3.{sys.version_info[1]}/{name}" for name in ("os.py", "x", "site-packages/x")],
)
def test_no_writing_elsewhere(path):
    before = os.path.exists("/python") or os.path.exists(path)
    refused(f"open({path!r}, 'wb')")
    if not path.startswith("/tmp/"):  # a name of the program's own folder
        refused(f"os.makedirs({path!r} + '/y')")
    refused(f"os.symlink('/etc', {path!r})")
    assert (os.path.exists("/python") or os.path.exists(path)) == before


@pytest.mark.parametrize("path", ["/dev/null", "/dev/urandom", "/sandbox/../../../x", "/python/bin/python3"])
def test_devices_and_program_stay(path):
    refused(f"os.remove({path!r})")
    refused(f"os.rename({path!r}, '/sandbox/x')")
    refused(f"os.chmod({path!r}, 0o777)")


def test_nothing_of_the_machine_is_seen(tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("token")
    monkeypatch.setenv("ESCD_TEST_SECRET", "token")
    source = f"""
import os
for path in ({str(secret)!r}, '/etc/passwd', '/etc/shadow', '/etc/hostname', '/root', '/home', {str(Path.home())!r},
             {str(Path(escd.__file__))!r}, {os.getcwd()!r}, {sys.prefix!r}, '/proc', '/proc/1/environ', '/sys', '/run',
             '/proc/{os.getpid()}/environ', '/var', '/boot', '/dev/mem', '/dev/tty', '/dev/shm', '/usr/bin'):
    print(path) if os.path.exists(path) else None
print({{*os.environ}} - {{'HOME', 'TMPDIR', 'LANG', 'PYTHONHASHSEED', 'LD_LIBRARY_PATH', 'PYTHONTZPATH', 'PWD'}})
libraries = os.path.dirname(os.__file__)
print([os.listdir(f'{{libraries}}/{{n}}') for n in os.listdir(libraries) if n.endswith('-packages')])
print(os.uname().nodename, sorted(int(n) for n in range(3, 1000) if not closed(n)))
"""
    prelude = "def closed(n):\n    import os\n    try: os.fstat(n)\n    except OSError: return True\n"
    outcome = attempt(prelude + source)
    printed = outcome.stdout.splitlines()
    assert printed[0] == "set()"
    assert printed[1] in ("[]", "[[]]")
    assert printed[2] == "sandbox []"


def test_links_lead_nowhere():
    source = """
import os
os.symlink('/etc/passwd', 'a'); os.symlink('../../../../../../etc/passwd', 'b'); os.symlink('/proc/self/root', 'c')
for name in ('a', 'b', 'c/etc/passwd'):
    try: print(open(name).read())
    except OSError as error: print(type(error).__name__)
try: os.link('/python/bin/python3', 'd')
except OSError as error: print(type(error).__name__)
"""
    assert set(attempt(source).stdout.split()) <= {"FileNotFoundError", "PermissionError", "OSError"}


# --- network ----------------------------------------------------------------------------------


def test_no_network(tmp_path):
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        unix.bind(str(tmp_path / "s"))
        abstract.bind(f"\0escd-{os.getpid()}")
        for server in (tcp, unix, abstract):
            server.listen()
        port = tcp.getsockname()[1]
        source = f"""
import socket
for attack in (lambda: socket.create_connection(('127.0.0.1', {port})), lambda: socket.getaddrinfo('pypi.org', 443),
               lambda: socket.socket(socket.AF_UNIX).connect({str(tmp_path / "s")!r}),
               lambda: socket.socket(socket.AF_UNIX).connect('\\0escd-{os.getpid()}'),
               lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM), lambda: socket.socket(socket.AF_NETLINK),
               lambda: __import__('urllib.request').request.urlopen('http://127.0.0.1:{port}')):
    try: attack(); print('connected')
    except OSError as error: print('refused')
"""
        assert attempt(source).stdout.split() == ["refused"] * 7


# --- kernel -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "libc.unshare(0x10000000)",
        "libc.setns(0, 0)",
        "libc.mount(b'none', b'/sandbox', b'tmpfs', 0, None)",
        "libc.umount2(b'/', 2)",
        "os.chroot('/sandbox')",
        "libc.ptrace(0, 0, 0, 0)",
        "libc.process_vm_writev(1, None, 0, None, 0, 0)",
        "libc.syscall(321, 0, 0, 0)",
        "libc.syscall(425, 8, ctypes.create_string_buffer(256))",
        "libc.syscall(462)",
        "__import__('socket').socketpair(30)",
        "os.sync() or libc.syncfs(0)",
        "libc.inotify_init1(0)",
        "libc.syscall(206, 65000, ctypes.byref(ctypes.c_long(0)))",
        "os.setuid(0)",
        "libc.setresuid(0, 0, 0)",
        "libc.personality(0)",
        "libc.sethostname(b'x', 1)",
        "os.mknod('/sandbox/x', 0o60600, os.makedev(8, 0))",
        "os.nice(-5)",
        "open('/proc/self/mem', 'r+b')",
    ],
)
def test_no_way_out_through_the_kernel(statement):
    if platform.machine() != "x86_64":
        statement = statement.replace("321", "280").replace("206,", "0,")
    refused(statement)


def test_limits_cannot_be_raised():
    source = """
import resource
for name in ('CPU', 'AS', 'NPROC', 'FSIZE', 'NOFILE', 'CORE'):
    kind = getattr(resource, f'RLIMIT_{name}')
    soft, hard = resource.getrlimit(kind)
    try: resource.setrlimit(kind, (hard + 1, hard + 1)); print(name)
    except (OSError, ValueError): pass
"""
    assert attempt(source).stdout == ""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86_64")
def test_system_calls_by_their_32_bit_numbers_kill():
    source = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes.fromhex('b814000000cd80c3'))  # mov eax, 20 (getpid); int 0x80; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())
"""
    assert attempt(source).reason == "crash: SIGSYS"


def test_what_is_written_just_before_the_end_is_read():
    """Between a look at the pipe that found nothing and a look at the process that found it ended."""

    class Ending:
        started = time.monotonic()

        def __init__(self, pipe):
            self.pipe = pipe

        def ended(self, within):
            if self.pipe is not None:
                os.write(self.pipe, b"last words")
                os.close(self.pipe)
                self.pipe = None
            return True

        def overfull(self):
            return False

    reading, writing = os.pipe()
    box = Ending(writing)
    assert collect([reading], box, [box], Limits()) == ([b"last words"], "")
    os.close(reading)
