"""Requests to the servers of one teacher: several at once, spread over all of them, tried again until a deadline."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from ...errors import ConfigError, TeacherError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_BUSY = {408, 425, 429, 500, 502, 503, 504}  # answers that another try may change
_LONGEST_WAIT = 10.0  # seconds between tries, so that a server that is back is noticed soon
_START = 120.0  # seconds for an answer at the start of a run; the first one of a server is its slowest
_BAD_ANSWERS = 3  # answers that cannot be read before a request is given up


class BadAnswer(Exception):
    """An answer that is not what was asked for: cut off, of another shape, no answer of this kind of server."""


@dataclass
class Traffic:
    """What the servers cost: requests answered, tries that failed, bytes received, seconds spent waiting for them."""

    requests: int = 0
    retries: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass
class _Server:
    url: str
    active: int = 0  # requests under way
    failures: int = 0  # tries that failed since the last that did not
    rests_until: float = 0.0
    trouble: str = "not asked yet"


class Servers:
    """HTTP servers that all serve the same model.

    Args:
        urls: Their addresses, with or without `/v1` at the end.
        deadline: Seconds after which a request that no server answers is given up.
        concurrency: Requests under way at once, per server.

    Raises:
        ConfigError: Something that is no address.
    """

    def __init__(self, urls: Sequence[str], deadline: float = 600.0, concurrency: int = 8):
        self.servers = [_Server(_address(url)) for url in dict.fromkeys(urls)]
        self.deadline, self.concurrency = deadline, concurrency
        self.traffic = Traffic()
        # vLLM's own name for the key that it asks for.
        key = os.environ.get("VLLM_API_KEY")
        self._client = httpx.AsyncClient(
            headers={"authorization": f"Bearer {key}"} if key else {},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=concurrency * len(self.servers)),
            timeout=httpx.Timeout(None, connect=10.0),
        )
        # A loop of its own thread: it keeps connections open between steps, and a notebook has a loop already.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="teacher servers", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._client)

    @property
    def urls(self) -> list[str]:
        """Addresses, as requests use them."""
        return [server.url for server in self.servers]

    def close(self) -> None:
        """Close all connections."""
        self._finalizer()
        self._thread.join()

    def ask(self, url: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """One answer of one server, whatever its status; nothing is tried again.

        Raises:
            TeacherError: There is none.
        """

        async def once() -> httpx.Response:
            async with asyncio.timeout(min(self.deadline, _START)):
                return await self._client.request(method, url + path, json=body)

        try:
            return self._wait(once())
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise TeacherError(
                f"teacher server {url} does not answer ({_reason(error)}); start it, or mend --teacher_server_url"
            ) from error

    def map(self, path: str, bodies: Sequence[Any], read: Callable[[int, httpx.Response], T]) -> list[T]:
        """Post every body, and read the answers.

        Args:
            path: Of the endpoint.
            bodies: JSON of each request. Requests change nothing on a server, so they may be sent again.
            read: Turns the number of a request and its answer into a result; raises `BadAnswer` if it cannot.

        Raises:
            TeacherError: A request that was refused, or that no server answered before the deadline.
        """
        start = time.perf_counter()
        try:
            return self._wait(self._all(path, bodies, read))
        finally:
            self.traffic.seconds += time.perf_counter() - start

    # -- on the loop's thread -----------------------------------------------------------------------------------

    async def _all(self, path: str, bodies: Sequence[Any], read: Callable[[int, httpx.Response], T]) -> list[T]:
        slots = asyncio.Semaphore(self.concurrency * len(self.servers))

        async def one(number: int, body: Any) -> T:
            async with slots:
                return await self._until_answered(path, body, lambda answer: read(number, answer))

        tasks = [asyncio.create_task(one(number, body)) for number, body in enumerate(bodies)]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_answered(self, path: str, body: Any, read: Callable[[httpx.Response], T]) -> T:
        end, bad = time.monotonic() + self.deadline, 0
        while True:
            now = time.monotonic()
            server = min(self.servers, key=lambda s: (max(s.rests_until - now, 0), s.active))
            if now >= end:
                raise TeacherError(
                    f"no teacher server answered within {self.deadline:g} s: "
                    + ", ".join(f"{s.url} ({s.trouble})" for s in self.servers)
                )
            if (rest := min(server.rests_until, end) - now) > 0:
                await asyncio.sleep(rest)
                continue
            server.active += 1
            try:
                # A server that sends a byte now and then is as good as none.
                async with asyncio.timeout(min(end - now, max(self.deadline / 3, 1.0))):
                    answer = await self._client.post(server.url + path, json=body)
                self.traffic.bytes += len(answer.content)
                if answer.status_code not in _BUSY:
                    found = self._read(server, answer, read)
                    self.traffic.requests += 1
                    server.failures = 0
                    return found
                self._rest(server, f"{answer.status_code}: {quoted(answer)}", _retry_after(answer))
            except BadAnswer as error:
                bad += 1
                if bad == _BAD_ANSWERS:
                    raise TeacherError(f"teacher server {server.url}: {error} ({bad} times in a row)") from error
                self._rest(server, str(error))
            except (httpx.HTTPError, TimeoutError) as error:
                self._rest(server, _reason(error))
            finally:
                server.active -= 1

    def _read(self, server: _Server, answer: httpx.Response, read: Callable[[httpx.Response], T]) -> T:
        if answer.status_code != 200:
            raise TeacherError(
                f"teacher server {server.url} refuses a request: {answer.status_code}: {quoted(answer)}"
            )
        return read(answer)

    def _rest(self, server: _Server, trouble: str, at_least: float = 0.0) -> None:
        """Leave a server alone for a while: twice as long after each failure, give or take, so that tries spread."""
        self.traffic.retries += 1
        now = time.monotonic()
        if not server.failures:
            logger.warning("teacher server %s: %s; trying again for %g s", server.url, trouble, self.deadline)
        # What fails while it rests already was under way before.
        if server.rests_until <= now:
            wait = min(0.25 * 2**server.failures, _LONGEST_WAIT) * random.uniform(0.5, 1.5)
            server.failures = min(server.failures + 1, 10)
            server.rests_until = now + wait
        server.rests_until = max(server.rests_until, now + at_least)
        server.trouble = trouble

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C above all: nothing is left under way
            future.cancel()
            raise


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    closed = asyncio.run_coroutine_threadsafe(client.aclose(), loop)
    closed.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))


def _address(url: str) -> str:
    found = re.fullmatch(r"(https?://[^/\s]+(?:/[^\s]*?)?)/?(?:v1/?)?", url)
    if not found:
        raise ConfigError(f"--teacher_server_url {url!r} is no address; give one like http://127.0.0.1:8000")
    return found.group(1).rstrip("/")


def quoted(answer: httpx.Response) -> str:
    """What an error says, in one short line: vLLM's message, or the text of whatever else answered."""
    text = answer.text
    with suppress(ValueError, AttributeError):
        content = json.loads(text)
        error = content.get("error", content)
        text = str(error.get("message") or error.get("detail") or text)
    text = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    return repr(text[:200] + ("..." if len(text) > 200 else ""))


def _reason(error: BaseException) -> str:
    """Why there was no answer."""
    if isinstance(error, TimeoutError):
        return "no whole answer in time"
    if isinstance(error, httpx.ConnectError):
        return "connection refused" if "ttempts failed" in str(error) or not str(error) else str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _retry_after(answer: httpx.Response) -> float:
    """Seconds that a `Retry-After` header asks for, as a number or as a date."""
    text = answer.headers.get("retry-after", "")
    with suppress(ValueError):
        return max(float(text), 0.0)
    with suppress(ValueError, TypeError):
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    return 0.0
