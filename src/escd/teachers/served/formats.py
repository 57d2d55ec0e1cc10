"""What is asked of a server for a batch of sequences, and how its answer becomes rows."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import httpx
import numpy as np
import torch
from torch import Tensor

from ...objectives.maths import FLOOR
from ...objectives.tiles import SparseHead, logits_of
from .client import BadAnswer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class RowFormat(ABC):
    """A kind of row that servers can give.

    Attributes:
        path: The endpoint.
        key: Names the kind in the cache.
        dtype, width: Of a row.
        ahead: Tokens after a position that its row takes a server to be sent.
        start: Options of the vLLM command that starts a server which gives such rows.
        what: What they are, in words.
    """

    path: ClassVar[str]
    ahead: ClassVar[int]
    key: str
    dtype: torch.dtype
    width: int
    start: str
    what: str

    @abstractmethod
    def body(self, model: str, sequences: Sequence[list[int]]) -> dict[str, Any]:
        """JSON of a request for all rows of some sequences."""

    @abstractmethod
    def read(
        self, answer: httpx.Response, sequences: Sequence[list[int]], wanted: Sequence[np.ndarray]
    ) -> list[Tensor]:
        """The wanted rows of each sequence, [w, width]; row i is what the model knows after token i.

        Raises:
            BadAnswer: It is not an answer to `body`.
        """

    @abstractmethod
    def distance(self, a: Tensor, b: Tensor) -> float:
        """How far two rows [width] for the same tokens are apart, relative: 0 equal."""


class States(RowFormat):
    """Last hidden states in binary form, from the pooling endpoint of a server that pools nothing."""

    path = "/pooling"
    ahead = 0
    start = (
        "--runner pooling --convert embed --pooler-config "
        """'{"task":"token_embed","use_activation":false}'"""
    )

    def __init__(self, dtype: str, width: int):
        self.key, self.width, self.dtype = dtype, width, DTYPES[dtype]
        self.what = f"hidden states in {dtype}"

    def body(self, model: str, sequences: Sequence[list[int]]) -> dict[str, Any]:
        """See `RowFormat.body`."""
        return {
            "model": model, "input": list(sequences), "task": "token_embed", "use_activation": False,
            "encoding_format": "bytes", "embed_dtype": self.key, "endianness": "little",
        }  # fmt: skip

    def read(
        self, answer: httpx.Response, sequences: Sequence[list[int]], wanted: Sequence[np.ndarray]
    ) -> list[Tensor]:
        """See `RowFormat.read`."""
        body = np.frombuffer(answer.content, np.uint8)
        items = sorted(_metadata(answer), key=lambda item: item["index"])
        if [item["index"] for item in items] != list(range(len(sequences))):
            raise BadAnswer(f"asked for {len(sequences)} sequences, it answers with {len(items)}")
        size, out = self.dtype.itemsize, []
        for item, ids, rows in zip(items, sequences, wanted, strict=True):
            kind, shape, start, end = (item[name] for name in ("embed_dtype", "shape", "start", "end"))
            if (kind, item["endianness"]) != (self.key, "little"):
                raise BadAnswer(f"asked for little-endian {self.key}, it answers with {item['endianness']} {kind}")
            if shape != [len(ids), self.width]:
                raise BadAnswer(
                    f"{len(ids)} tokens came back as an array of shape {shape}, not [{len(ids)}, {self.width}]"
                )
            if not 0 <= start <= end <= len(body) or end - start != len(ids) * self.width * size:
                raise BadAnswer(f"its answer has {len(body)} bytes, but the header places rows at {start} to {end}")
            states = body[start:end].reshape(len(ids), self.width * size)
            out.append(torch.from_numpy(states[rows]).view(self.dtype))
        return out

    def distance(self, a: Tensor, b: Tensor) -> float:
        """See `RowFormat.distance`."""
        return float((a.float() - b.float()).norm() / b.float().norm().clamp_min(1e-30))


def _metadata(answer: httpx.Response) -> list[dict[str, Any]]:
    """Where each sequence lies in the body, from the header of the answer."""
    kind = answer.headers.get("content-type", "no content type")
    no_header = BadAnswer(f"its answer ({kind}) has no header that says where the rows lie")
    try:
        items = json.loads(answer.headers["metadata"])["data"]
        numbers = [(item["index"], item["start"], item["end"], *item["shape"]) for item in items]
        names = [item[name] for item in items for name in ("embed_dtype", "endianness")]
    except (KeyError, ValueError, TypeError) as error:
        raise no_header from error
    if not all(isinstance(n, int) for some in numbers for n in some) or not all(isinstance(x, str) for x in names):
        raise no_header
    return items


class TopK(RowFormat):
    """The k most likely tokens with their log-probabilities, from a server that generates; see `SparseHead`.

    A row has k + 1 columns: the last one, beyond the teacher's head, holds what is missing. Where fewer than k tokens
    are there, it fills their places.

    Args:
        k: How many.
        columns: Columns of the teacher's head.
    """

    path = "/v1/completions"
    ahead = 1  # a server tells a token's alternatives, so the row before it takes the token

    def __init__(self, k: int, columns: int):
        self.k, self.columns = k, columns
        self.key, self.width, self.dtype = f"top{k}", 2 * (k + 1), torch.float32
        self.start, self.what = f"--max-logprobs {k}", f"the {k} most likely tokens of a row"

    def body(self, model: str, sequences: Sequence[list[int]]) -> dict[str, Any]:
        """See `RowFormat.body`."""
        return {
            "model": model,
            "prompt": list(sequences),
            "max_tokens": 1,
            "prompt_logprobs": self.k,
            "temperature": 0,
        }

    def read(
        self, answer: httpx.Response, sequences: Sequence[list[int]], wanted: Sequence[np.ndarray]
    ) -> list[Tensor]:
        """See `RowFormat.read`."""
        try:
            found = {choice["index"]: choice["prompt_logprobs"] for choice in answer.json()["choices"]}
            if {i: len(rows) for i, rows in found.items()} != {i: len(ids) for i, ids in enumerate(sequences)}:
                raise BadAnswer("its answer does not have the log-probabilities of every token that was sent")
            tables = [[self._row(found[i][p + 1]) for p in rows] for i, rows in enumerate(wanted)]
            return [torch.tensor(table, dtype=self.dtype).reshape(-1, self.width) for table in tables]
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise BadAnswer(f"its answer holds no prompt_logprobs ({type(error).__name__})") from error

    def _row(self, told: dict[str, dict[str, Any]]) -> list[float]:
        # A server adds the token that follows, whatever its rank.
        kept = {int(token): float(x["logprob"]) for token, x in told.items() if x["rank"] <= self.k}
        if any(not 0 <= token < self.columns for token in kept):
            raise BadAnswer(f"it names token {max(kept)}, but the teacher has {self.columns}")
        missing = 1 - math.fsum(map(math.exp, kept.values()))
        empty = self.k + 1 - len(kept)
        log_missing = math.log(missing) if missing > 0 else FLOOR
        return [*kept, *[self.columns] * empty, *(max(x, FLOOR) for x in kept.values()), *[log_missing] * empty]

    def missing(self, rows: Tensor) -> float:
        """Sum over rows of the probability that was not told."""
        return float(rows[:, -1].double().exp().sum())

    def distance(self, a: Tensor, b: Tensor) -> float:
        """See `RowFormat.distance`: the total variation of the two distributions."""
        p, q = logits_of(SparseHead(self.columns + 1), torch.stack([a, b])).exp().T
        return float((p - q).abs().sum() / 2)


def read_generated(answer: httpx.Response, stops: Sequence[int]) -> list[int]:
    """Ids that a server has generated, up to the first of `stops`, which they keep.

    Raises:
        BadAnswer: There are none.
    """
    try:
        ids = [int(token) for token in answer.json()["choices"][0]["token_ids"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadAnswer("its answer has no token_ids; vLLM has them since 0.11") from error
    return ids[: next((k + 1 for k, token in enumerate(ids) if token in stops), len(ids))]
