"""`ByteVocab`: the exact bytes of every token of a tokenizer, and which tokens end a response.

Everything downstream works on bytes. A token that renders as response text has bytes ("content", paper 3.1);
stop, bos, pad, unk and template control tokens have none.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tokenizers

from . import families
from .errors import VocabError

# `surrogateescape` turns a byte that is no UTF-8 into one of these code points.
_NOT_UTF8 = re.compile("([\udc80-\udcff]+)")


class ByteVocab:
    """The bytes of every token id, the content mask and the stop ids of one model.

    Args:
        token_bytes: For each token id the bytes it adds to the text, or `None` for a token that is not content.
            An empty token adds nothing to the text, so it counts as not content.
        stop_ids: Ids that end a response. They are one terminal event (paper A.2) and never content.
        preferred_stop: The stop id that stands for the event; the first of `stop_ids` if not given.
        encoder: Encodes text into these ids without changing a byte; `from_tokenizer` makes it.
        special_tokens: How tokens that are not content are spelled, for those that have a spelling.
        aliases: Ids whose bytes another id spells as well and better: the tokenizer never produces them. The byte
            token of a letter is one where the letter has a token.

    Raises:
        VocabError: A token is neither bytes nor `None`, a stop id lies outside the vocabulary, or `preferred_stop`
            is not a stop id.

    Example:
        >>> vocab = ByteVocab([b"Br", b"ead", None], stop_ids=[2])
        >>> len(vocab), vocab.preferred_stop, vocab.token_bytes[1]
        (3, 2, b'ead')
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes | None],
        stop_ids: Sequence[int] = (),
        preferred_stop: int | None = None,
        encoder: tokenizers.Tokenizer | None = None,
        special_tokens: Mapping[int, str] | None = None,
        aliases: Sequence[int] = (),
    ):
        stops = tuple(dict.fromkeys(int(s) for s in stop_ids))
        size = len(token_bytes)
        outside = [s for s in stops if not 0 <= s < size]
        if outside:
            raise VocabError(f"stop id {outside[0]} lies outside the vocabulary of {size} tokens")
        if preferred_stop is None:
            preferred_stop = stops[0] if stops else None
        elif int(preferred_stop) not in stops:
            raise VocabError(f"preferred stop {preferred_stop} is not one of the stop ids {list(stops)}")
        terminal = set(stops)
        wrong = next((b for b in token_bytes if b is not None and not isinstance(b, (bytes, bytearray))), None)
        if wrong is not None:
            raise VocabError(f"token bytes are bytes or None, not {wrong!r}")
        self.token_bytes: list[bytes | None] = [
            bytes(b) if b and i not in terminal else None for i, b in enumerate(token_bytes)
        ]
        self.stop_ids = stops
        self.encoder = encoder
        self.special_tokens = {int(i): str(text) for i, text in (special_tokens or {}).items()}
        self.aliases = frozenset(int(i) for i in aliases)
        self.preferred_stop: int | None = None if preferred_stop is None else int(preferred_stop)

    @classmethod
    def from_tokenizer(cls, hf_tokenizer: Any, generation_config: Any = None) -> ByteVocab:
        """Read the vocabulary of a tokenizer.

        Byte-level ones (GPT-2, Llama 3, Qwen, DeepSeek), SentencePiece-like ones (Llama 2, Mistral, Gemma; BPE or
        Unigram) and tiktoken encodings.

        Args:
            hf_tokenizer: A `PreTrainedTokenizerFast` (or any object with `backend_tokenizer`), a
                `tokenizers.Tokenizer`, a `tiktoken.Encoding`, or a slow tokenizer that holds one.
            generation_config: The model's `GenerationConfig`; each of its EOS ids is a stop id.

        Raises:
            VocabError: The tokenizer is of a family that is not supported, or its token bytes do not add up to
                the text that it encodes.
        """
        found = families.read(hf_tokenizer, generation_config)
        return cls(
            found.token_bytes, found.stop_ids, found.preferred_stop, found.encoder, found.special_tokens, found.aliases
        )

    def __len__(self) -> int:
        return len(self.token_bytes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteVocab) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        content = int((self.byte_lengths > 0).sum())
        return f"ByteVocab({len(self)} tokens, {content} content, stops {list(self.stop_ids)})"

    @cached_property
    def byte_lengths(self) -> np.ndarray:
        """int64 [V]: number of bytes of each token, 0 where it is not content."""
        return np.fromiter((len(b) if b else 0 for b in self.token_bytes), np.int64, len(self))

    @cached_property
    def byte_starts(self) -> np.ndarray:
        """int64 [V]: where each token's bytes begin in `blob`."""
        return np.cumsum(self.byte_lengths) - self.byte_lengths

    @cached_property
    def blob(self) -> np.ndarray:
        """uint8: the bytes of all tokens, one after the other."""
        return np.frombuffer(b"".join(b for b in self.token_bytes if b), np.uint8)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that this vocabulary is: bytes, content mask, stops, aliases."""
        digest = hashlib.sha256(self.byte_lengths.tobytes())
        digest.update(self.blob.tobytes())
        rest = (self.stop_ids, self.preferred_stop, sorted(self.special_tokens.items()), sorted(self.aliases))
        digest.update(repr(rest).encode())
        return digest.hexdigest()

    @cached_property
    def id_of(self) -> dict[bytes, int]:
        """The content id of each byte string: of several the lowest that is no alias."""
        table: dict[bytes, int] = {}
        for b, _, i in self.by_bytes:
            table.setdefault(b, i)
        return table

    @cached_property
    def by_bytes(self) -> list[tuple[bytes, bool, int]]:
        """Content sorted by bytes, of equal ones aliases last, then by id: bytes, whether an alias, id."""
        return sorted((b, i in self.aliases, i) for i, b in enumerate(self.token_bytes) if b is not None)

    @cached_property
    def is_blank(self) -> np.ndarray:
        """bool [V]: content made of spaces and tabs only."""
        return np.fromiter((b is not None and not b.strip(b" \t") for b in self.token_bytes), bool, len(self))

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of a sequence of ids; tokens that are not content add none."""
        return b"".join(b for b in (self.token_bytes[i] for i in ids) if b)

    def longest_prefix(self, data: bytes) -> int:
        """Id of the longest content token that `data` starts with (see `id_of`), -1 if there is none."""
        for end in range(min(len(data), self.max_length), 0, -1):
            found = self.id_of.get(data[:end])
            if found is not None:
                return found
        return -1

    def encode(self, data: bytes) -> tuple[list[int], int]:
        """Ids of exactly these bytes, and how many bytes at the end they leave out.

        Valid UTF-8 is encoded as the tokenizer would, without normalising it (by longest match, if this vocabulary
        has no encoder). Bytes that are no UTF-8 (a lone byte token, a character cut by the length limit) become byte
        tokens, characters that the tokenizer changes (a literal `▁` in SentencePiece) are spelled by longest match, so
        the text around them is untouched. At the first byte that no token spells the ids end.
        """
        ids: list[int] = []
        done = 0
        for number, piece in enumerate(_NOT_UTF8.split(data.decode("utf-8", "surrogateescape"))):
            raw = piece.encode("utf-8", "surrogateescape")
            if number % 2:
                found = list(itertools.takewhile(lambda i: i >= 0, (self.id_of.get(bytes([b]), -1) for b in raw)))
            else:
                found = self._encode_text(piece) if self.encoder else self._longest_match(raw)
            ids += found
            spelled = len(self.decode(found))
            done += spelled
            if spelled < len(raw):
                break
        return ids, len(data) - done

    def _encode_text(self, text: str) -> list[int]:
        """Ids by the encoder, except for the characters that it turns out not to keep."""
        apart = ""
        while True:
            # One by one: a run of them may fit other tokens than each does alone.
            parts = re.split(f"([{re.escape(apart)}])", text) if apart else [text]
            ids: list[int] = []
            for number, part in enumerate(parts):
                raw = part.encode()
                found = self._longest_match(raw) if number % 2 else self._encoded(part)
                changed = _first_change(raw, self.decode(found))
                if changed is not None:
                    break
                ids += found
            else:
                return ids
            character = part[len(raw[:changed].decode(errors="ignore"))]
            if self.decode(self._longest_match(character.encode())) == character.encode():
                apart += character
            else:
                before = "".join(parts[:number])
                text = before + part[: part.index(character)]

    def _encoded(self, text: str) -> list[int]:
        return list(self.encoder.encode(text, add_special_tokens=False).ids) if text and self.encoder else []

    def _longest_match(self, raw: bytes) -> list[int]:
        """Greedy spelling; ends where no token fits."""
        ids: list[int] = []
        at = 0
        while at < len(raw) and (found := self.longest_prefix(raw[at : at + self.max_length])) >= 0:
            ids.append(found)
            at += int(self.byte_lengths[found])
        return ids

    @cached_property
    def max_length(self) -> int:
        """Bytes of the longest token."""
        return int(self.byte_lengths.max(initial=0))

    def to_arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Arrays from which `from_arrays` makes this vocabulary again."""
        preferred = -1 if self.preferred_stop is None else self.preferred_stop
        return {
            f"{prefix}_blob": self.blob,
            f"{prefix}_lengths": self.byte_lengths,
            f"{prefix}_stops": np.array([preferred, *self.stop_ids], np.int64),
            f"{prefix}_aliases": np.array(sorted(self.aliases), np.int64),
            f"{prefix}_special": np.frombuffer(json.dumps(sorted(self.special_tokens.items())).encode(), np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Any, prefix: str) -> ByteVocab:
        """The inverse of `to_arrays`."""
        data, lengths = arrays[f"{prefix}_blob"].tobytes(), arrays[f"{prefix}_lengths"].tolist()
        preferred, *stops = arrays[f"{prefix}_stops"].tolist()
        ends = list(itertools.accumulate(lengths))
        pieces = [data[end - n : end] if n else None for n, end in zip(lengths, ends, strict=True)]
        special = dict(json.loads(arrays[f"{prefix}_special"].tobytes()))
        aliases = arrays[f"{prefix}_aliases"].tolist()
        return cls(pieces, stops, None if preferred < 0 else preferred, special_tokens=special, aliases=aliases)


def _first_change(raw: bytes, got: bytes) -> int | None:
    """Where other bytes than `raw` begin, at the last byte if they go on after it; None if there are none."""
    if raw == got:
        return None
    same = next((i for i, (x, y) in enumerate(zip(raw, got, strict=False)) if x != y), min(len(raw), len(got)))
    return min(same, len(raw) - 1)
