"""Responses of a model in this process, several to a prompt.

The random numbers of a response belong to its prompt and sample number alone, whatever is sampled beside or before it:
a run that is broken off and continued gives the responses of one that was not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation.logits_process import (
    LogitsProcessor,
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from ..chat import Prompt, render_prompt
from ..errors import ConfigError, StudentError
from ..families import stop_ids
from ..families.thoughts import is_thought
from ..teachers.local import left_padded


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn.

    Attributes:
        samples: Responses to each prompt.
        temperature: 0 for greedy decoding.
        top_p: Smallest set of tokens with this probability; 1 for all.
        top_k: Number of likeliest tokens; 0 for all.
        max_new_tokens: Length limit of a response.
        seed: Of the random numbers.

    Raises:
        ConfigError: A number out of its range.
    """

    samples: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 512
    seed: int = 0

    def __post_init__(self):
        for name, fine, meaning in (
            ("samples", self.samples >= 1, "at least 1"),
            ("temperature", 0 <= self.temperature < float("inf"), "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("top_k", self.top_k >= 0, "at least 0 (0: all tokens)"),
            ("max_new_tokens", self.max_new_tokens >= 1, "at least 1"),
            ("seed", self.seed >= 0, "at least 0"),
        ):
            if not fine:
                raise ConfigError(f"{name}={getattr(self, name)} must be {meaning}")
        if self.temperature == 0 and self.samples > 1:
            raise ConfigError(
                f"samples={self.samples} at temperature=0 would be {self.samples} times the same response; set "
                "samples to 1 or raise the temperature"
            )


@dataclass(frozen=True)
class Sample:
    """One response: its text without special tokens other than thought markers, its ids with the stop, and whether the
    model stopped by itself."""

    text: str
    ids: list[int]
    finished: bool

    @property
    def tokens(self) -> int:
        """Its length."""
        return len(self.ids)


Key = tuple[int, int]
"""Number of the prompt, number of the sample."""


def sample(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], samples: int = 1, *, batch_size: int = 256, **how: Any
) -> list[list[Sample]]:
    """For each prompt its samples.

    Args:
        model: A causal LM.
        tokenizer: Its tokenizer.
        prompts: Text or messages.
        samples: Responses to each prompt.
        batch_size: Responses generated at once.
        **how: Other fields of `Sampling`.
    """
    rows, sampling = [render_prompt(tokenizer, p) for p in prompts], Sampling(samples, **how)
    found = {}
    for batch in sample_batches(model, tokenizer, rows, sampling, batch_size=batch_size):
        found.update(batch)
    return [[found[i, k] for k in range(samples)] for i in range(len(rows))]


@torch.inference_mode()
def sample_batches(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[list[int]],
    sampling: Sampling,
    *,
    batch_size: int,
    skip: Collection[Key] = (),
) -> Iterator[dict[Key, Sample]]:
    """Responses batch by batch, the longest prompts first. The model is in evaluation mode while a batch is drawn.

    Args:
        model: A causal LM.
        tokenizer: Its tokenizer.
        prompts: Ids of each prompt; one without any is not asked.
        sampling: How to draw.
        batch_size: Responses generated at once.
        skip: What is known already: a batch of which all is known is left out. Batches do not depend on it, so the
            others are what they would have been.

    Raises:
        StudentError: The model's logits are NaN or infinite.
    """
    stops, _ = stop_ids(tokenizer, model.generation_config)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else stops[0]
    # Whatever the model's own generation config asks for must not change the distribution that is measured.
    config = GenerationConfig(
        max_new_tokens=sampling.max_new_tokens, eos_token_id=stops, pad_token_id=pad, disable_compile=True,
        do_sample=False, num_beams=1, temperature=1.0, top_k=50, top_p=1.0, typical_p=1.0, epsilon_cutoff=0.0,
        eta_cutoff=0.0, repetition_penalty=1.0, no_repeat_ngram_size=0, min_length=0,
    )  # fmt: skip
    keys = [(i, k) for i in range(len(prompts)) if prompts[i] for k in range(sampling.samples)]
    # Prompts of one length together: less padding. The longest first: if memory does not suffice, that shows at once.
    keys.sort(key=lambda key: -len(prompts[key[0]]))
    for start in range(0, len(keys), batch_size):
        batch = keys[start : start + batch_size]
        if all(key in skip for key in batch):
            continue
        was_training = model.training
        model.eval()
        try:
            found = _generate(model, [prompts[i] for i, _ in batch], batch, config, sampling, len(tokenizer))
        finally:
            model.train(was_training)
        yield {key: _sample(tokenizer, ids, stops) for key, ids in zip(batch, found, strict=True)}


def _generate(
    model: Any, rows: list[list[int]], keys: list[Key], config: GenerationConfig, sampling: Sampling, vocabulary: int
) -> list[list[int]]:
    ids, mask = left_padded(rows, config.pad_token_id, model.device)
    length = ids.shape[1]
    processors: list[LogitsProcessor] = [_RealTokens(vocabulary)]
    if sampling.temperature:
        processors += [TemperatureLogitsWarper(float(sampling.temperature))]
        processors += [TopKLogitsWarper(sampling.top_k)] if sampling.top_k else []
        processors += [TopPLogitsWarper(sampling.top_p)] if sampling.top_p < 1 else []
        processors += [_Draw(keys, sampling, length)]
    out = model.generate(
        input_ids=ids, attention_mask=mask, generation_config=config, logits_processor=LogitsProcessorList(processors)
    )
    return out[:, length:].tolist()


def _sample(tokenizer: Any, ids: list[int], stops: list[int]) -> Sample:
    ends = [k for k, token in enumerate(ids) if token in stops]
    kept = ids[: ends[0] + 1] if ends else ids
    # Some tokenizers flag `</think>` as special, but what is an answer depends on it.
    hidden = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special and not is_thought(t.content)}
    text = tokenizer.decode([i for i in (kept[: ends[0]] if ends else kept) if i not in hidden])
    return Sample(text, kept, bool(ends))


class _RealTokens(LogitsProcessor):
    """Rows of a padded head are no tokens: sampling one would end in an id that nothing can spell."""

    def __init__(self, vocabulary: int):
        self.vocabulary = vocabulary

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # type: ignore[override]
        scores = scores[:, : self.vocabulary]
        if not bool(scores.isfinite().all()):
            raise StudentError("the model's logits are NaN or infinite; check its weights and --dtype")
        return scores


class _Draw(LogitsProcessor):
    """Draws the next token by one random number per row and step, and leaves it as the only possible one.

    `generate` itself draws from one generator for the whole batch, so what a row gets would depend on its neighbours.
    """

    def __init__(self, keys: list[Key], sampling: Sampling, start: int):
        # [rows, max_new_tokens], in [0, 1)
        self.numbers = torch.from_numpy(
            np.stack([np.random.default_rng([sampling.seed, *key]).random(sampling.max_new_tokens) for key in keys])
        )
        self.start = start

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # type: ignore[override]
        numbers = self.numbers[:, input_ids.shape[1] - self.start, None].to(scores.device)
        upto = scores.double().softmax(-1).cumsum(-1)
        # The first token whose cumulative probability is beyond the number: never one of probability 0.
        token = torch.searchsorted(upto, numbers * upto[:, -1:], right=True)
        return torch.full_like(scores, -torch.inf).scatter(1, token, 0.0)
