"""Tokenizers from single files: tokenizer.json, GGUF, SentencePiece models, tiktoken ranks, Mistral's tekken.json."""

from __future__ import annotations

import base64
import binascii
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from .errors import ConfigError, first_line
from .families.ranks import from_ranks

SUFFIXES = (".json", ".gguf", ".model", ".tiktoken")

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN = _CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
_QWEN_35 = _QWEN.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
# A file of ranks holds neither pattern nor special tokens. Known encodings by number of ranks: pattern, and what ends
# a text, an answer first.
_ENCODINGS: dict[int, tuple[str, dict[str, int]]] = {
    50_256: (_GPT2, {"<|endoftext|>": 50_256}),
    50_280: (_GPT2, {"<|endoftext|>": 50_256}),
    100_256: (_CL100K, {"<|endoftext|>": 100_257}),
    128_000: (_CL100K, {"<|eot_id|>": 128_009, "<|end_of_text|>": 128_001, "<|begin_of_text|>": 128_000}),
    151_643: (_QWEN, {"<|im_end|>": 151_645, "<|endoftext|>": 151_643, "<|im_start|>": 151_644}),
    199_998: (_O200K, {"<|endoftext|>": 199_999}),
    200_000: (_O200K, {"<|eot|>": 200_008, "<|end_of_text|>": 200_001, "<|begin_of_text|>": 200_000}),
    248_044: (_QWEN_35, {"<|im_end|>": 248_046, "<|endoftext|>": 248_044, "<|im_start|>": 248_045}),
}
# What a tokenizer.json without a tokenizer_config.json is most likely to end a text with.
_STOPS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<|return|>",
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
)


def from_file(path: str, who: str) -> PreTrainedTokenizerBase:
    """The tokenizer in a single file.

    Args:
        path: The file.
        who: "teacher", "student" or "model", for messages.

    Raises:
        ConfigError: There is no such file, it is none of the kinds, or a package that reads it is missing.
    """
    file = Path(path)
    if not file.is_file():
        raise ConfigError(f"{who} {path!r}: there is no such file")
    try:
        tokenizer = _READERS[file.suffix](file)
    # Whatever the readers of four formats make of a file that is damaged or something else.
    except Exception as error:
        raise ConfigError(f"cannot read a tokenizer for the {who} from {path!r}: {first_line(error)}") from error
    tokenizer.name_or_path = path
    return tokenizer


def _json(file: Path) -> PreTrainedTokenizerBase:
    content = json.loads(file.read_bytes())
    if "token_bytes" in str(content.get("vocab", ""))[:1000]:
        return _tekken(content)
    if "model" not in content:
        raise ValueError("it is neither a tokenizer.json nor a tekken.json")
    if file.name == "tokenizer.json" and (file.parent / "tokenizer_config.json").is_file():
        return AutoTokenizer.from_pretrained(file.parent)
    known = {token["content"] for token in content.get("added_tokens") or []}
    stop = next((text for text in _STOPS if text in known), None)
    return PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token=stop)


def _tekken(content: dict[str, Any]) -> PreTrainedTokenizerBase:
    config = content["config"]
    reserved = config["default_num_special_tokens"]
    kept = content["vocab"][: config["default_vocab_size"] - reserved]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] + reserved for token in kept}
    listed = content.get("special_tokens") or [
        {"rank": i, "token_str": text} for i, text in enumerate(("<unk>", "<s>", "</s>"))
    ]
    special = {token["token_str"]: token["rank"] for token in listed}
    return PreTrainedTokenizerFast(
        tokenizer_object=from_ranks(ranks, config["pattern"], special), eos_token="</s>", bos_token="<s>"
    )


def _gguf(file: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def _model(file: Path) -> PreTrainedTokenizerBase:
    """`tokenizer.model` is a name of both SentencePiece models and tiktoken ranks (Llama 3)."""
    if _is_ranks(file):
        return _ranks(file)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(file, Path(folder, "tokenizer.model"))
        return PreTrainedTokenizerFast.from_pretrained(folder)


def _is_ranks(file: Path) -> bool:
    with file.open("rb") as opened:
        token, _, rank = opened.readline(1000).strip().partition(b" ")
    try:
        return bool(base64.b64decode(token, validate=True)) and rank.isdigit()
    except binascii.Error:
        return False


def _ranks(file: Path) -> PreTrainedTokenizerBase:
    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    if not ranks:
        raise ValueError("it is empty")
    pattern, special = _ENCODINGS.get(len(ranks), (_CL100K, {}))
    return PreTrainedTokenizerFast(
        tokenizer_object=from_ranks(ranks, pattern, special), eos_token=next(iter(special), None)
    )


_READERS = {".json": _json, ".gguf": _gguf, ".model": _model, ".tiktoken": _ranks}
