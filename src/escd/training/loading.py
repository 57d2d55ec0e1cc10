"""Whether a model can be taught or teach: what is checked when it is loaded."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import StudentError, TeacherError, VocabError
from ..objectives.tiles import Head, SparseHead, logits_of
from ..teachers import Conversation
from ..teachers.local import head_of, last_hidden
from ..vocab import ByteVocab


def check_head(model: Any, vocab: ByteVocab, who: str, name: str) -> None:
    """Raise unless the lm_head has a row for every token id and gives the model's logits.

    Raises:
        TeacherError, StudentError: It has fewer rows, or the model does something to its logits that `head_of` does
            not know.
        VocabError: The tokenizer has no stop token.
    """
    head = head_of(model)
    check_rows(head, vocab, who, name)
    with torch.no_grad():
        was_training = model.training
        model.eval()
        ids = [i for i, b in enumerate(vocab.token_bytes[:1000]) if b is not None][:4] or [0]
        hidden, _ = last_hidden(model, [Conversation(ids, [])])
        device = model.get_input_embeddings().weight.device
        expected = model(input_ids=torch.tensor([ids], device=device)).logits[0].float()
        found = logits_of(head, hidden[0]).T.to(expected.device)
        model.train(was_training)
    # NaN is not what is asked here: a step names the row.
    off = (found - expected).abs().max()
    if bool(off > 0.03 * expected.abs().max() + 1e-3):
        raise _error(who)(
            f"{who} {name!r}: {type(model).__name__} changes its logits after the lm_head in a way that is not "
            f"supported (off by {float(off):.2g})"
        )


def check_rows(head: Head | SparseHead, vocab: ByteVocab, who: str, name: str) -> None:
    """Raise unless an lm_head has a row for every token id, and one of them is a stop. Errors as of `check_head`."""
    rows = head.columns
    if rows < len(vocab):
        raise _error(who)(
            f"{who} {name!r}: its lm_head has {rows} rows but its tokenizer has {len(vocab)} ids; this tokenizer "
            "belongs to another model, or call model.resize_token_embeddings"
        )
    if vocab.preferred_stop is None:
        raise VocabError(f"{who} {name!r}: its tokenizer has no stop token; set its eos_token")


def _error(who: str) -> type[TeacherError] | type[StudentError]:
    return TeacherError if who == "teacher" else StudentError
