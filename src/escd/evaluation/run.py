"""Evaluation of a model on a task: sample, grade, write, score; whatever is on disk already is not done again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from logging import getLogger
from pathlib import Path
from typing import Any

import torch
from tqdm.auto import tqdm

from ..chat import Prompt, render
from ..errors import ConfigError
from .graders import grade
from .rows import Row, RowFile
from .sampling import Key, Sample, Sampling, sample_batches
from .scores import Scores, scores
from .tasks import Question, Task
from .verdict import Verdict

logger = getLogger(__name__)


def evaluate(
    model: Any,
    tokenizer: Any,
    task: Task,
    path: str | os.PathLike[str],
    *,
    samples: int = 4,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_new_tokens: int | None = None,
    batch_size: int = 64,
    seed: int = 0,
    description: str | None = None,
    keep: bool = True,
    chat_template_kwargs: Mapping[str, Any] | None = None,
) -> Scores:
    """Sample a model on the problems of a task and grade what it says.

    An evaluation that was broken off is continued: complete rows of the file are kept, and the others become what they
    would have been (to the bit with the same batch size on the same device).

    Args:
        model: A causal LM.
        tokenizer: Its tokenizer. Prompts go through its chat template; without one they are plain text.
        task: Its problems and grader.
        path: JSONL file of the rows, one per sample: `problem`, `sample`, `prompt`, `response`, `answer`, `correct`,
            `reason`, `tokens`, `finished`. Beside it lies `<name>.settings.json`, what they were sampled with.
        samples: Samples per problem.
        temperature, top_p, top_k: As in generation; temperature 0 is greedy, top_p 1 and top_k 0 are off.
        max_new_tokens: Length limit of a response; by default the task's.
        batch_size: Responses generated at once.
        seed: Of the sampling.
        description: Title of the progress bar; no bar without one.
        keep: Whether to continue what is in the file; otherwise it is replaced.
        chat_template_kwargs: For the chat template, e.g. `{"enable_thinking": False}`.

    Raises:
        ConfigError: The file holds samples with other settings, or cannot be written; a number out of its range;
            no prompt that fits into the model's context; not enough memory for a batch.
        StudentError: The model's logits are NaN or infinite.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size} must be at least 1")
    rendered = [render(tokenizer, _prompt(tokenizer, q), dict(chat_template_kwargs or {})) for q in task.questions]
    prompts = [r.ids() for r in rendered]
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    length = _fitting(context, task, prompts, max_new_tokens or task.max_new_tokens)
    sampling = Sampling(samples, temperature, top_p, top_k, length, seed)
    settings = {
        "task": task.name, "problems": len(prompts), "content": task.content, "model": name_of(model),
        "weights": fingerprint(model), "dtype": str(model.dtype).removeprefix("torch."),
        "prompts": _hash(repr(prompts).encode()), **vars(sampling),
    }  # fmt: skip
    file = RowFile(Path(path), settings, keep)
    order = [(question.id, k) for question in task.questions for k in range(samples)]
    if unknown := sorted(set(file.rows) - set(order), key=str):
        raise ConfigError(f"{file.path} holds a sample that is none of this evaluation: {unknown[0]}")
    numbers = {question.id: i for i, question in enumerate(task.questions)}
    known = {(numbers[problem], k) for problem, k in file.rows}
    unasked = [i for i, prompt in enumerate(prompts) if context and len(prompt) >= context]
    new = [(i, k) for i in unasked for k in range(samples) if (i, k) not in known]
    if new:
        told = {i: f"the prompt has {len(prompts[i])} tokens, the model's context only {context}" for i in unasked}
        file.append([_unasked(task, key, told[key[0]]) for key in new])
        known.update(new)
    asked = [[] if i in unasked else prompt for i, prompt in enumerate(prompts)]
    right = sum(row["correct"] for row in file.rows.values())
    bar = tqdm(total=len(order), initial=len(known), desc=description, disable=description is None, unit="response")
    # Grading waits for processes of its own.
    with bar, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        try:
            batches = sample_batches(model, tokenizer, asked, sampling, batch_size=batch_size, skip=known)
            for batch in batches:
                new = [(key, sample) for key, sample in batch.items() if key not in known]
                rows = list(pool.map(lambda item: _row(task, item[0], item[1], rendered[item[0][0]].prefill), new))
                file.append(rows)
                right += sum(row["correct"] for row in rows)
                bar.update(len(rows))
                bar.set_postfix_str(f"{right / len(file.rows):.1%} right")
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                f"out of memory with {batch_size} responses at once; lower the batch size (or max_new_tokens)"
            ) from error
    rows = file.finish(order)
    return scores([[row["correct"] for row in rows[i : i + samples]] for i in range(0, len(rows), samples)])


def _row(task: Task, key: Key, sample: Sample, prefill: str) -> Row:
    # A thought that the template has opened and the response never ends holds no answer.
    verdict = grade(task.grader, prefill + sample.text, task.questions[key[0]].record)
    return _written(task, key, sample, verdict)


def _unasked(task: Task, key: Key, reason: str) -> Row:
    """A row of a problem that the model can't be asked: wrong."""
    return _written(task, key, Sample("", [], False), Verdict(False, reason))


def _written(task: Task, key: Key, sample: Sample, verdict: Verdict) -> Row:
    question = task.questions[key[0]]
    return {
        "problem": question.id, "sample": key[1], "prompt": question.text, "response": sample.text,
        "answer": question.answer, "correct": verdict.correct, "reason": verdict.reason, "tokens": sample.tokens,
        "finished": sample.finished,
    }  # fmt: skip


def _prompt(tokenizer: Any, question: Question) -> Prompt:
    return question.prompt if getattr(tokenizer, "chat_template", None) else question.text


def _fitting(context: int | None, task: Task, prompts: list[list[int]], wanted: int) -> int:
    """The length limit of responses: what was wanted, or what the longest prompt that fits leaves of the context."""
    fitting = [len(prompt) for prompt in prompts if not context or len(prompt) < context]
    if not fitting:
        raise ConfigError(
            f"task {task.name!r}: the shortest prompt has {min(map(len, prompts))} tokens, the model's context only "
            f"{context}"
        )
    if not context or max(fitting) + wanted <= context:
        return wanted
    left = context - max(fitting)
    logger.warning("%s: responses end at %d tokens instead of %d: the model's context is %d tokens",
                   task.name, left, wanted, context)  # fmt: skip
    return left


def name_of(model: Any) -> str:
    """Path or hub id that a model was loaded from, "" if it was not."""
    return str(getattr(model.config, "_name_or_path", "") or "")


@torch.no_grad()
def fingerprint(model: Any) -> str:
    """A hash of some weights of every parameter: two checkpoints of one run differ in it, two copies of one do not."""
    taken = []
    for name, weights in sorted(model.named_parameters()):
        flat = weights.detach().flatten()
        some = flat[:: max(1, len(flat) // 64)][:64]
        taken.append(name.encode() + some.float().cpu().numpy().tobytes())
    return _hash(b"".join(taken))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
