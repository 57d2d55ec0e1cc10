"""A real vLLM server as a subprocess, from the environment that `build_vllm.sh` makes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import httpx

VENV = Path(os.environ.get("ESCD_VLLM_VENV") or Path.home() / ".cache" / "escd" / "vllm")
POOLING = [
    "--runner", "pooling", "--convert", "embed", "--pooler-config",
    '{"task":"token_embed","use_activation":false}',
]  # fmt: skip


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class VLLMServer:
    """Serves a model until it is killed; `start` may be called again.

    Args:
        model: Folder of the model.
        flags: Further flags of vLLM's server.
    """

    def __init__(self, model: str, *flags: str):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [
            str(VENV / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1",
            "--port", str(self.port), "--model", str(model), "--dtype", "float32", "--enforce-eager", *flags,
        ]  # fmt: skip
        self.process: subprocess.Popen | None = None
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115

    def start(self, wait: float = 600) -> VLLMServer:
        env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        env.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            self.command, stdout=self.log, stderr=subprocess.STDOUT, env=env, start_new_session=True,
            cwd=tempfile.gettempdir(),
        )  # fmt: skip
        end = time.monotonic() + wait
        while wait and time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"vLLM ended: {Path(self.log.name).read_text()[-3000:]}")
            try:
                if httpx.get(f"{self.url}/health", timeout=2).status_code == 200:
                    return self
            except httpx.HTTPError:
                time.sleep(0.5)
        if wait:
            raise RuntimeError(f"vLLM did not start in {wait} s: {Path(self.log.name).read_text()[-3000:]}")
        return self

    def kill(self) -> None:
        """As a machine that goes down: nothing is finished, no connection is closed properly."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def close(self) -> None:
        self.kill()
        self.log.close()
