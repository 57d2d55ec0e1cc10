"""Models and tokenizers by path or hub id, with errors that name the path and the mend."""

from __future__ import annotations

import os
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ..errors import ConfigError, StudentError, TeacherError, VocabError
from ..objectives.tiles import logits_of
from ..teachers import Conversation
from ..teachers.local import head_of, last_hidden
from ..vocab import ByteVocab


def check_path(name: str, who: str) -> None:
    """Raise `ConfigError` for something that can only be a folder on this machine and is none.

    Args:
        name: Path or hub id.
        who: "teacher" or "student", for the message.
    """
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1
    if looks_local and not os.path.isdir(os.path.expanduser(name)):
        raise ConfigError(f"{who} {name!r}: there is no such folder")
    if os.path.isdir(name) and not os.path.isfile(os.path.join(name, "config.json")):
        raise ConfigError(f"{who} {name!r}: the folder holds no config.json, so it is no model")


def load_tokenizer(name: str, who: str, **kwargs: Any) -> PreTrainedTokenizerBase:
    """The fast tokenizer at a path or hub id.

    Raises:
        ConfigError: There is none.
    """
    check = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model")
    if os.path.isdir(name) and not any(os.path.isfile(os.path.join(name, f)) for f in check):
        raise ConfigError(
            f"{who} {name!r} has no tokenizer (no tokenizer.json in the folder); save one there with "
            "tokenizer.save_pretrained(...)"
        )
    try:
        return AutoTokenizer.from_pretrained(name, **kwargs)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ConfigError(f"cannot load a tokenizer for the {who} from {name!r}: {first_line(error)}") from error


def check_head(model: Any, vocab: ByteVocab, who: str, name: str) -> None:
    """Raise unless the lm_head has a row for every token id and gives the model's logits.

    Raises:
        TeacherError, StudentError: It has fewer rows, or the model does something to its logits that `head_of` does
            not know.
        VocabError: The tokenizer has no stop token.
    """
    error = TeacherError if who == "teacher" else StudentError
    head = head_of(model)
    rows = len(head.weight)
    if rows < len(vocab):
        raise error(
            f"{who} {name!r}: its lm_head has {rows} rows but its tokenizer has {len(vocab)} ids; this tokenizer "
            "belongs to another model, or call model.resize_token_embeddings"
        )
    if vocab.preferred_stop is None:
        raise VocabError(f"{who} {name!r}: its tokenizer has no stop token; set its eos_token")
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
        raise error(
            f"{who} {name!r}: {type(model).__name__} changes its logits after the lm_head in a way that is not "
            f"supported (off by {float(off):.2g})"
        )


def first_line(error: BaseException) -> str:
    """The gist of a library's error."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
