"""The most likely tokens of rows, and generation, from a server that cannot pool."""

from types import SimpleNamespace

import pytest
import torch

from escd import TeacherError
from escd.objectives.tiles import SparseHead, logits_of
from escd.teachers.served import RowCache

from .batch import BATCH, PROMPTS, ROWS, check, expected
from .fake import MODEL, FakeServer, status

SAMPLING = SimpleNamespace(max_completion_length=6, temperature=0.7, top_p=0.9, top_k=5)


@pytest.fixture
def server():
    with FakeServer(pooling=False) as fake:
        yield fake


def test_rows_hold_the_most_likely_tokens_and_what_is_missing(server, make, tmp_path):
    teacher = check(make(server, top_k=7, cache=RowCache(tmp_path, 10**7)))
    rows = teacher.hidden_rows(BATCH, ROWS)
    assert teacher.head() == SparseHead(1001)
    found = logits_of(teacher.head(), rows).T
    exact = MODEL.lm_head(expected()).log_softmax(-1).detach()
    for row, (z, log_q) in enumerate(zip(found, exact, strict=True)):
        kept = sorted(torch.nonzero(z[:1000] > -1e20)[:, 0].tolist())
        assert kept == sorted(log_q.topk(7).indices.tolist()), row
        torch.testing.assert_close(z[kept], log_q[kept], atol=1e-5, rtol=1e-5)
    missing = 1 - exact.topk(7).values.exp().sum(-1)
    torch.testing.assert_close(found[:, 1000].exp(), missing, atol=1e-5, rtol=1e-4)
    assert teacher.figures(1)["teacher/truncated_mass"] == pytest.approx(float(missing.mean()), rel=1e-4)
    server.asked.clear()
    assert torch.equal(teacher.hidden_rows(BATCH, ROWS), rows)
    assert not server.asked


def test_more_tokens_than_there_are(server, make):
    server.max_logprobs = 2000
    teacher = check(make(server, top_k=1200))
    z = logits_of(teacher.head(), teacher.hidden_rows(BATCH, ROWS)).T
    torch.testing.assert_close(z[:, :1000], MODEL.lm_head(expected()).log_softmax(-1).detach(), atol=1e-5, rtol=1e-5)
    assert float(z[:, 1000].exp().max()) < 1e-5


def test_a_server_that_caps_log_probabilities(server, make):
    with pytest.raises(TeacherError, match=r"max allowed: 20.*lower --teacher_top_k, or start it .*--max-logprobs 25"):
        check(make(server, top_k=25))


def test_a_server_that_pools(make):
    with FakeServer() as server, pytest.raises(TeacherError, match=r"has no /v1/completions, so it was started for"):
        check(make(server, top_k=5))


@pytest.mark.parametrize(
    "content", [{"choices": []}, {"choices": [{"index": 0, "prompt_logprobs": None}]}, [], "x", {"choices": [3]}]
)
def test_answers_without_log_probabilities(server, make, content):
    teacher = check(make(server, top_k=5))
    server.always = lambda handler: handler.json(200, content)
    with pytest.raises(TeacherError, match=r"answer (holds no prompt_logprobs|does not have the log-prob).*3 times"):
        teacher.hidden_rows(BATCH, ROWS)


def test_generation(server, make):
    teacher = make(server)
    teacher.check_generation(PROMPTS)
    server.asked.clear()
    torch.manual_seed(3)
    assert teacher.generate(PROMPTS, [2, 0], SAMPLING) == [[9, 9, 9, 9, 9, 2]] * 4
    asked = sorted(server.asked, key=lambda body: PROMPTS.index(body["prompt"]))
    assert [body["prompt"] for body in asked] == PROMPTS
    assert len({body["seed"] for body in asked}) == 4
    body = asked[0]
    assert (body["max_tokens"], body["temperature"], body["top_p"], body["top_k"]) == (6, 0.7, 0.9, 5)
    assert (body["repetition_penalty"], body["stop_token_ids"]) == (1.0, [2, 0])
    torch.manual_seed(3)  # what a resumed run asks is the same
    teacher.generate(PROMPTS, [2, 0], SAMPLING)
    assert sorted(b["seed"] for b in server.asked[4:]) == sorted(b["seed"] for b in asked)


def test_a_server_that_does_not_generate(make, server):
    with FakeServer() as pooling, pytest.raises(TeacherError, match=r"does not generate, .*start it with: vllm serve"):
        make(pooling).check_generation(PROMPTS)
    server.always = lambda handler: handler.json(200, {"choices": [{"index": 0, "text": "?"}]})
    with pytest.raises(TeacherError, match="has no token_ids"):
        make(server).check_generation(PROMPTS)
    server.always = status(400, "no")
    with pytest.raises(TeacherError, match="does not generate"):
        make(server).check_generation(PROMPTS)
