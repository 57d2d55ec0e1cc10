"""A plain next-token training loop for the lab's models."""

import math
import random
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .segmentation import IGNORED, Encoded


def collate(samples: list[Encoded], pad: int) -> tuple[Tensor, Tensor]:
    """Ids and labels `[samples, longest]`, padded on the right."""
    longest = max(len(sample.ids) for sample in samples)
    ids = torch.full((len(samples), longest), pad)
    labels = torch.full((len(samples), longest), IGNORED)
    for i, sample in enumerate(samples):
        ids[i, : len(sample.ids)] = torch.tensor(sample.ids)
        labels[i, : len(sample.ids)] = torch.tensor(sample.labels)
    return ids, labels


def bucketed(
    draw: Callable[[], Encoded], batch_size: int, pad: int, rng: random.Random
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of samples of similar length, in random order."""
    while True:
        samples = sorted((draw() for _ in range(8 * batch_size)), key=lambda s: len(s.ids))
        buckets = [samples[i : i + batch_size] for i in range(0, len(samples), batch_size)]
        rng.shuffle(buckets)
        for bucket in buckets:
            yield collate(bucket, pad)


def train(
    model: PreTrainedModel,
    batches: Iterator[tuple[Tensor, Tensor]],
    steps: int,
    learning_rate: float,
    warmup: int = 100,
    log: Callable[[str], None] = print,
) -> None:
    """Muon and AdamW for `steps` batches; linear warm-up over `warmup` steps, then a cosine down to 0.

    Each batch is ids and labels, see `collate`. Padding needs no mask: it stands on the right and no
    label, so causal attention never shows it to a token that is learned. The matrices of the layers
    are trained with Muon, all else with AdamW.
    """
    matrices = [p for p in model.model.layers.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    optimizers = [
        torch.optim.Muon(matrices, lr=learning_rate, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    model.set_attn_implementation("eager")
    model.train()
    start, mean = time.monotonic(), 0.0
    for step in range(steps):
        progress = max(0, step - warmup) / max(1, steps - warmup)
        scale = min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * progress))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * scale
        ids, labels = next(batches)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
            targets = labels[:, 1:]
            learned = targets != IGNORED
            logits = model.lm_head(hidden[learned])
        loss = nn.functional.cross_entropy(logits.float(), targets[learned])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        mean += loss.item()
        if (step + 1) % 100 == 0:
            log(f"step {step + 1}/{steps} loss {mean / 100:.4f} {time.monotonic() - start:.0f}s")
            mean = 0.0
    model.eval()
    model.set_attn_implementation("sdpa")
