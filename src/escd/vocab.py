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
        self.preferred_stop: int | None = None if preferred_stop is None else int(preferred_stop)

    @classmethod
    def from_tokenizer(cls, hf_tokenizer: Any, generation_config: Any = None) -> ByteVocab:
        """Read the vocabulary of a transformers fast tokenizer.

        Args:
            hf_tokenizer: A `PreTrainedTokenizerFast` (or any object with `backend_tokenizer`).
            generation_config: The model's `GenerationConfig`; each of its EOS ids is a stop id.

        Raises:
            VocabError: The tokenizer is of a family that is not supported, or its token bytes do not add up to
                the text that it encodes.
        """
        found = families.read(hf_tokenizer, generation_config)
        return cls(found.token_bytes, found.stop_ids, found.preferred_stop, found.encoder, found.special_tokens)

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
        """A hash of everything that this vocabulary is: bytes, content mask, stops."""
        digest = hashlib.sha256(self.byte_lengths.tobytes())
        digest.update(self.blob.tobytes())
        digest.update(repr((self.stop_ids, self.preferred_stop, sorted(self.special_tokens.items()))).encode())
        return digest.hexdigest()

    @cached_property
    def id_of(self) -> dict[bytes, int]:
        """The lowest content id of each byte string."""
        table: dict[bytes, int] = {}
        for i, b in enumerate(self.token_bytes):
            if b is not None:
                table.setdefault(b, i)
        return table

    @cached_property
    def is_blank(self) -> np.ndarray:
        """bool [V]: content made of spaces and tabs only."""
        return np.fromiter((b is not None and not b.strip(b" \t") for b in self.token_bytes), bool, len(self))

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The bytes of a sequence of ids; tokens that are not content add none."""
        return b"".join(b for b in (self.token_bytes[i] for i in ids) if b)

    def longest_prefix(self, data: bytes) -> int:
        """Id of the longest content token that `data` starts with (lowest id on ties), -1 if there is none."""
        for end in range(min(len(data), self.max_length), 0, -1):
            found = self.id_of.get(data[:end])
            if found is not None:
                return found
        return -1

    def encode(self, data: bytes) -> tuple[list[int], int]:
        """Ids of exactly these bytes, and how many bytes at the end they leave out.

        Valid UTF-8 is encoded as the tokenizer would, without normalising it (by longest match, if this vocabulary
        has no encoder). Bytes that are no UTF-8 (a lone byte token, a character cut by the length limit) become byte
        tokens, so the text around them is untouched.
        """
        ids: list[int] = []
        done = 0
        for number, piece in enumerate(_NOT_UTF8.split(data.decode("utf-8", "surrogateescape"))):
            raw = piece.encode("utf-8", "surrogateescape")
            if number % 2:
                found = [self.id_of.get(raw[i : i + 1], -1) for i in range(len(raw))]
            else:
                found = (
                    list(self.encoder.encode(piece, add_special_tokens=False).ids) if piece and self.encoder else []
                )
                if self.decode(found) != raw:
                    found = self._longest_match(raw)
            if -1 in found:
                found = found[: found.index(-1)]
                ids += found
                return ids, len(data) - done - len(self.decode(found))
            ids += found
            done += len(raw)
        return ids, 0

    def _longest_match(self, raw: bytes) -> list[int]:
        """For text that the tokenizer itself does not keep; ends with -1 where no token fits."""
        ids: list[int] = []
        at = 0
        while at < len(raw) and (not ids or ids[-1] >= 0):
            ids.append(self.longest_prefix(raw[at : at + self.max_length]))
            at += int(self.byte_lengths[ids[-1]])
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
        return cls(pieces, stops, None if preferred < 0 else preferred, special_tokens=special)
