"""Student and teacher: tokenizer, vocabulary, and the model, if probabilities are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..chat import Prompt, render_prompt
from ..errors import ConfigError
from ..models import check_path, load_model, load_tokenizer, path_of
from ..objectives.tiles import logits_of
from ..teachers import Conversation
from ..teachers.local import head_of, last_hidden
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
        template_kwargs: For its chat template.
    """

    who: str
    name: str
    tokenizer: Any
    vocab: ByteVocab
    model: Any = None
    template_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> int | None:
        """Length of the model's context, if its configuration names it."""
        return getattr(self.model.config.get_text_config(), "max_position_embeddings", None)

    def prompt_ids(self, prompt: Prompt) -> list[int]:
        """The prompt by its own template."""
        return render_prompt(self.tokenizer, prompt, self.template_kwargs)

    @torch.no_grad()
    def scores(self, prompt: Prompt, response: Sequence[int]) -> Scores:
        """Logits of the rows of a response.

        Raises:
            ConfigError: The conversation does not fit into the model's context.
        """
        ids = self.prompt_ids(prompt)
        # The last token of a response is predicted, but predicts nothing that is shown.
        conversation = Conversation(ids, list(response[:-1]))
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
    vocab = ByteVocab.from_tokenizer(tokenizer, model.generation_config if model is not None else None)
    if model is not None:
        check_head(model, vocab, who, name)
        if torch.accelerator.is_available():
            model.to(torch.accelerator.current_accelerator())  # type: ignore[arg-type]
    return Side(who, name, tokenizer, vocab, model, template_kwargs)
