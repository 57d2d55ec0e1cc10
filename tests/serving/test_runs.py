"""`escd distill` with a served teacher: the same steps as with a local one, and what becomes of it when that fails."""

import os

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

import escd
from escd import lab
from escd.training.teacher import ROWS

from .fake import FakeServer, nan_at, status
from .runs import distill, figures, local_run, rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return local_run(tmp_path_factory.mktemp("local") / "run")


def served(server, *flags):
    return ["--teacher_server_url", server.url, *flags]


def test_the_same_steps_as_with_a_local_teacher(server, undisturbed, tmp_path):
    assert distill(tmp_path / "run", *served(server)) == 0
    np.testing.assert_allclose(figures(tmp_path / "run"), undisturbed, rtol=1e-3, atol=1e-5)
    row = rows(tmp_path / "run")[0]
    assert row["teacher/megabytes"] > 0.1
    assert row["time/teacher"] >= row["teacher/server_seconds"] > 0
    assert "served by vLLM: hidden states in float32" in (tmp_path / "run" / "README.md").read_text()
    assert not (tmp_path / "run" / ROWS).exists()  # a finished run needs them no more


def test_a_teacher_that_fails_for_good(server, undisturbed, tmp_path, capsys):
    run = tmp_path / "run"
    calls = []

    def dies_in_the_fourth_step(handler):
        calls.append(1)
        return status(503, "EngineCore died")(handler) if len(calls) > 11 else lambda h: h

    server.always = dies_in_the_fourth_step
    assert distill(run, *served(server, "--teacher_server_timeout", "2")) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "503: 'EngineCore died'" in last
    step = len(rows(run)) + 1
    assert step in (3, 4)
    assert f"(step {step}); nothing was learnt from this step; {run / 'checkpoint-2'} is intact: resume with" in last
    server.always = None
    assert distill(run, *served(server, "--resume_from_checkpoint", "true")) == 0
    np.testing.assert_allclose(figures(run), undisturbed, rtol=1e-3, atol=1e-5)


def test_nan_names_response_row_and_step(server, tmp_path, capsys):
    server.faults.append(lambda handler: lambda h: h)  # the start
    server.always = nan_at(-1)
    assert distill(tmp_path / "run", *served(server)) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "NaN or infinity at response 0 of this batch, row " in last
    assert "(step 1); nothing was learnt from this step; no checkpoint was due yet" in last


def test_nothing_is_left_of_a_run_whose_server_is_not_there(tmp_path, capsys):
    assert distill(tmp_path / "run", "--teacher_server_url", "http://127.0.0.1:9") == 2
    assert "does not answer (connection refused)" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_most_likely_tokens_only(tmp_path):
    with FakeServer(pooling=False) as server:
        assert distill(tmp_path / "run", *served(server, "--teacher_top_k", "20", "--max_steps", "1")) == 0
    row = rows(tmp_path / "run")[0]
    assert 0 < row["teacher/truncated_mass"] < 0.1
    assert row["loss"] == pytest.approx(row["root"] + row["child"], rel=1e-5)
    card = (tmp_path / "run" / "README.md").read_text()
    assert "the 20 most likely tokens of a row" in card
    assert "`escd-topk`" in card


def test_a_served_teacher_that_writes(tmp_path, capsys):
    with FakeServer(pooling=False) as server:
        assert distill(tmp_path / "run", *served(server, "--objective", "seqkd", "--max_steps", "1")) == 0
    assert rows(tmp_path / "run")[0]["completions/mean_length"] > 20
    with FakeServer() as server:
        assert distill(tmp_path / "other", *served(server, "--objective", "seqkd", "--max_steps", "1")) == 2
    assert "does not generate, which this objective needs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--teacher_server_url", "localhost"], "is no address"),
        (["--teacher_server_model", "x"], "has no effect without --teacher_server_url"),
        (["--teacher_top_k", "5"], "has no effect without --teacher_server_url"),
        (["--teacher_server_url", "http://x", "--teacher_top_k", "0"], "teacher_top_k=0"),
        (
            ["--teacher_server_url", "http://x", "--teacher_top_k", "5", "--objective", "uld"],
            "needs the teacher's full",
        ),
        (["--objective", "escd-topk"], "needs --teacher_server_url and --teacher_top_k"),
        (["--teacher_server_url", "http://x", "--teacher_top_k", "5", "--completion", "deep"], "completion='deep'"),
        (
            ["--teacher_server_url", "http://x", "--teacher_server_dtype", "fp8"],
            "dtype='fp8' is unknown",
        ),
        (["--teacher_server_url", "http://x", "--teacher_server_timeout", "0"], "teacher_server_timeout=0"),
    ],
)
def test_options_that_cannot_be(flags, told, tmp_path, capsys):
    assert distill(tmp_path / "run", *flags) == 2
    assert told in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "run")


def test_a_model_object_is_no_checkpoint_to_serve(tmp_path):
    args = escd.ESCDConfig(str(tmp_path), teacher_server_url="http://x")
    teacher = AutoModelForCausalLM.from_pretrained(lab.TEACHER_PATH)
    with pytest.raises(escd.ConfigError, match="teacher_model must be the name of its checkpoint"):
        escd.ESCDTrainer(lab.STUDENT_PATH, teacher, args)
