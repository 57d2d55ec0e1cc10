"""A served teacher against a server that plays every fault: rows come out exact, or one line says what is wrong."""

import threading
import time

import numpy as np
import pytest
import torch

from escd import ConfigError, TeacherError
from escd.teachers import Conversation
from escd.teachers.served import RowCache

from .batch import BATCH, PROMPTS, ROWS, check, expected
from .fake import (
    FakeServer,
    changed,
    cut,
    drip,
    garbage,
    html,
    nan_at,
    narrow,
    no_rows,
    other_weights,
    short_body,
    status,
    unit_norm,
)  # fmt: skip


def assert_exact(teacher):
    torch.testing.assert_close(teacher.hidden_rows(BATCH, ROWS).float(), expected(), atol=1e-5, rtol=1e-5)


# -- what goes well ---------------------------------------------------------------------------------------------


def test_only_the_rows_that_are_asked_for(server, make):
    teacher = check(make(server))
    server.asked.clear()
    assert_exact(teacher)
    sent = sorted(ids for body in server.asked for ids in body["input"])
    # Nothing is asked about a response without a row, and nothing after the last one.
    whole = [[*c.prompt, *c.response] for c in BATCH]
    assert sent == sorted([whole[0][:-1], whole[1][: len(BATCH[1].prompt) + 7], whole[3][:-1]])
    assert teacher.hidden_rows(BATCH, [r[:0] for r in ROWS]).shape == (0, 128)
    assert teacher.hidden_rows([], []).shape == (0, 128)
    figures = teacher.figures(2)
    assert figures["teacher/megabytes"] == pytest.approx(sum(map(len, sent)) * 128 * 4 / 1e6 / 2)
    assert figures["teacher/requests"] == len(server.asked) / 2


def test_bfloat16_halves_the_bytes(server, make):
    teacher = check(make(server, dtype="bfloat16"))
    teacher.figures(1)
    rows = teacher.hidden_rows(BATCH, ROWS)
    assert rows.dtype == torch.bfloat16
    assert torch.equal(rows, expected().bfloat16())
    sent = sum(len(ids) for body in server.asked[1:] for ids in body["input"])
    assert teacher.figures(1)["teacher/megabytes"] == pytest.approx(sent * 128 * 2 / 1e6)


def test_auto_takes_bfloat16_where_it_loses_nothing(server, make):
    assert check(make(server)).format.key == "float32"
    server.always = lambda handler: lambda h: h.bfloat16().float()
    assert check(make(server)).format.key == "bfloat16"


def test_several_servers_share_the_load(make):
    with FakeServer() as a, FakeServer() as b:
        teacher = check(make(a, b))
        for _ in range(4):
            assert_exact(teacher)
        assert min(len(a.asked), len(b.asked)) > 2


# -- faults that pass -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [garbage, cut, html, short_body, no_rows, status(429), status(500), status(503), status(408)],
    ids=["garbage", "cut", "html", "short", "rows", "429", "500", "503", "408"],
)
def test_a_fault_that_passes_costs_only_a_retry(server, make, fault):
    teacher = check(make(server))
    server.faults += [fault, fault]
    assert_exact(teacher)
    assert teacher.figures(1)["teacher/retries"] == 2


def test_retry_after_is_honoured(server, make):
    teacher = check(make(server))
    server.faults += [status(429, retry_after="1")] * 8
    start = time.monotonic()
    assert_exact(teacher)
    assert time.monotonic() - start >= 1


def test_a_drip_counts_as_no_answer(server, make):
    teacher = check(make(server, deadline=3))
    server.faults.append(drip)
    assert_exact(teacher)
    assert teacher.figures(1)["teacher/retries"] == 1


def test_another_server_takes_over(make):
    with FakeServer() as a:
        with FakeServer() as b:
            teacher = check(make(a, b))
        for _ in range(3):
            assert_exact(teacher)


def test_a_server_that_comes_back(make):
    first = FakeServer()
    teacher = check(make(first, deadline=20))
    first.close()
    back = []
    timer = threading.Timer(1.0, lambda: back.append(FakeServer(port=first.port)))
    timer.start()
    assert_exact(teacher)
    timer.join()
    back[0].close()


# -- faults that stay -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (garbage, "no header that says where the rows lie"),
        (short_body, "but the header places rows at"),
        (no_rows, "came back as an array of shape"),
        (html, r"no teacher server answered within 1 s: .*502: '502 Bad Gateway'"),
        (cut, "no teacher server answered within 1 s: .*RemoteProtocolError"),
        (drip, "no teacher server answered within 1 s: .*no whole answer in time"),
        (status(400, "wrong"), "refuses a request: 400: 'wrong'"),
        (narrow, r"not \[\d+, 128\]"),
    ],
)
def test_a_fault_that_stays_is_named(server, make, fault, told):
    teacher = check(make(server, deadline=1))
    server.always = fault
    start = time.monotonic()
    with pytest.raises(TeacherError, match=told) as caught:
        teacher.hidden_rows(BATCH, ROWS)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 5


def test_nan_names_response_and_row(server, make):
    teacher = check(make(server))
    server.always = nan_at(-3)
    with pytest.raises(TeacherError, match=r"NaN or infinity at response 0 of this batch, row 9"):
        teacher.hidden_rows(BATCH, ROWS)


def test_nobody_answers(make):
    with FakeServer() as server:
        teacher = check(make(server, deadline=1))
    with pytest.raises(TeacherError, match=r"no teacher server answered within 1 s: http.*connection refused"):
        teacher.hidden_rows(BATCH, ROWS)


def test_a_conversation_that_is_too_long(server, make):
    teacher = check(make(server))
    long = Conversation(PROMPTS[0], [5] * 300)
    with pytest.raises(TeacherError, match=r"response 1 of this batch has \d+ teacher tokens.*takes 256; start it"):
        teacher.hidden_rows([BATCH[0], long], [ROWS[0], np.arange(300)])


# -- the start --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (narrow, r"hidden states of size 96, the lm_head of .* takes 128"),
        (nan_at(2), "NaN or infinite at token 2 of a prompt"),
        (unit_norm, r"normalises its hidden states to length 1; start it with: vllm serve"),
        (other_weights(0), "server and head do not fit"),
        (garbage, "no header that says where the rows lie"),
        (
            status(400, "Try switching the model's pooling_task"),
            "Try switching .*start it with: vllm serve .*token_embed",
        ),
        (status(400, "Token id 999 is out of vocabulary"), "serves another model"),
    ],
)
def test_a_server_that_will_not_do(server, make, fault, told):
    server.always = fault
    with pytest.raises(TeacherError, match=told) as caught:
        check(make(server))
    assert "\n" not in str(caught.value)


def test_a_server_that_generates(make):
    with (
        FakeServer(pooling=False) as server,
        pytest.raises(TeacherError, match=r"has no /pooling, .*start it with: vllm serve .* --runner pooling"),
    ):
        check(make(server))


def test_which_model(server, make):
    with pytest.raises(TeacherError, match=r"offers no model 'x'; --teacher_server_model may name 'lab/teacher'"):
        check(make(server, served_name="x"))
    check(make(server, served_name=None))  # its root is the checkpoint
    server.models[0]["root"] = "/models/other"
    server.models[0]["id"] = "other"
    with pytest.raises(TeacherError, match=r"offers 'other', not .*/teacher'; if one is the same model, name it"):
        check(make(server, served_name=None))


def test_a_vocabulary_larger_than_the_server_s(server, make):
    with pytest.raises(TeacherError, match=r"Token id 1001 is out of vocabulary.*it serves another model"):
        make(server).check(PROMPTS, 1002, 60)


def test_a_server_that_takes_too_few_tokens(server, make):
    with pytest.raises(
        TeacherError, match=r"takes 256 tokens, .* may have 5\d\d; start it with --max-model-len 5\d\d"
    ):
        check(make(server), response=500)


@pytest.mark.parametrize("answer", [{"data": []}, {"hello": 1}, [1, 2]])
def test_something_else_answers(server, make, answer):
    server.models = answer
    with pytest.raises(TeacherError, match=r"is no vLLM server"):
        check(make(server))


def test_nobody_there(make):
    with pytest.raises(TeacherError, match=r"does not answer \(connection refused\); start it, or mend"):
        check(make("http://127.0.0.1:9"))


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "", "http://"])
def test_no_address(make, url):
    with pytest.raises(ConfigError, match="is no address"):
        make(url)


def test_servers_that_differ(make):
    with FakeServer() as a, FakeServer() as b:
        b.always = changed(1.1)
        with pytest.raises(TeacherError, match="serve different models: the same row is off by 10 %"):
            check(make(a, b))
        b.always = None
        b.models[0]["id"] = "another name"
        with pytest.raises(TeacherError, match="start all with the same --served-model-name"):
            check(make(a, b, served_name=None))


def test_a_known_row_is_compared_when_a_run_goes_on(server, make, tmp_path):
    check(make(server), tmp_path)
    check(make(server), tmp_path)
    server.always = changed(1.01)  # rounding of another batch
    check(make(server), tmp_path)
    server.always = changed(1.2)
    with pytest.raises(TeacherError, match=r"other weights than when this run began: a known row is off by 20 %"):
        check(make(server), tmp_path)
    (tmp_path / "_teacher_row.json").write_text('{"identity": 3')  # damaged: written anew
    check(make(server), tmp_path)


# -- the cache --------------------------------------------------------------------------------------------------


def test_cached_rows_are_not_asked_for_again(server, make, tmp_path):
    first = check(make(server, cache=RowCache(tmp_path, 10**7)))
    rows = first.hidden_rows(BATCH, ROWS)
    again = check(make(server, cache=RowCache(tmp_path, 10**7)))
    server.asked.clear()
    assert torch.equal(again.hidden_rows(BATCH, ROWS), rows)
    assert not server.asked
    assert again.figures(1)["teacher/cached_rows"] == sum(map(len, ROWS))
    again.hidden_rows(BATCH, [r[:1] for r in ROWS])  # other rows are another question
    assert server.asked


def test_damaged_files_of_the_cache_are_ignored(server, make, tmp_path):
    teacher = check(make(server, cache=RowCache(tmp_path, 10**7)))
    teacher.hidden_rows(BATCH, ROWS)
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes([data, data[:50], b""][number])
    assert_exact(teacher)


def test_the_cache_stays_within_its_limit_and_touches_nothing_else(tmp_path):
    (tmp_path / "mine.txt").write_text("x" * 10**5)
    cache = RowCache(tmp_path, 4000)
    for number in range(20):
        cache.put(f"{number:02}", torch.full((2, 100), float(number)))
        cache.trim()
    held = sorted(p.name for p in tmp_path.glob("*.rows"))
    assert held == ["15.rows", "16.rows", "17.rows", "18.rows", "19.rows"][-len(held) :]
    assert sum(p.stat().st_size for p in tmp_path.glob("*.rows")) <= 4000
    assert torch.equal(cache.get("19", 2, 100, torch.float32), torch.full((2, 100), 19.0))
    assert (tmp_path / "mine.txt").stat().st_size == 10**5


def test_a_cache_that_cannot_be_written_costs_only_time(server, make, tmp_path):
    (tmp_path / "file").write_text("")
    teacher = check(make(server, cache=RowCache(tmp_path / "file" / "below", 10**7)))
    assert_exact(teacher)
    assert_exact(teacher)
