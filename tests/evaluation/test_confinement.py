"""Machines without a sandbox: a refusal in one line, or what the user has chosen instead."""

import os

import pytest
from sandboxed import missing, need_sandbox

from escd.errors import ConfigError, SandboxError
from escd.evaluation.code import grade_functions, grade_stdio
from escd.evaluation.sandbox import Limits, box, bubblewrap, confine, run_python


@pytest.fixture(autouse=True)
def _anew():
    """Each test tries the machine anew."""
    for cached in (confine._kind, bubblewrap._namespaces):
        cached.cache_clear()
    yield
    for cached in (confine._kind, bubblewrap._namespaces):
        cached.cache_clear()


def test_without_bubblewrap_programs_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for run in (lambda: run_python("print(1)"), lambda: grade_functions("f = len", "assert f('')", entry_point="f")):
        with pytest.raises(ConfigError, match="bubblewrap, which is not installed: install it"):
            run()


@pytest.mark.parametrize(
    "says", ["echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "exit 1", "exec sleep 1e6"]
)
def test_a_bubblewrap_that_fails_is_refused(monkeypatch, tmp_path, says):
    monkeypatch.setattr(bubblewrap, "PATIENCE", 0.5)
    monkeypatch.setattr(confine, "PATIENCE", 0.5)
    script = tmp_path / "bwrap"
    script.write_text(f"#!/bin/sh\n{says}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match=r"bubblewrap makes no sandbox here \(.*\): allow user namespaces") as error:
        run_python("print(1)")
    assert "\n" not in str(error.value)


def test_an_unknown_kind_of_machine_is_refused(monkeypatch):
    from escd.evaluation.sandbox import syscalls

    syscalls.seccomp_filter.cache_clear()
    monkeypatch.setattr("platform.machine", lambda: "mips")
    with pytest.raises(ConfigError, match="knows x86_64 and aarch64, not mips"):
        syscalls.seccomp_filter()


def test_unknown_choices_and_limits_are_refused(monkeypatch):
    monkeypatch.setenv("ESCD_SANDBOX", "docker")
    with pytest.raises(ConfigError, match="ESCD_SANDBOX='docker': give bubblewrap or process"):
        run_python("")
    for value in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match="limit wall="):
            Limits(wall=value)


def test_a_sandbox_that_falls_is_no_verdict(monkeypatch):
    need_sandbox()
    run_python("")  # the trial is over
    monkeypatch.setattr(box, "_FLAGS", ("--no-such-flag",))
    for run in (lambda: run_python("print(1)"), lambda: grade_functions("f = len", "assert f('')", entry_point="f")):
        with pytest.raises(SandboxError, match=r"a sandbox did not start \(exit code 2\)"):
            run()


class TestProcess:
    """`ESCD_SANDBOX=process`: the same answers and limits, said once to be no boundary."""

    @pytest.fixture(autouse=True)
    def _chosen(self, monkeypatch, _anew):
        monkeypatch.setenv("ESCD_SANDBOX", "process")
        with pytest.warns(UserWarning, match="no security boundary"):
            run_python("")

    def test_programs_run(self, monkeypatch):
        monkeypatch.setenv("ESCD_TEST_SECRET", "token")
        outcome = run_python("import os\nprint(input(), 'ESCD_TEST_SECRET' in os.environ, os.listdir())", stdin="x")
        assert outcome.stdout == "x False []\n"
        assert run_python("import os; os.kill(os.getpid(), 11)").reason == "crash: SIGSEGV"

    def test_limits_hold(self):
        assert run_python("while True: pass", limits=Limits(cpu=1)).reason == "time limit"
        assert run_python("import time; time.sleep(1e6)", limits=Limits(wall=1)).reason == "time limit"
        assert run_python("x = bytearray(1 << 40)").reason == "memory limit"
        assert run_python("while True: print('x' * 1000)", limits=Limits(output=10_000)).reason == "output limit"
        many = "import os\nfor n in range(10**6): open(str(n), 'w')"
        assert run_python(many, limits=Limits(entries=100)).reason == "too many files"

    def test_children_of_the_program_end_with_it(self):
        source = "import os, time\nif os.fork() == 0:\n  time.sleep(1e6)\nprint('done', flush=True)"
        assert run_python(source, limits=Limits(wall=5)).stdout == "done\n"

    def test_grading_works(self):
        assert grade_functions("def f(x): return x + 1", "assert f(1) == 2").correct
        assert not grade_functions("import os; os._exit(0)", "assert f(1) == 2").correct
        assert grade_stdio("print(int(input()) + 1)", [("1", "2")]).correct


@pytest.mark.skipif(not missing(), reason="a sandbox works here")
def test_this_machine_says_why_it_has_none():
    with pytest.raises(ConfigError, match="ESCD_SANDBOX=process"):
        run_python("")
