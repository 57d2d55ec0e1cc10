"""Building and loading a TokenizerPair, and aligning a long response.

usage: python benchmarks/pair_and_align.py
"""

from __future__ import annotations

import tempfile

import numpy as np
from assets import text, tokenizer
from measure import Results, median_seconds

from escd import ByteVocab, TokenizerPair, align, objective


def main() -> None:
    results = Results("pair_and_align")
    teacher, student = tokenizer("qwen-2.5"), tokenizer("qwen-3.5")
    vocab_t, vocab_s = ByteVocab.from_tokenizer(teacher), ByteVocab.from_tokenizer(student)

    pair = TokenizerPair(vocab_s, vocab_t)
    escd = objective("escd", pair)
    ids_s = student.encode(text(40_000), add_special_tokens=False).ids[:4096]
    ids_t = teacher.encode(vocab_s.decode(ids_s).decode(errors="ignore"), add_special_tokens=False).ids
    ids_s, ids_t = np.array(ids_s), np.array(ids_t)
    t = median_seconds({"align": lambda: escd.rows(align(pair, ids_s, ids_t))}, runs=301)
    results.add("align + index arrays, 4,096 tokens", 1e3 * t["align"], "ms", "<= 1")
    results.add("align + index arrays, per token", 1e9 * t["align"] / 4096, "ns", "<= 250")

    def fresh() -> tuple[ByteVocab, ByteVocab]:
        """Without what the first use computed."""
        return ByteVocab(vocab_s.token_bytes, vocab_s.stop_ids), ByteVocab(vocab_t.token_bytes, vocab_t.stop_ids)

    with tempfile.TemporaryDirectory() as folder:
        vocabs = fresh()
        TokenizerPair.cached(*vocabs, folder)
        t = median_seconds(
            {
                "fresh": fresh,
                "cold": lambda: TokenizerPair(*fresh()),
                "cached": lambda: TokenizerPair.cached(*fresh(), folder),
            }
        )
    results.add(f"TokenizerPair {len(vocab_t):,} x {len(vocab_s):,}, cold", t["cold"] - t["fresh"], "s", "<= 3")
    results.add(
        f"TokenizerPair {len(vocab_t):,} x {len(vocab_s):,}, from cache", t["cached"] - t["fresh"], "s", "<= 0.2"
    )

    results.save()


if __name__ == "__main__":
    main()
