"""A teacher on vLLM servers: rows come over HTTP, the lm_head is the only part of it that this process holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import torch
from torch import Tensor

from ...errors import TeacherError
from ...objectives.tiles import Head, SparseHead
from ..base import Conversation, GenerationArguments, Teacher
from .cache import RowCache
from .client import Servers, Traffic
from .formats import RowFormat, States, TopK, read_generated
from .head import read_config, read_generation_config, read_head
from .probe import Probe, Served, require_equal, require_fit, require_generation, require_same_row, served_models

_TOKENS, _SEQUENCES = 8192, 64  # of one request at most
_PROBED = 64  # tokens of a prompt that the servers are asked about at the start


class VLLMTeacher(Teacher):
    """A model that stock vLLM servers hold.

    Args:
        name: The checkpoint that they serve: a folder or hub id. Its configuration and lm_head are read.
        urls: Addresses of the servers; they share the load.
        served_name: Name of the model on the servers, if it is not the checkpoint's.
        dtype: In which hidden states are sent: float32, bfloat16, or auto: bfloat16 if that loses nothing.
        top_k: Take this many most likely tokens of each row instead of its hidden state, from servers that generate.
        revision: Of the hub id.
        trust_remote_code: Whether code of the checkpoint may run.
        cache: Where rows are kept for a resumed run.
        deadline: Seconds after which a request that no server answers is given up.

    Raises:
        ConfigError: No address, or a checkpoint without a readable lm_head.
    """

    def __init__(
        self,
        name: str,
        urls: Sequence[str],
        *,
        served_name: str | None = None,
        dtype: str = "auto",
        top_k: int | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        cache: RowCache | None = None,
        deadline: float = 600.0,
    ):
        self.name, self.served_name, self.dtype, self.cache = name, served_name, dtype, cache
        self.config = read_config(name, revision, trust_remote_code)
        self.generation_config = read_generation_config(name, self.config, revision)
        if top_k is None:
            self._head = read_head(name, self.config, revision, trust_remote_code)
            self.format: RowFormat = States("float32" if dtype == "auto" else dtype, self._head.width)
        else:
            columns = self.config.get_text_config().vocab_size
            self._head, self.format = SparseHead(columns + 1), TopK(top_k, columns)
        self.servers = Servers(urls, deadline)
        self.served: Served | None = None
        self._cached = 0
        self._missing, self._given = 0.0, 0

    def check(self, prompts: Sequence[list[int]], vocabulary: int, response: int, folder: Path | None = None) -> None:
        """Ask every server whether it gives rows of this teacher.

        Args:
            prompts: Some rendered prompts of the run.
            vocabulary: Number of token ids of the teacher's tokenizer.
            response: Tokens that a response may have.
            folder: Of the run; a row is kept there, and compared when the run goes on. None: neither.

        Raises:
            TeacherError: One does not.
        """
        self.served = served_models(self.servers, self.name, self.served_name)
        known, length = {}, max(map(len, prompts), default=1) + response
        prompts = [prompt[:_PROBED] for prompt in prompts] or [[0]]
        for url in self.servers.urls:
            probe = Probe(self.servers, self.format, self.name, self.command(url))
            rows = probe.rows(url, self.served, prompts, vocabulary, length)
            if isinstance(self._head, Head):
                require_fit(url, rows, self._head, prompts, self.name, vocabulary)
            known[url] = rows[0][-1]
        require_equal(known, self.format)
        if folder is not None:
            url, row = next(iter(known.items()))
            require_same_row(folder, self.name, self.format, prompts[0], row, url)
        exact = all(torch.equal(row.bfloat16().float(), row) for row in known.values())
        if isinstance(self.format, States) and self.dtype == "auto" and exact:
            self.format = States("bfloat16", self.format.width)

    def check_generation(self, prompts: Sequence[list[int]]) -> None:
        """Ask every server whether it generates.

        Raises:
            TeacherError: One does not.
        """
        self.served = served_models(self.servers, self.name, self.served_name)
        body = self._body(prompts[0] if prompts else [0], [], 1)
        for url in self.servers.urls:
            require_generation(self.servers, url, body, f"vllm serve {self.name} --port {_port(url)}")

    def command(self, url: str) -> str:
        """How to start a server at an address that gives this teacher's rows."""
        return f"vllm serve {self.name} --port {_port(url)} {self.format.start}"

    def head(self) -> Head | SparseHead:
        """See `Teacher.head`."""
        return self._head

    def to(self, device: torch.device) -> None:
        """Move the lm_head to a device."""
        if isinstance(self._head, Head):
            bias = self._head.bias
            self._head = replace(
                self._head, weight=self._head.weight.to(device), bias=None if bias is None else bias.to(device)
            )

    def hidden_rows(self, conversations: Sequence[Conversation], rows: Sequence[np.ndarray]) -> Tensor:
        """See `Teacher.hidden_rows`.

        Raises:
            TeacherError: A conversation that is too long for the servers, rows that are NaN or infinite, no answer
                before the deadline.
        """
        asked: list[_Sequence] = []
        for number, (conversation, wanted) in enumerate(zip(conversations, rows, strict=True)):
            if len(wanted):
                positions = wanted + (len(conversation.prompt) - 1)
                ids = [*conversation.prompt, *conversation.response]
                asked.append(_Sequence(number, wanted, ids[: int(positions.max()) + 1 + self.format.ahead], positions))
        self._require_short(asked, conversations)
        found: dict[int, Tensor] = {}
        for sequence in asked:
            if (held := self._held(sequence)) is not None:
                found[sequence.number] = held
        self._cached += sum(map(len, found.values()))
        missing = [sequence for sequence in asked if sequence.number not in found]
        for sequence, new in zip(missing, self._fetch(missing), strict=True):
            if not bool(new.isfinite().all()):
                bad = int((~new.isfinite()).any(1).nonzero()[0])
                raise TeacherError(
                    f"teacher {self.name!r}: its server gave NaN or infinity at response {sequence.number} of this "
                    f"batch, row {int(sequence.rows[bad])}"
                )
            found[sequence.number] = new
            if self.cache is not None:
                self.cache.put(self._key(sequence), new)
        if missing and self.cache is not None:
            self.cache.trim()
        none = torch.empty(0, self.format.width, dtype=self.format.dtype)
        given = torch.cat([none, *(found[sequence.number] for sequence in asked)])
        if isinstance(self.format, TopK):
            self._missing, self._given = self._missing + self.format.missing(given), self._given + len(given)
        return given

    def generate(
        self, prompts: Sequence[list[int]], stops: Sequence[int], args: GenerationArguments
    ) -> list[list[int]]:
        """See `Teacher.generate`."""
        seeds = torch.randint(2**31, (len(prompts),)).tolist()
        sampling = {"temperature": args.temperature, "top_p": args.top_p, "top_k": args.top_k}
        length = args.max_completion_length or 1
        bodies = [
            {**self._body(ids, stops, length), **sampling, "seed": seed}
            for ids, seed in zip(prompts, seeds, strict=True)
        ]
        return self.servers.map("/v1/completions", bodies, lambda _, answer: read_generated(answer, stops))

    def _body(self, prompt: list[int], stops: Sequence[int], length: int) -> dict[str, Any]:
        """JSON of a request to continue a prompt; nothing is left to defaults of the server."""
        assert self.served is not None
        return {
            "model": self.served.id, "prompt": prompt, "max_tokens": length, "stop_token_ids": list(stops),
            "return_token_ids": True, "repetition_penalty": 1.0, "min_p": 0.0,
        }  # fmt: skip

    @property
    def rows(self) -> str:  # type: ignore[override]
        """See `Teacher`."""
        return f"served by vLLM: {self.format.what}"

    def figures(self, steps: int) -> dict[str, float]:
        """Per step: bytes received, seconds of waiting, requests, tries that failed, and rows that the cache had.

        With the most likely tokens only, also the mean probability of a row that was not sent.
        """
        traffic, self.servers.traffic = self.servers.traffic, Traffic()
        cached, self._cached = self._cached, 0
        truncated, self._missing, given, self._given = self._missing, 0.0, self._given, 0
        sparse = {"teacher/truncated_mass": truncated / max(given, 1)} if isinstance(self.format, TopK) else {}
        return {
            **sparse,
            "teacher/megabytes": traffic.bytes / 1e6 / steps, "teacher/server_seconds": traffic.seconds / steps,
            "teacher/requests": traffic.requests / steps, "teacher/retries": traffic.retries / steps,
            "teacher/cached_rows": cached / steps,
        }  # fmt: skip

    def _fetch(self, sequences: Sequence[_Sequence]) -> list[Tensor]:
        if not sequences:
            return []
        assert self.served is not None
        model, total = self.served.id, sum(len(sequence.ids) for sequence in sequences)
        # Small batches too are spread over all servers.
        parts = _packed(sequences, min(_TOKENS, -(-total // (2 * len(self.servers.urls)))))
        bodies = [self.format.body(model, [sequence.ids for sequence in part]) for part in parts]

        def read(number: int, answer: httpx.Response) -> list[Tensor]:
            part = parts[number]
            return self.format.read(answer, [s.ids for s in part], [s.positions for s in part])

        return [rows for part in self.servers.map(self.format.path, bodies, read) for rows in part]

    def _key(self, sequence: _Sequence) -> str:
        assert self.served is not None
        return RowCache.key(f"{self.name} {self.served.id}", self.format.key, sequence.ids, sequence.positions)

    def _held(self, sequence: _Sequence) -> Tensor | None:
        if self.cache is None:
            return None
        return self.cache.get(self._key(sequence), len(sequence.rows), self.format.width, self.format.dtype)

    def _require_short(self, asked: Sequence[_Sequence], conversations: Sequence[Conversation]) -> None:
        assert self.served is not None
        limit = self.served.max_length
        for sequence in asked:
            if limit and len(sequence.ids) > limit:
                raise TeacherError(
                    f"response {sequence.number} of this batch has {len(sequence.ids)} teacher tokens, "
                    f"{len(conversations[sequence.number].prompt)} of them its prompt, but the teacher server takes "
                    f"{limit}; start it with a larger --max-model-len, or lower --max_completion_length"
                )


@dataclass(frozen=True)
class _Sequence:
    """What is asked about one conversation: `rows` of its response, which are `positions` of the `ids` sent."""

    number: int
    rows: np.ndarray
    ids: list[int]
    positions: np.ndarray


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or {"https": 443}.get(parts.scheme, 80)


def _packed(sequences: Sequence[_Sequence], tokens: int) -> list[list[_Sequence]]:
    """Consecutive sequences of about `tokens` together."""
    parts: list[list[_Sequence]] = []
    size = 0
    for sequence in sequences:
        if not parts or size + len(sequence.ids) > tokens or len(parts[-1]) == _SEQUENCES:
            parts.append([])
            size = 0
        parts[-1].append(sequence)
        size += len(sequence.ids)
    return parts
