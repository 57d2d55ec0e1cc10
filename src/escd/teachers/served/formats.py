"""What is asked of a server for a batch of sequences, and how its answer becomes rows."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import httpx
import numpy as np
import torch
from torch import Tensor

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
    """

    path: ClassVar[str]
    ahead: ClassVar[int]
    key: str
    dtype: torch.dtype
    width: int
    start: str

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
