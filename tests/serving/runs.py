"""Short runs of `escd distill` on the embedded pair."""

from escd.cli import main
from escd.metrics_file import read_metrics

STEPS = 4
KEPT = ("loss", "root", "child", "mass", "entropy", "completions/mean_length")


def distill(folder, *flags):
    """Exit code of a run."""
    return main(
        [
            "distill", "--model_name_or_path", "lab/student", "--teacher_model_name_or_path", "lab/teacher",
            "--dataset_name", "lab/math", "--lab_prompts", "64", "--output_dir", str(folder), "--max_steps",
            str(STEPS), "--per_device_train_batch_size", "8", "--max_completion_length", "60", "--learning_rate",
            "1e-4", "--logging_steps", "1", "--save_steps", "2", "--report_to", "none", "--gradient_checkpointing",
            "false", "--disable_tqdm", "true", *flags,
        ]
    )  # fmt: skip


def rows(folder):
    """What each step has logged."""
    return [row for row in read_metrics(folder / "metrics.jsonl") if "loss" in row]


def figures(folder):
    """What two runs of the same steps have in common."""
    return [[row[k] for k in KEPT] for row in rows(folder)]


def local_run(folder):
    """Figures of the run with the teacher in its own process, in single precision as the servers compute."""
    assert distill(folder, "--teacher_model_init_kwargs", '{"dtype": "float32"}') == 0
    return figures(folder)
