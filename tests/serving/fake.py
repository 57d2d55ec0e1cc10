"""A server in this process that speaks vLLM's protocol for the lab's teacher, and plays the faults it is told to."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from escd import lab

NAME, LENGTH = "lab/teacher", 256
MODEL = AutoModelForCausalLM.from_pretrained(lab.TEACHER_PATH, dtype=torch.float32)


@torch.no_grad()
def states(ids):
    """Last hidden states [n, H] of a sequence."""
    return MODEL.model(input_ids=torch.tensor([ids])).last_hidden_state[0]


class FakeServer:
    """Serves until it is closed.

    Attributes:
        faults: Functions `fault(handler)` that answer the next requests for rows instead of the model; one that
            returns a function has it applied to the states of the request's answer.
        always: The same for every such request.
        pooling: Whether it has /pooling, or else /v1/completions.
        models: What /v1/models offers.
        asked: Bodies of all requests for rows.
    """

    def __init__(self, port=0, pooling=True, name=NAME, length=LENGTH):
        self.faults, self.always, self.asked, self.pooling = deque(), None, [], pooling
        self.max_logprobs, self.connections = 20, []
        self.models = [{"id": name, "root": lab.TEACHER_PATH, "max_model_len": length}]
        self.http = ThreadingHTTPServer(("127.0.0.1", port), type("Handler", (_Handler,), {"fake": self}))
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        for connection in self.connections:  # those kept alive too
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer
    protocol_version = "HTTP/1.1"
    missing = 0  # bytes that the next answer lacks

    def setup(self):
        super().setup()
        self.fake.connections.append(self.connection)

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        self.json(200, {"data": self.fake.models}) if self.path == "/v1/models" else self.json(404, {"detail": "no"})

    def do_POST(self):
        self.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        fake = self.fake
        if (self.path == "/pooling") != fake.pooling:
            return self.json(404, {"detail": "Not Found"})
        if self.body["model"] not in [m["id"] for m in fake.models]:
            return self.error(404, f"The model `{self.body['model']}` does not exist.")
        fake.asked.append(self.body)
        fault, change = fake.faults.popleft() if fake.faults else fake.always, None
        if fault is not None and (change := fault(self)) is None:
            return None
        return self.rows(change) if fake.pooling else self.logprobs()

    def sequences_fit(self, sequences, ahead):
        for ids in sequences:
            if bad := [i for i in ids if not 0 <= i < MODEL.config.vocab_size]:
                return self.error(400, f"Token id {bad[0]} is out of vocabulary")
            if len(ids) + ahead > LENGTH:
                return self.error(400, f"This model's maximum context length is {LENGTH} tokens.")
        return True

    def rows(self, change=None):
        """The answer of /pooling."""
        dtype, parts, items, start = self.body["embed_dtype"], [], [], 0
        if not self.sequences_fit(self.body["input"], 0):
            return
        for index, ids in enumerate(self.body["input"]):
            h = states(ids)
            h = h if change is None else change(h)
            data = h.to(getattr(torch, dtype)).contiguous().view(torch.uint8).numpy().tobytes()
            items.append({"index": index, "embed_dtype": dtype, "endianness": "little", "start": start,
                          "end": start + len(data), "shape": list(h.shape)})  # fmt: skip
            parts.append(data)
            start += len(data)
        self.send(200, b"".join(parts), "application/octet-stream", {"metadata": json.dumps({"data": items})})

    def logprobs(self):
        """The answer of /v1/completions: with `prompt_logprobs`, or with the token 9 until the length is reached."""
        k, prompts = self.body.get("prompt_logprobs"), self.body["prompt"]
        if k is None:
            ids = [9] * (self.body["max_tokens"] - 1) + self.body["stop_token_ids"][:1]
            return self.json(200, {"choices": [{"index": 0, "text": "?", "token_ids": ids}]})
        if not self.sequences_fit(prompts, self.body["max_tokens"]):
            return
        if k > self.fake.max_logprobs:
            self.error(400, f"Requested prompt logprobs of {k}, which is greater than max allowed: 20")
            return
        choices = []
        for index, ids in enumerate(prompts):
            log_q = MODEL.lm_head(states(ids)).log_softmax(-1).detach()
            rows = [None]
            for row, token in zip(log_q, ids[1:], strict=False):
                order = row.argsort(descending=True)
                told = {int(t): r + 1 for r, t in enumerate(order[:k])}
                told = {token: int((row >= row[token]).sum()), **told}
                rows.append({str(t): {"logprob": float(row[t]), "rank": r, "decoded_token": "?"}
                             for t, r in told.items()})  # fmt: skip
            choices.append({"index": index, "text": "?", "prompt_logprobs": rows})
        self.json(200, {"choices": choices})

    def error(self, status, message, headers=None):
        self.json(status, {"error": {"message": message, "code": status}}, headers)

    def json(self, status, content, headers=None):
        self.send(status, json.dumps(content).encode(), "application/json", headers)

    def send(self, status, data, kind, headers=None):
        data, self.missing = data[: len(data) - self.missing], 0
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):  # the client gave up
            self.wfile.write(data)


# -- faults -----------------------------------------------------------------------------------------------------


def status(code, message="busy", **headers):
    """An error."""
    return lambda handler: handler.error(code, message, {k.replace("_", "-"): v for k, v in headers.items()})


def html(handler):
    """What a proxy says that has no server behind it."""
    page = b"<html><head><title>502</title></head><body><h1>Bad\n Gateway</h1></body></html>"
    handler.send(502, page, "text/html")


def garbage(handler):
    """Bytes without a header that explains them."""
    handler.send(200, b"\x00garbage\xff" * 50, "application/octet-stream")


def cut(handler):
    """A connection that breaks off in the middle of the answer."""
    handler.send_response(200)
    handler.send_header("content-length", "100000")
    handler.end_headers()
    handler.wfile.write(b"x" * 100)
    handler.close_connection = True


def drip(handler):
    """A byte now and then, for ever."""
    handler.send_response(200)
    handler.send_header("content-length", "100000")
    handler.end_headers()
    try:
        for _ in range(400):
            handler.wfile.write(b"x")
            time.sleep(0.02)
    except OSError:
        pass
    handler.close_connection = True


def short_body(handler):
    """A body with less than its header says."""
    handler.missing = 8
    return lambda h: h


def no_rows(handler):
    """A row too few of each sequence."""
    return lambda h: h[:-1]


def narrow(handler):
    """States of another size."""
    return lambda h: h[:, :96]


def nan_at(row):
    """NaN in one row of each sequence."""

    def fault(handler):
        def change(h):
            h = h.clone()
            h[row, 3] = torch.nan
            return h

        return change

    return fault


def unit_norm(handler):
    """States that were normalised."""
    return lambda h: torch.nn.functional.normalize(h, dim=-1)


def other_weights(seed):
    """States of a model with other weights."""
    q = torch.linalg.qr(torch.from_numpy(np.random.default_rng(seed).normal(size=(128, 128))).float())[0]
    return lambda handler: lambda h: h @ q


def changed(factor):
    """States that are a little off."""
    return lambda handler: lambda h: h * factor
