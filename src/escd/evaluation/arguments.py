"""Flags of `escd eval`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..flags import find_file, read_flags
from .sampling import Sampling
from .tasks import task_names


@dataclass
class EvalArguments:
    """What to evaluate, on what and how.

    Args:
        model_name_or_path: The model: a path, a hub id, a folder of PEFT adapters, `lab/teacher` or `lab/student`.
        tasks: Names of built-in tasks, or paths of YAML files that describe tasks; `lab` for all of the lab.
        samples: Samples per problem.
        temperature, top_p, top_k: As in generation; temperature 0 is greedy, top_p 1 and top_k 0 are off.
        max_new_tokens: Length limit of a response; by default the task's.
        limit: Number of problems of each task, the first ones; by default all, 200 in the lab.
        seed: Of the sampling, of the problems of the lab and of the order of choices.
        batch_size: Responses generated at once.
        output_dir: Folder of samples and results; an evaluation that is there is continued.
        overwrite: Whether to replace what is there instead.
        dataset_path: Local file with the columns of the task's dataset, to read instead of it.
        dtype: Precision of the weights.
        model_revision, attn_implementation, trust_remote_code: As in `from_pretrained`.
        chat_template_kwargs: Keyword arguments for the chat template.
        torch_threads: CPU threads. Models of under some ten million parameters run fastest with 1.

    Raises:
        ConfigError: A number out of its range.
    """

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "Path, hub id, folder of PEFT adapters, `lab/teacher` or `lab/student`."}
    )
    tasks: list[str] | None = field(
        default=None, metadata={"help": f"Tasks: {', '.join(['lab', *task_names()])}, or paths of YAML files."}
    )
    samples: int = field(default=4, metadata={"help": "Samples per problem."})
    temperature: float = field(default=1.0, metadata={"help": "Temperature; 0 is greedy."})
    top_p: float = field(default=1.0, metadata={"help": "Smallest set of tokens with this probability; 1 is off."})
    top_k: int = field(default=0, metadata={"help": "Number of likeliest tokens; 0 is off."})
    max_new_tokens: int | None = field(
        default=None, metadata={"help": "Length limit of a response. Default: the task's."}
    )
    limit: int | None = field(default=None, metadata={"help": "Number of problems. Default: all, 200 in the lab."})
    seed: int = field(default=0, metadata={"help": "Of sampling, problems of the lab and order of choices."})
    batch_size: int = field(default=64, metadata={"help": "Responses generated at once."})
    output_dir: str | None = field(
        default=None,
        metadata={"help": "Folder of samples and results. Default: runs/eval/MODEL. What is there is continued."},
    )
    overwrite: bool = field(default=False, metadata={"help": "Replace what is in the folder instead."})
    dataset_path: str | None = field(
        default=None, metadata={"help": "Local file with the columns of the task's dataset, to read instead of it."}
    )
    dtype: str = field(
        default="auto",
        metadata={"help": "Precision of the weights.", "choices": ["auto", "bfloat16", "float16", "float32"]},
    )
    model_revision: str | None = field(default=None, metadata={"help": "Branch, tag or commit of a hub model."})
    attn_implementation: str | None = field(default=None, metadata={"help": "Implementation of attention."})
    trust_remote_code: bool = field(default=False, metadata={"help": "Whether code of a hub model may run."})
    chat_template_kwargs: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Keyword arguments for the chat template, e.g. '{\"enable_thinking\": false}'."},
    )
    torch_threads: int | None = field(
        default=None, metadata={"help": "CPU threads; 1 is best for models of a few million weights."}
    )

    def __post_init__(self):
        Sampling(
            self.samples, self.temperature, self.top_p, self.top_k,
            1 if self.max_new_tokens is None else self.max_new_tokens, self.seed,
        )  # fmt: skip
        for name in ("limit", "batch_size", "torch_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value} must be at least 1")
        if isinstance(self.tasks, str):
            self.tasks = [self.tasks]


def parse(argv: Sequence[str]) -> EvalArguments:
    """Read flags and the YAML file of `--config`.

    Raises:
        ConfigError: Unknown flag or key, a value of the wrong kind, an unreadable file, no model or no task.
    """
    (arguments,) = read_flags([EvalArguments], argv, "escd eval", find_file, ["chat_template_kwargs"]).values
    needed = {
        "--model_name_or_path": (arguments.model_name_or_path, "a path or hub id"),
        "--tasks": (arguments.tasks, f"one or more of {', '.join(['lab', *task_names()])}, or a YAML file"),
    }
    for flag, (value, meaning) in needed.items():
        if not value:
            raise ConfigError(f"{flag} is missing; give {meaning}")
    return arguments
