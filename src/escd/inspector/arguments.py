"""Flags of `escd inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigError
from ..evaluation.sampling import Sampling
from ..flags import find_file, read_flags
from ..objectives.completion import COMPLETIONS


@dataclass
class InspectArguments:
    """Which pair, which responses, and where the page goes. Model flags are named as in `escd distill`.

    Args:
        model_name_or_path, teacher_model_name_or_path: Student and teacher: paths, hub ids, `lab/student`,
            `lab/teacher`. The student may be a folder of PEFT adapters.
        teacher_tokenizer_name_or_path: Tokenizer of the teacher, if it does not lie with its weights.
        text: Files with responses, `-` for standard input. A `.jsonl` file holds one a line: `response` (or
            `completion`), and, if it has them, `prompt` (text or messages) and `finished` (false: cut, no stop). Any
            other file is one response, byte by byte, without a prompt. Probabilities need a prompt.
        dataset_name, dataset_config, dataset_train_split: Prompts that the student answers, as in `escd distill`.
        num_responses: Number of responses, the first ones.
        no_models: Load the tokenizers only.
        temperature, top_p, top_k, max_new_tokens, seed: Of the student's answers; temperature 0 is greedy.
        completion, completion_weight, child_weight, mask_whitespace_roots: Of the objective `escd`.
        output_file: The page.
        dtype: Precision of the weights.
        model_revision, teacher_model_revision, attn_implementation, trust_remote_code: As in `from_pretrained`.
        chat_template_kwargs, teacher_chat_template_kwargs: Keyword arguments for the chat templates.
        torch_threads: CPU threads. Models of under some ten million parameters run fastest with 1.

    Raises:
        ConfigError: A number out of its range, or flags that exclude each other.
    """

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "The student: path, hub id, folder of PEFT adapters, `lab/student`."}
    )
    teacher_model_name_or_path: str | None = field(
        default=None, metadata={"help": "The teacher: path, hub id, `lab/teacher`."}
    )
    teacher_tokenizer_name_or_path: str | None = field(
        default=None, metadata={"help": "Tokenizer of the teacher, if it does not lie with the teacher's weights."}
    )
    text: list[str] | None = field(
        default=None,
        metadata={
            "help": "Files with responses, `-` for standard input. .jsonl: one a line (`response`, and if there "
            "`prompt`, `finished`); else the whole file is one. Probabilities need prompts."
        },
    )
    dataset_name: str | None = field(
        default=None,
        metadata={"help": "Prompts that the student answers: hub id, JSONL, JSON or Parquet file, `lab/math`..."},
    )
    dataset_config: str | None = field(default=None, metadata={"help": "Configuration of a hub dataset."})
    dataset_train_split: str = field(default="train", metadata={"help": "Split of a hub dataset."})
    num_responses: int = field(default=4, metadata={"help": "Number of responses, the first ones."})
    no_models: bool = field(default=False, metadata={"help": "Load the tokenizers only: no probabilities."})
    temperature: float = field(default=1.0, metadata={"help": "Temperature of the student's answers; 0 is greedy."})
    top_p: float = field(default=1.0, metadata={"help": "Smallest set of tokens with this probability; 1 is off."})
    top_k: int = field(default=0, metadata={"help": "Number of likeliest tokens; 0 is off."})
    max_new_tokens: int = field(default=256, metadata={"help": "Length limit of the student's answers."})
    seed: int = field(default=0, metadata={"help": "Of the answers, and of the problems of the lab."})
    completion: str = field(
        default="set",
        metadata={"help": f"Which student tokens complete a teacher token: {', '.join(COMPLETIONS)}."},
    )
    completion_weight: str = field(
        default="mass", metadata={"help": "What a completion set is weighted by: mass (the paper's) or posterior."}
    )
    child_weight: float = field(default=1.0, metadata={"help": "Weight of the child loss (paper eq. 10)."})
    mask_whitespace_roots: bool = field(
        default=True,
        metadata={"help": "Whether rows whose sampled token is only spaces or tabs carry no root loss."},
    )
    output_file: str = field(default="inspect.html", metadata={"help": "The page; one that is there is replaced."})
    dtype: str = field(
        default="auto",
        metadata={"help": "Precision of the weights.", "choices": ["auto", "bfloat16", "float16", "float32"]},
    )
    model_revision: str | None = field(default=None, metadata={"help": "Branch, tag or commit of the student."})
    teacher_model_revision: str | None = field(default=None, metadata={"help": "The same of the teacher."})
    attn_implementation: str | None = field(default=None, metadata={"help": "Implementation of attention."})
    trust_remote_code: bool = field(default=False, metadata={"help": "Whether code of a hub model may run."})
    chat_template_kwargs: dict[str, Any] | str | None = field(
        default=None,
        metadata={"help": "Keyword arguments for the chat template, e.g. '{\"enable_thinking\": false}'."},
    )
    teacher_chat_template_kwargs: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "The same for the teacher's template."}
    )
    torch_threads: int | None = field(
        default=None, metadata={"help": "CPU threads; 1 is best for models of a few million weights."}
    )

    def __post_init__(self):
        self.sampling = Sampling(1, self.temperature, self.top_p, self.top_k, self.max_new_tokens, self.seed)
        for name in ("num_responses", "torch_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value} must be at least 1")
        if isinstance(self.text, str):
            self.text = [self.text]

    def options(self) -> dict[str, Any]:
        """Of the objective."""
        names = ("completion", "completion_weight", "child_weight", "mask_whitespace_roots")
        return {name: getattr(self, name) for name in names}


def parse(argv: Sequence[str]) -> InspectArguments:
    """Read flags and the YAML file of `--config`.

    Raises:
        ConfigError: Unknown flag or key, a value of the wrong kind, an unreadable file, a model that is missing, not
            exactly one source of responses.
    """
    dict_fields = ["chat_template_kwargs", "teacher_chat_template_kwargs"]
    (arguments,) = read_flags([InspectArguments], argv, "escd inspect", find_file, dict_fields).values
    for flag, who in (("model_name_or_path", "student"), ("teacher_model_name_or_path", "teacher")):
        if not getattr(arguments, flag):
            raise ConfigError(f"--{flag} is missing; give the {who}: a path or hub id, or lab/{who}")
    if bool(arguments.text) == bool(arguments.dataset_name):
        raise ConfigError(
            "give either --text (files with responses, - for standard input) or --dataset_name (prompts that the "
            "student answers)"
        )
    if arguments.dataset_name and arguments.no_models:
        raise ConfigError("--no_models leaves no model to answer the prompts of --dataset_name; give --text instead")
    return arguments
