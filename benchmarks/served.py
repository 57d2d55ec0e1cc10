"""Exact rows of a vLLM server against its full-vocabulary `prompt_logprobs`: bytes and seconds per row.

usage: python benchmarks/served.py [ROWS of prompt_logprobs]      (after `make vllm`)

The model is random, of the size of SmolLM2-135M's head: 49,152 tokens, hidden size 576. Its logits cost what any cost.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import Results
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from vllm_server import POOLING, VLLMServer

from escd.objectives.tiles import Head, logits_of
from escd.teachers.served.client import Servers
from escd.teachers.served.formats import RowFormat, States, TopK

VOCABULARY, HIDDEN, ROWS = 49_152, 576, 1024


def make_model(folder: Path) -> torch.Tensor:
    """A random model with its tokenizer; its head."""
    torch.manual_seed(0)
    tokenizer = Tokenizer(models.WordLevel({f"t{i}": i for i in range(VOCABULARY)}, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="t1", pad_token="t0").save_pretrained(folder)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=1536, num_hidden_layers=4,
            num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=2 * ROWS, tie_word_embeddings=True,
            bos_token_id=1, eos_token_id=1, pad_token_id=0,
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    return model.lm_head.weight.detach()


def measured(servers: Servers, format: RowFormat, name: str, rows: int) -> tuple[float, float, torch.Tensor]:
    """Seconds and bytes per row, and the rows."""
    ids = np.random.default_rng(0).integers(2, VOCABULARY, rows + format.ahead).tolist()
    body, wanted = format.body(name, [ids]), [np.arange(rows)]

    def read(_, answer):
        return format.read(answer, [ids], wanted)[0]

    servers.map(format.path, [format.body(name, [ids[:8]])], lambda *_: None)  # the first request of all is slower
    before, start = servers.traffic.bytes, time.perf_counter()
    (found,) = servers.map(format.path, [body], read)
    return (time.perf_counter() - start) / rows, (servers.traffic.bytes - before) / rows, found


def main() -> None:
    few = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    results, figures = Results("served"), {}
    with tempfile.TemporaryDirectory() as folder:
        head = Head(make_model(Path(folder)))
        flags = ["--served-model-name", "model"]
        for name, server_flags, asked in (
            ("bfloat16 states", POOLING, (States("bfloat16", HIDDEN), ROWS)),
            ("float32 states", POOLING, (States("float32", HIDDEN), ROWS)),
            ("top 20", ["--max-logprobs", str(VOCABULARY)], (TopK(20, VOCABULARY), ROWS)),
            ("all log-probabilities", ["--max-logprobs", str(VOCABULARY)], (TopK(VOCABULARY, VOCABULARY), few)),
        ):
            server = VLLMServer(folder, *flags, *server_flags).start()
            servers = Servers([server.url], deadline=3600)
            try:
                figures[name] = measured(servers, asked[0], "model", asked[1])
            finally:
                servers.close()
                server.close()
            seconds, size, _ = figures[name]
            results.add(f"{name}, time per row", 1e3 * seconds, "ms")
            results.add(f"{name}, bytes per row", size, "B", "2 x 576" if name.startswith("bf") else "")
    start = time.perf_counter()
    states = figures["float32 states"][2]
    for part in states.split(128):
        logits_of(head, part)
    product = (time.perf_counter() - start) / ROWS
    results.add("the trainer's own product with the head, time per row", 1e3 * product, "ms")
    slow = figures["all log-probabilities"][0]
    results.add("all log-probabilities / bfloat16 states, time", slow / figures["bfloat16 states"][0], "x", ">= 100")
    fast = figures["bfloat16 states"][0] + product
    results.add("all log-probabilities / (bfloat16 states and product), time", slow / fast, "x")
    results.add(
        "all log-probabilities / bfloat16 states, bytes",
        figures["all log-probabilities"][1] / figures["bfloat16 states"][1], "x",
    )  # fmt: skip
    results.save()


if __name__ == "__main__":
    main()
