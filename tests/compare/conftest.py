"""A recipe of two arms and two seeds in an empty folder."""

from pathlib import Path

import pytest
import yaml

RECIPE = {
    "model_name_or_path": "lab/student", "teacher_model_name_or_path": "lab/teacher", "dataset_name": "lab",
    "lab_prompts": 64, "eval_task": "lab", "eval_problems": 8, "eval_samples": 2, "max_steps": 3,
    "per_device_train_batch_size": 4, "max_completion_length": 40, "learning_rate": 1e-3,
    "gradient_checkpointing": False, "attn_implementation": "eager", "torch_threads": 1, "logging_steps": 1,
    "save_steps": 1, "save_total_limit": 1, "report_to": "none",
    "arms": {"escd": {"completion": "set"}, "escd-none": {"completion": "none"}}, "seeds": [1, 2],
    "reference": "escd", "output_dir": "out", "processes": 2,
}  # fmt: skip


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Writes the recipe, with changes, into the folder that the test then works in; None leaves a key out."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def write(**changes) -> str:
        content = {k: v for k, v in {**RECIPE, **changes}.items() if v is not None}
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return str(path)

    write.work = work
    return write


@pytest.fixture
def fake(monkeypatch):
    """Runs are those of fake_run.py."""
    monkeypatch.setattr("escd.compare.processes._ENTRY", (str(Path(__file__).parent / "fake_run.py"),))
    monkeypatch.setattr("escd.compare.processes._POLL", 0.02)
