"""A real vLLM server as the teacher: exact rows, whole runs, and what a run does when the server dies."""

import os
import signal
import threading

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM
from vllm_server import POOLING, VENV, VLLMServer

import escd
from escd import lab
from escd.chat import Bridge, render_prompt
from escd.models import load_tokenizer
from escd.objectives.tiles import logits_of
from escd.teachers import Conversation, LocalTeacher
from escd.teachers.served import VLLMTeacher
from escd.teachers.served.client import Servers

from .batch import BATCH, ROWS
from .runs import distill, figures, local_run, rows

pytestmark = [
    pytest.mark.served,
    pytest.mark.slow,
    pytest.mark.skipif(not (VENV / ".complete").exists(), reason=f"no vLLM in {VENV}; `make vllm` puts it there"),
]


@pytest.fixture(scope="module")
def server():
    server = VLLMServer(lab.TEACHER_PATH, *POOLING).start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return local_run(tmp_path_factory.mktemp("local") / "run")


# -- rows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("bfloat16", 3e-2)])
def test_row_losses_equal_those_of_the_local_teacher(server, dtype, tolerance):
    tokenizers = [load_tokenizer(path, "model") for path in (lab.STUDENT_PATH, lab.TEACHER_PATH)]
    student, teacher = (escd.ByteVocab.from_tokenizer(t) for t in tokenizers)
    pair, bridge = escd.TokenizerPair(student=student, teacher=teacher), Bridge(student, teacher)
    model = AutoModelForCausalLM.from_pretrained(lab.TEACHER_PATH, dtype=torch.float32)
    local = LocalTeacher(model, model, "local", lambda _, __, function, *args: function(*args))
    served = VLLMTeacher(lab.TEACHER_PATH, [server.url], dtype=dtype)
    prompts = [
        render_prompt(tokenizers[1], [{"role": "user", "content": f"Tom has {n} shells and finds 7 more."}])
        for n in range(12)
    ]
    served.check(prompts, len(teacher), 60)
    texts = [f"Tom has {n} + 7 = {n + 7} shells now. The answer is {n + 7}." for n in range(12)]
    ids = [[*student.encode(text.encode())[0], student.preferred_stop] for text in texts]
    batch = [Conversation(p, bridge.to_teacher(i).ids) for p, i in zip(prompts, ids, strict=True)]
    every = [np.arange(len(c.response)) for c in batch]
    logits = [logits_of(t.head(), t.hidden_rows(batch, every)).T for t in (local, served)]
    assert torch.allclose(logits[0], logits[1], atol=1e-4 if dtype == "float32" else 0.2)
    objective, at = escd.objective("escd", pair), 0
    torch.manual_seed(0)
    for student_ids, conversation in zip(ids, batch, strict=True):
        z = torch.randn(len(student_ids), len(student))
        part = slice(at, at + len(conversation.response))
        a, b = (objective.row_losses(z, q[part], student_ids, conversation.response) for q in logits)
        assert a.total.sum() > 1
        torch.testing.assert_close(a.total, b.total, atol=tolerance, rtol=tolerance)
        at = part.stop
    served.servers.close()


# -- runs -------------------------------------------------------------------------------------------------------


def test_a_run_equals_the_run_with_the_local_teacher(server, undisturbed, tmp_path):
    assert distill(tmp_path / "run", "--teacher_server_url", server.url) == 0
    np.testing.assert_allclose(figures(tmp_path / "run"), undisturbed, rtol=1e-3, atol=1e-5)
    assert rows(tmp_path / "run")[0]["teacher/megabytes"] > 0.1
    assert "served by vLLM: hidden states in float32" in (tmp_path / "run" / "README.md").read_text()
    assert not (tmp_path / "run" / "_teacher_rows").exists()


def dies_at_step(monkeypatch, server, step, back):
    """The server hangs with the requests of a step, is killed under them, and comes back or not."""
    calls, whole = [], Servers.map

    def restart():
        server.kill()
        if back:
            server.start(wait=0)

    def mapped(self, *args):
        calls.append(1)
        if len(calls) == step:
            os.killpg(server.process.pid, signal.SIGSTOP)
            threading.Timer(2, restart).start()
        return whole(self, *args)

    monkeypatch.setattr(Servers, "map", mapped)


def test_a_server_that_dies_in_a_step_and_comes_back(server, undisturbed, tmp_path, monkeypatch):
    dies_at_step(monkeypatch, server, 3, back=True)
    assert distill(tmp_path / "run", "--teacher_server_url", server.url) == 0
    found = figures(tmp_path / "run")
    np.testing.assert_allclose(found, undisturbed, rtol=1e-3, atol=1e-5)
    retries = [row["teacher/retries"] for row in rows(tmp_path / "run")]
    assert [bool(r) for r in retries] == [False, False, True, False]


def test_a_server_that_dies_for_good(server, undisturbed, tmp_path, monkeypatch, capsys):
    flags = ["--teacher_server_url", server.url, "--teacher_server_timeout", "6"]
    with monkeypatch.context() as patch:
        dies_at_step(patch, server, 4, back=False)
        assert distill(tmp_path / "run", *flags) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "no teacher server answered within 6 s" in last
    assert f"(step 4); nothing was learnt from this step; {tmp_path / 'run' / 'checkpoint-2'} is intact" in last
    assert distill(tmp_path / "run", *flags, "--resume_from_checkpoint", "true") == 2
    assert "does not answer (connection refused)" in capsys.readouterr().err
    server.start()
    assert distill(tmp_path / "run", *flags, "--resume_from_checkpoint", "true") == 0
    np.testing.assert_allclose(figures(tmp_path / "run"), undisturbed, rtol=1e-3, atol=1e-5)
    cached = [row["teacher/cached_rows"] for row in rows(tmp_path / "run")]
    assert [bool(c) for c in cached] == [False, False, True, False]  # step 3 was answered before


# -- servers that generate --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generating():
    server = VLLMServer(lab.TEACHER_PATH, "--max-logprobs", "30").start()
    yield server
    server.close()


def test_top_k_rows_are_what_they_are_said_to_be(generating):
    model = AutoModelForCausalLM.from_pretrained(lab.TEACHER_PATH, dtype=torch.float32)
    local = LocalTeacher(model, model, "local", lambda _, __, function, *args: function(*args))
    served = VLLMTeacher(lab.TEACHER_PATH, [generating.url], top_k=30)
    served.check([c.prompt for c in BATCH], 1000, 60)
    exact = logits_of(local.head(), local.hidden_rows(BATCH, ROWS)).log_softmax(0).T
    z = logits_of(served.head(), served.hidden_rows(BATCH, ROWS)).T
    for found, log_q in zip(z, exact, strict=True):
        kept = torch.nonzero(found[:1000] > -1e20)[:, 0]
        top = log_q.topk(30)
        assert set(kept.tolist()) == set(top.indices.tolist())
        torch.testing.assert_close(found[kept], log_q[kept], atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(found[1000].exp(), 1 - top.values.exp().sum(), atol=1e-4, rtol=1e-3)
    with pytest.raises(escd.TeacherError, match=r"max allowed: 30.*--max-logprobs 31"):
        VLLMTeacher(lab.TEACHER_PATH, [generating.url], top_k=31).check([c.prompt for c in BATCH], 1000, 60)
    with pytest.raises(escd.TeacherError, match="has no /pooling"):
        VLLMTeacher(lab.TEACHER_PATH, [generating.url]).check([c.prompt for c in BATCH], 1000, 60)
    served.servers.close()


def test_runs_that_need_no_pooling(generating, undisturbed, tmp_path):
    assert distill(tmp_path / "topk", "--teacher_server_url", generating.url, "--teacher_top_k", "30") == 0
    found = rows(tmp_path / "topk")
    assert 0 < found[0]["teacher/truncated_mass"] < 0.05
    # The lab's teacher is sure of most rows: its 30 most likely tokens are nearly all there is.
    np.testing.assert_allclose([row["root"] for row in found], [row[1] for row in undisturbed], rtol=0.2)
    assert distill(tmp_path / "seqkd", "--teacher_server_url", generating.url, "--objective", "seqkd") == 0
    assert rows(tmp_path / "seqkd")[0]["teacher/requests"] == 8
    assert rows(tmp_path / "seqkd")[-1]["loss"] < 1
