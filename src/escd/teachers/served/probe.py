"""Whether servers give the rows that a run needs: asked once at its start, each fault in one line with its mend."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from torch import Tensor

from ...errors import ConfigError, TeacherError
from ...files import write_whole
from ...objectives.tiles import Head, logits_of
from .client import BadAnswer, Servers, quoted
from .formats import RowFormat, States, read_generated

# Rows that differ by more come from other weights: batches of another size change only their rounding.
SAME = 0.03
# A head that does not belong to the states ranks the tokens of a prompt as if by lot: their mean rank is the middle.
_RANK = 0.6
# What a model that has learnt text surpasses by far: nats per token above chance, tokens below it counted as 0.
_GAIN = 1.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Served:
    """A model that a server offers: its name for requests, where its weights came from, its length limit."""

    id: str
    root: str
    max_length: int


def served_models(servers: Servers, name: str, wanted: str | None) -> Served:
    """The teacher on all servers: under one name, with the least length limit of any. Arguments, errors as below."""
    found = {url: served_model(servers, url, name, wanted) for url in servers.urls}
    first, *others = found
    for url in others:
        if found[url].id != found[first].id:
            raise TeacherError(
                f"teacher servers {first} and {url} offer the teacher as {found[first].id!r} and {found[url].id!r}; "
                "start all with the same --served-model-name"
            )
    return replace(found[first], max_length=min(served.max_length for served in found.values()))


def served_model(servers: Servers, url: str, name: str, wanted: str | None) -> Served:
    """The model of a server that is the teacher.

    Args:
        servers: For the request.
        url: Which of them.
        name: The teacher: a path or hub id.
        wanted: Its name on the server, if the user gave one.

    Raises:
        TeacherError: The server cannot be reached, is no vLLM server, or offers no such model.
    """
    answer = servers.ask(url, "GET", "/v1/models")
    if answer.status_code == 401:
        raise TeacherError(f"teacher server {url} asks for a key; set the environment variable VLLM_API_KEY")
    models = None
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        models = [
            Served(str(m["id"]), str(m.get("root") or m["id"]), int(m.get("max_model_len") or 0))
            for m in answer.json()["data"]
        ]
    if answer.status_code != 200 or not models:
        raise TeacherError(
            f"teacher server {url} is no vLLM server: /v1/models answers {answer.status_code}: {quoted(answer)}"
        )
    offered = ", ".join(repr(m.id) for m in models)
    if wanted is not None:
        found = [m for m in models if m.id == wanted]
        if not found:
            raise TeacherError(
                f"teacher server {url} offers no model {wanted!r}; --teacher_server_model may name {offered}"
            )
        return found[0]
    found = [m for m in models if name in (m.id, m.root) or Path(name).name in (Path(m.id).name, Path(m.root).name)]
    if not found:
        raise TeacherError(
            f"teacher server {url} offers {offered}, not {name!r}; if one is the same model, name it by "
            "--teacher_server_model"
        )
    return found[0]


@dataclass
class Probe:
    """The questions to each server.

    Args:
        servers: The servers.
        format: The rows that are wanted of them.
        name: The teacher.
        command: How to start a server that gives them.
    """

    servers: Servers
    format: RowFormat
    name: str
    command: str

    def rows(
        self, url: str, served: Served, prompts: Sequence[list[int]], vocabulary: int, length: int
    ) -> list[Tensor]:
        """Rows [n, width] of each prompt, after everything that one request can tell was checked.

        Args:
            url: The server.
            served: Its model.
            prompts: Rendered prompts.
            vocabulary: Number of token ids of the teacher's tokenizer.
            length: Tokens of a prompt with its response that the server must take.

        Raises:
            TeacherError: The server does not give rows of this teacher.
        """
        if served.max_length and served.max_length < length + self.format.ahead:
            raise TeacherError(
                f"teacher server {url} takes {served.max_length} tokens, but a prompt with its response may have "
                f"{length}; start it with --max-model-len {length + self.format.ahead}, or lower "
                "--max_completion_length"
            )
        # The last id only asks whether the server takes it; no row depends on it.
        asked = [[*prompt, vocabulary - 1] for prompt in prompts]
        answer = self.servers.ask(url, "POST", self.format.path, self.format.body(served.id, asked))
        if answer.status_code != 200:
            raise TeacherError(self._refusal(url, answer))
        if isinstance(self.format, States):
            self._check_width(url, answer)
        try:
            found = self.format.read(answer, asked, [np.arange(len(prompt)) for prompt in prompts])
        except BadAnswer as error:
            raise TeacherError(f"teacher server {url}: {error}; {self._mend}") from error
        rows = torch.cat(found).float()
        if not bool(rows.isfinite().all()):
            raise TeacherError(
                f"teacher server {url}: its rows are NaN or infinite at token "
                f"{int((~rows.isfinite()).any(1).nonzero()[0])} of a prompt; start it with --dtype bfloat16 or "
                "float32, or check its weights"
            )
        if isinstance(self.format, States) and bool(((rows.norm(dim=1) - 1).abs() < 0.01).all()):
            raise TeacherError(f"teacher server {url} normalises its hidden states to length 1; {self._mend}")
        return found

    @property
    def _mend(self) -> str:
        return f"start it with: {self.command}"

    def _refusal(self, url: str, answer: httpx.Response) -> str:
        told = quoted(answer)
        if "logprobs" in told and "max allowed" in told:
            return f"teacher server {url}: {told}; lower --teacher_top_k, or {self._mend}"
        if "out of vocabulary" in told:
            return f"teacher server {url}: {told}, but the tokenizer of {self.name!r} has it; it serves another model"
        if answer.status_code == 404 and "does not exist" not in told:
            other = "; or learn from its most likely tokens by --teacher_top_k 20" * isinstance(self.format, States)
            what = f"has no {self.format.path}, so it was started for something else"
            return f"teacher server {url} {what}; {self._mend}{other}"
        return f"teacher server {url} refuses a request: {answer.status_code}: {told}; {self._mend}"

    def _check_width(self, url: str, answer: httpx.Response) -> None:
        with suppress(ValueError, KeyError, TypeError, IndexError):
            width = json.loads(answer.headers["metadata"])["data"][0]["shape"][1]
            if width != self.format.width:
                raise TeacherError(
                    f"teacher server {url} gives hidden states of size {width}, the lm_head of {self.name!r} takes "
                    f"{self.format.width}; it serves another model"
                )


def require_generation(servers: Servers, url: str, body: dict[str, Any], command: str) -> None:
    """Raise unless a server generates.

    Args:
        servers: For the request.
        url: Which of them.
        body: Of a request that it should answer.
        command: How to start one that does.

    Raises:
        TeacherError: It does not.
    """
    answer = servers.ask(url, "POST", "/v1/completions", body)
    if answer.status_code != 200:
        raise TeacherError(
            f"teacher server {url} does not generate, which this objective needs ({answer.status_code}: "
            f"{quoted(answer)}); start it with: {command}"
        )
    try:
        read_generated(answer, [])
    except BadAnswer as error:
        raise TeacherError(f"teacher server {url}: {error}") from error


def require_fit(
    url: str, rows: Sequence[Tensor], head: Head, prompts: Sequence[list[int]], name: str, vocabulary: int
) -> None:
    """Raise unless rows and head together know something about the prompts that the rows belong to.

    Args:
        url: The server that gave the rows.
        rows: [n, width] of each prompt.
        head: The teacher's head.
        prompts: Their ids.
        name: The teacher.
        vocabulary: Number of token ids.

    Raises:
        TeacherError: They do not: server and head are of different models.
    """
    z = torch.cat([logits_of(head, r[:-1].to(head.weight.device))[:vocabulary] for r in rows], 1)
    ids = torch.tensor([token for prompt in prompts for token in prompt[1:]], device=z.device)
    if not len(ids):
        return
    told = z.gather(0, ids[None])[0]
    rank = float((z < told).float().mean())
    gain = float((told - z.logsumexp(0) + math.log(vocabulary)).clamp_min(0).mean())
    if gain >= _GAIN:
        return
    what = f"teacher server {url}: with the lm_head of {name!r} it gives a prompt hardly more probability than chance"
    mend = "does it serve that model, and is --teacher_model_name_or_path right?"
    if rank < _RANK:
        raise TeacherError(f"{what}; server and head do not fit: {mend}")
    logger.warning("%s (%.2f nats per token): %s", what, gain, mend)


def require_same_row(folder: Path, model: str, format: RowFormat, ids: list[int], row: Tensor, url: str) -> None:
    """Compare a row with the one that the run's first start has left in its folder, or leave it there.

    Raises:
        TeacherError: They differ: the server has other weights than it had.
    """
    path, identity = folder / "_teacher_row.json", [model, format.path, hashlib.sha256(repr(ids).encode()).hexdigest()]
    with suppress(OSError, ValueError, KeyError, TypeError):
        before = json.loads(path.read_text())
        if before["identity"] == identity and len(before["row"]) == len(row):
            apart = format.distance(row, torch.tensor(before["row"]))
            if apart > SAME:
                raise TeacherError(
                    f"teacher server {url} has other weights than when this run began: a known row is off by "
                    f"{100 * apart:.0f} %; serve the same model, or start in a new --output_dir"
                )
            return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"identity": identity, "row": row.tolist()}))
    except OSError as error:
        raise ConfigError(f"--output_dir {str(folder)!r} cannot be written to: {error.strerror}") from error


def require_equal(rows: dict[str, Tensor], format: RowFormat) -> None:
    """Raise unless all servers give the same row.

    Args:
        rows: [width] by server.
        format: Of the rows.

    Raises:
        TeacherError: One does not.
    """
    first, *others = rows
    for url in others:
        if (apart := format.distance(rows[url], rows[first])) > SAME:
            raise TeacherError(
                f"teacher servers {first} and {url} serve different models: the same row is off by {100 * apart:.0f} %"
            )
