"""Responses of a model in this process, several to a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import GenerationConfig

from ..chat import Prompt, render_prompt
from ..families import stop_ids


@dataclass(frozen=True)
class Sample:
    """One response: its text without special tokens, its length in tokens, and whether the model stopped by itself."""

    text: str
    tokens: int
    finished: bool


@torch.inference_mode()
def sample(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    samples: int = 1,
    *,
    temperature: float = 1.0,
    max_new_tokens: int = 512,
    batch_size: int = 256,
    seed: int = 0,
    description: str | None = None,
) -> list[list[Sample]]:
    """Sample responses, leaving the state of torch's generators as it was.

    Args:
        model: A causal LM.
        tokenizer: Its tokenizer.
        prompts: Text or messages.
        samples: Responses to each prompt.
        temperature: 0 for greedy decoding.
        max_new_tokens: Length limit of a response.
        batch_size: Responses generated at once.
        seed: Of the sampling.
        description: Title of the progress bar; no bar without one.

    Returns:
        For each prompt its samples.
    """
    stops, _ = stop_ids(tokenizer, model.generation_config)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else stops[0]
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0} if temperature else {}
    config = GenerationConfig(
        max_new_tokens=max_new_tokens, eos_token_id=stops, pad_token_id=pad, disable_compile=True, **sampling
    )
    rows = [ids for ids in (render_prompt(tokenizer, p) for p in prompts) for _ in range(samples)]
    # Prompts of one length together: less padding.
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    found: list[Sample | None] = [None] * len(rows)
    was_training = model.training
    model.eval()
    bar = tqdm(total=len(rows), desc=description, disable=description is None, unit="response")
    with torch.random.fork_rng(), bar:
        torch.manual_seed(seed)
        for start in range(0, len(rows), batch_size):
            part = order[start : start + batch_size]
            for i, ids in zip(part, _generate(model, [rows[i] for i in part], pad, config), strict=True):
                ends = [k for k, token in enumerate(ids) if token in stops]
                kept = ids[: ends[0] + 1] if ends else ids
                text = tokenizer.decode(kept[: ends[0]] if ends else kept, skip_special_tokens=True)
                found[i] = Sample(text, len(kept), bool(ends))
            bar.update(len(part))
    model.train(was_training)
    whole = [s for s in found if s is not None]
    return [whole[i : i + samples] for i in range(0, len(whole), samples)]


def _generate(model: Any, rows: list[list[int]], pad: int, config: GenerationConfig) -> list[list[int]]:
    length = max(len(ids) for ids in rows)
    ids = torch.tensor([[pad] * (length - len(r)) + r for r in rows], device=model.device)
    mask = torch.tensor([[0] * (length - len(r)) + [1] * len(r) for r in rows], device=model.device)
    out = model.generate(input_ids=ids, attention_mask=mask, generation_config=config)
    return out[:, length:].tolist()
