"""Hidden states of a Hugging Face causal LM in this process, and the head that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import GenerationConfig

from ..errors import ConfigError
from ..objectives.tiles import Head
from .base import Conversation, GenerationArguments, Teacher


class LocalTeacher(Teacher):
    """A causal LM held in this process.

    Args:
        model: The model, as the accelerator wrapped it.
        unwrapped: The same model without its wrapper.
        name: How errors name it.
        run: Calls a function of the unwrapped model through the wrapper, so that sharded weights are there.
    """

    rows = "in the trainer's process"

    def __init__(self, model: Any, unwrapped: Any, name: str, run: Callable[..., Any]):
        self.model, self.unwrapped, self.name, self._run = model, unwrapped, name, run

    @torch.no_grad()
    def hidden_rows(self, conversations: Sequence[Conversation], rows: Sequence[np.ndarray]) -> Tensor:
        """See `Teacher.hidden_rows`."""
        self.model.eval()
        hidden, starts = self._run(self.model, self.unwrapped, last_hidden, self.unwrapped, conversations)
        flat = np.concatenate([r + s for r, s in zip(rows, starts, strict=True)])
        return hidden.reshape(-1, hidden.shape[-1])[torch.from_numpy(flat).to(hidden.device)]

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[list[int]], stops: Sequence[int], args: GenerationArguments
    ) -> list[list[int]]:
        """See `Teacher.generate`."""
        self.model.eval()
        config = GenerationConfig(
            max_new_tokens=args.max_completion_length, do_sample=True, temperature=args.temperature, top_p=args.top_p,
            top_k=args.top_k, eos_token_id=list(stops), pad_token_id=stops[0], disable_compile=True,
        )  # fmt: skip
        ids, mask = left_padded(prompts, stops[0], self.unwrapped.get_input_embeddings().weight.device)
        found = self._run(
            self.model, self.unwrapped, self.unwrapped.generate, input_ids=ids, attention_mask=mask,
            generation_config=config,
        )[:, ids.shape[1] :].tolist()  # fmt: skip
        ends = [next((k + 1 for k, token in enumerate(row) if token in stops), len(row)) for row in found]
        return [row[:end] for row, end in zip(found, ends, strict=True)]

    def head(self) -> Head:
        """See `Teacher.head`."""
        return head_of(self.unwrapped)


def left_padded(prompts: Sequence[list[int]], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and attention mask [B, L] of prompts that a model is to continue."""
    length = max(len(ids) for ids in prompts)
    ids = torch.tensor([[pad] * (length - len(p)) + p for p in prompts], device=device)
    mask = torch.tensor([[0] * (length - len(p)) + [1] * len(p) for p in prompts], device=device)
    return ids, mask


def last_hidden(model: Any, conversations: Sequence[Conversation]) -> tuple[Tensor, list[int]]:
    """Last hidden states of a batch, padded on the right, and where each response's row 0 lies.

    Args:
        model: An unwrapped causal LM, with or without PEFT adapters.
        conversations: A batch of B; every prompt has at least one token.

    Returns:
        [B, L, H], and for each conversation the flat position in [B * L] of the row that predicts `response[0]`.
    """
    causal_lm = model.base_model.model if hasattr(model, "peft_config") else model
    sequences = [[*c.prompt, *c.response] for c in conversations]
    length = max(len(s) for s in sequences)
    ids = torch.zeros(len(sequences), length, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, s in enumerate(sequences):
        ids[i, : len(s)] = torch.tensor(s)
        mask[i, : len(s)] = 1
    device = causal_lm.get_input_embeddings().weight.device
    out = causal_lm.base_model(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)
    starts = [i * length + len(c.prompt) - 1 for i, c in enumerate(conversations)]
    return out.last_hidden_state, starts


def head_of(model: Any) -> Head:
    """The lm_head of a causal LM and what its config does to logits after it."""
    head = model.get_output_embeddings()
    if head is None or not isinstance(getattr(head, "weight", None), torch.Tensor):
        raise ConfigError(f"{type(model).__name__} has no lm_head; give a causal language model")
    bias = getattr(head, "bias", None)
    return Head(_whole(head.weight), None if bias is None else _whole(bias), *logit_rules(model.config))


def logit_rules(config: Any) -> tuple[float, float | None]:
    """What a model does to the logits of its lm_head by its configuration: `Head.scale` and `Head.softcap`."""
    config = config.get_text_config()
    return _scale(config), _first(config, "final_logit_softcapping")


def _whole(tensor: Tensor) -> Tensor:
    """A sharded parameter gathered once, for all tiles."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _first(config: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(config, name, None)) is not None), None)


def _scale(config: Any) -> float:
    """Multiplier of the logits. Granite and MiniCPM3 divide by `logits_scaling`, HyperCLOVA X multiplies by it."""
    scale = _first(config, "logit_scale", "output_multiplier", "lm_head_multiplier")
    if scale is None and (scaling := _first(config, "logits_scaling")) is not None:
        scale = scaling if config.model_type == "hyperclovax" else 1 / scaling
    return 1.0 if scale is None else float(scale)
