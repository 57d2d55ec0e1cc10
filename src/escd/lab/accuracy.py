"""Accuracy of a model on lab problems."""

from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from .grading import grade
from .problems import Problem


@torch.inference_mode()
def responses(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    asked: list[Problem],
    samples: int | None = None,
    max_new_tokens: int = 80,
    batch_size: int = 256,
) -> list[list[str]]:
    """Responses to each problem: one greedy one, or `samples` of them at temperature 1."""
    options: dict[str, Any] = {"do_sample": False}
    if samples is not None:
        options = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0}
    n = samples or 1
    texts = [
        str(tokenizer.apply_chat_template(p.prompt, add_generation_prompt=True, tokenize=False))
        for p in asked
        for _ in range(n)
    ]
    generate: Any = model.generate  # of a mixin that PreTrainedModel does not declare
    found: list[str] = []
    for start in range(0, len(texts), batch_size):
        inputs = tokenizer(
            texts[start : start + batch_size],
            return_tensors="pt",
            padding=True,
            add_special_tokens=False,
        )
        ids = generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=max_new_tokens,
            **options,
        )
        new = ids[:, inputs["input_ids"].shape[1] :]
        found += tokenizer.batch_decode(new, skip_special_tokens=True)
    return [found[i : i + n] for i in range(0, len(found), n)]


def accuracy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    asked: list[Problem],
    samples: int | None = None,
) -> float:
    """Share of right responses: greedy, or the mean over `samples` at temperature 1."""
    answered = responses(model, tokenizer, asked, samples)
    right = [grade(text, problem.answer) for problem, texts in zip(asked, answered, strict=True) for text in texts]
    return sum(right) / len(right)
