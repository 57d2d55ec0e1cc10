"""Student and teacher: tokenizer, vocabulary, and the model, if probabilities are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError
from ..models import check_path, load_configs, load_model, load_tokenizer, path_of
from ..objectives.tiles import logits_of
from ..teachers import Conversation
from ..teachers.local import head_of, last_hidden
from ..training import turns
from ..training.loading import check_head
from ..vocab import ByteVocab
from .record import Scores


@dataclass
class Side:
    """One of the two models.

    Attributes:
        who: "student" or "teacher".
        name: What the user calls it.
        tokenizer, vocab: Its tokenizer, and what that spells.
        model: None where only tokenizers are wanted.
        chat: How it renders prompts.
    """

    who: str
    name: str
    tokenizer: Any
    vocab: ByteVocab
    chat: turns.Side
    model: Any = None

    @property
    def context(self) -> int | None:
        """Length of the model's context, if its configuration names it."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    @torch.no_grad()
    def scores(self, prompt: list[int], response: Sequence[int]) -> Scores:
        """Logits of the rows of a response behind the ids of a prompt.

        Raises:
            ConfigError: The conversation does not fit into the model's context.
        """
        # The last token of a response is predicted, but predicts nothing that is shown.
        conversation = Conversation(prompt, list(response[:-1]))
        length = len(conversation.prompt) + len(conversation.response)
        if self.context and length > self.context:
            raise ConfigError(
                f"{self.who} {self.name!r}: prompt and response have {length + 1} tokens, too many for the model's "
                f"context of {self.context}; shorten it (--max_new_tokens), leave it out, or give --no_models"
            )
        hidden, (start,) = last_hidden(self.model, [conversation])
        kept, head = hidden[0, start : start + len(response)], head_of(self.model)

        def logits(rows: np.ndarray) -> Tensor:
            with torch.no_grad():
                return logits_of(head, kept[torch.from_numpy(rows).to(kept.device)]).T

        return logits


def load_side(
    who: str,
    name: str,
    tokenizer_name: str | None = None,
    *,
    with_model: bool,
    template_kwargs: dict[str, Any],
    revision: str | None,
    trust_remote_code: bool,
    **model_kwargs: Any,
) -> Side:
    """Load a side.

    Args:
        who: "student" or "teacher".
        name: Path or hub id.
        tokenizer_name: Where the tokenizer lies, if not there.
        with_model: Whether to load the weights too.
        template_kwargs: For the chat template.
        revision, trust_remote_code: As in `from_pretrained`.
        **model_kwargs: Further options of `from_pretrained` for the model.

    Raises:
        EscdError: The path, the tokenizer or the model will not do.
    """
    source, shared = path_of(name), {"revision": revision, "trust_remote_code": trust_remote_code}
    if with_model:
        check_path(source, who, adapters=who == "student")
    tokenizer = load_tokenizer(path_of(tokenizer_name or name), who, padding_side="left", **shared)
    model = None
    if with_model:
        model = load_model(source, who, **shared, **model_kwargs).eval()
    generation = load_configs(source, who, **shared)[1] if model is None else model.generation_config
    vocab = ByteVocab.from_tokenizer(tokenizer, generation)
    if model is not None:
        check_head(model, vocab, who, name)
        if torch.accelerator.is_available():
            model.to(torch.accelerator.current_accelerator())  # type: ignore[arg-type]
    return Side(who, name, tokenizer, vocab, turns.Side(tokenizer, template_kwargs), model)
