"""A plain next-token training loop for the lab's models."""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from escd.lab.segmentation import IGNORED, Encoded


def collate(samples: list[Encoded], pad: int) -> tuple[Tensor, Tensor]:
    """Ids and labels `[samples, longest]`, padded on the right."""
    longest = max(len(sample.ids) for sample in samples)
    ids = torch.full((len(samples), longest), pad)
    labels = torch.full((len(samples), longest), IGNORED)
    for i, sample in enumerate(samples):
        ids[i, : len(sample.ids)] = torch.tensor(sample.ids)
        labels[i, : len(sample.ids)] = torch.tensor(sample.labels)
    return ids, labels


def train(
    model: PreTrainedModel,
    batch: Callable[[int], tuple[Tensor, Tensor]],
    steps: int,
    learning_rate: float,
    warmup: int = 100,
    log: Callable[[str], None] = print,
) -> None:
    """AdamW for `steps` batches; linear warm-up over `warmup` steps, then a cosine down to 0.

    `batch(step)` returns ids and labels. Padding needs no mask: it stands on the right and no
    label, so causal attention never shows it to a token that is learned.
    """
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98), fused=True)
    model.train()
    start, mean = time.monotonic(), 0.0
    for step in range(steps):
        progress = max(0, step - warmup) / max(1, steps - warmup)
        scale = min(1.0, (step + 1) / warmup) * 0.5 * (1 + math.cos(math.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * scale
        ids, labels = batch(step)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model.model(ids, use_cache=False).last_hidden_state[:, :-1]
            targets = labels[:, 1:]
            learned = targets != IGNORED
            logits = model.lm_head(hidden[learned])
        loss = nn.functional.cross_entropy(logits.float(), targets[learned])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean += loss.item()
        if (step + 1) % 100 == 0:
            log(f"step {step + 1}/{steps} loss {mean / 100:.4f} {time.monotonic() - start:.0f}s")
            mean = 0.0
    model.eval()
