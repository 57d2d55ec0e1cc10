"""The loss from hidden states, forward and backward, against TRL's chunked divergence, its ULDLoss, and the limit.

usage: OMP_WAIT_POLICY=PASSIVE python benchmarks/loss.py [--quick] [--threads 1]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from assets import text, tokenizer, truncated
from measure import Results, median_seconds, peak_extra_bytes
from trl.trainer.distillation_trainer import _chunked_divergence_loss

from escd import ByteVocab, TokenizerPair, align, objective
from escd.objectives.tiles import Head, tiled_losses

torch.manual_seed(0)


class Setting:
    """Heads, hidden states and the ids of one response of T student tokens."""

    def __init__(self, student, teacher, columns_s: int, columns_t: int, hidden_s: int, hidden_t: int, length: int):
        vocab_s, vocab_t = ByteVocab.from_tokenizer(student), ByteVocab.from_tokenizer(teacher)
        self.pair = TokenizerPair(student=vocab_s, teacher=vocab_t)
        self.objective = objective("escd", self.pair)
        self.head_s = (torch.randn(columns_s, hidden_s) * 0.05).requires_grad_()
        self.head_t = torch.randn(columns_t, hidden_t) * 0.05
        self.tokenizers, self.width = (student, teacher), (hidden_s, hidden_t)
        self.resize(length)

    def resize(self, length: int) -> None:
        """Another response length."""
        student, teacher = self.tokenizers
        self.ids_s = student.encode(text(16 * length), add_special_tokens=False).ids[:length]
        data = self.pair.student.decode(self.ids_s).decode(errors="ignore")
        self.ids_t = teacher.encode(data, add_special_tokens=False).ids
        self.rows = self.objective.rows(align(self.pair, self.ids_s, self.ids_t))
        self.hidden_s = torch.randn(length, self.width[0]).requires_grad_()
        self.hidden_t = torch.randn(len(self.ids_t), self.width[1])
        self.roots_t = self.hidden_t[torch.from_numpy(self.rows.teacher)]

    def escd(self):
        out = tiled_losses(
            self.objective,
            self.rows,
            self.hidden_s,
            Head(self.head_s),
            self.roots_t,
            Head(self.head_t),
            len(self.ids_s),
        )
        return torch.autograd.grad(out.loss, (self.hidden_s, self.head_s))

    def trl(self):
        """Same tokenizer on both sides: every row has a teacher row."""
        n = len(self.ids_s)
        hidden_t = torch.randn(1, n, self.width[1])
        loss, _, _ = _chunked_divergence_loss(
            self.hidden_s[None], hidden_t, self.head_s, self.head_t, torch.ones(1, n), 0.0, n
        )
        return torch.autograd.grad(loss, (self.hidden_s, self.head_s))

    def limit(self):
        """The four head products of the rows that are supervised, in tiles, and nothing else."""
        with torch.no_grad():
            h = self.hidden_s[torch.from_numpy(self.rows.student)]
            grad_head = torch.zeros_like(self.head_s)
            grads = []
            size = max(1, 2**28 // (4 * (2 * len(self.head_s) + len(self.head_t))))
            for part in range(0, len(h), size):
                z = self.head_s @ h[part : part + size].T
                self.head_t @ self.roots_t[part : part + size].T
                grads.append(z.T @ self.head_s)
                grad_head.addmm_(z, h[part : part + size])
            return grads, grad_head


def uld(setting: Setting):
    """TRL's ULDLoss, hybrid, on full logits of both models (it takes no hidden states)."""
    from transformers import PreTrainedTokenizerFast
    from trl.experimental.gold import GOLDConfig
    from trl.experimental.gold.gold_trainer import ULDLoss

    # It reads only the vocabularies; a token of theirs stands in for EOS and pad.
    wrapped = [
        PreTrainedTokenizerFast(tokenizer_object=t, eos_token=t.id_to_token(0), pad_token=t.id_to_token(0))
        for t in setting.tokenizers
    ]
    config = GOLDConfig(
        "unused", use_uld_loss=True, uld_use_hybrid_loss=True, use_extended_uld=True, use_cpu=True, bf16=False
    )
    loss = ULDLoss(config, wrapped[0], wrapped[1], torch.device("cpu"))
    ids = [torch.tensor([i]) for i in (setting.ids_s, setting.ids_t)]
    vocabs = (setting.pair.student, setting.pair.teacher)
    offsets = []
    for vocab, given in zip(vocabs, (setting.ids_s, setting.ids_t), strict=True):
        ends = np.cumsum(vocab.byte_lengths[given])
        offsets.append(np.stack([ends - vocab.byte_lengths[given], ends], 1))

    def run():
        z_s = (setting.hidden_s @ setting.head_s.T)[None]
        z_t = (setting.hidden_t @ setting.head_t.T)[None]
        value = loss(
            z_s, z_t, ids[0], ids[1], ids[0], ids[1], student_byte_offsets=torch.from_numpy(offsets[0])[None],
            teacher_byte_offsets=torch.from_numpy(offsets[1])[None],
        )  # fmt: skip
        return torch.autograd.grad(value, (setting.hidden_s, setting.head_s))

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="T = 256 only, three runs")
    parser.add_argument("--threads", type=int, default=1, help="one thread is what a noisy machine measures best")
    options = parser.parse_args()
    quick = options.quick
    torch.set_num_threads(options.threads)
    results = Results("loss")
    runs = 3 if quick else 5

    # Row 1 and 2 of the table: equal head sizes, different tokenizers.
    big = Setting(tokenizer("glm-4"), tokenizer("qwen-2.5"), 151_936, 151_936, 896, 896, 256)
    for length in (256,) if quick else (256, 1024):
        big.resize(length)
        t = median_seconds({"escd": big.escd, "trl": big.trl, "limit": big.limit}, runs)
        name = f"V=151,936 H=896 T={length}"
        results.add(f"{name}: escd", t["escd"], "s")
        results.add(
            f"{name}: escd / TRL chunked divergence (beta 0, same tokenizer)", t["escd"] / t["trl"], "x", "<= 1.0"
        )
        results.add(f"{name}: escd / head products alone", t["escd"] / t["limit"], "x", "<= 1.5")
        results.add(f"{name}: TRL / head products alone", t["trl"] / t["limit"], "x")
    del big

    small = Setting(truncated(tokenizer("deepseek-v3"), 49_152), tokenizer("qwen-2.5"), 49_152, 151_936, 576, 896, 256)
    t = median_seconds({"escd": small.escd, "uld": uld(small)}, 3)
    results.add("V_T=151,936 V_S=49,152 T=256: TRL ULDLoss hybrid / escd, time", t["uld"] / t["escd"], "x", ">= 100")
    memory = {name: peak_extra_bytes(f) for name, f in (("escd", small.escd), ("uld", uld(small)))}
    results.add(
        "V_T=151,936 V_S=49,152 T=256: escd / ULDLoss, extra memory", memory["escd"] / memory["uld"], "x", "<= 0.1"
    )
    results.add("V_T=151,936 V_S=49,152 T=256: escd, extra memory", memory["escd"] / 2**20, "MiB")
    results.add("V_T=151,936 V_S=49,152 T=256: ULDLoss, extra memory", memory["uld"] / 2**20, "MiB")
    lengths = (256, 1024) if quick else (256, 1024, 4096)
    per_token, extra = {}, {}
    for length in lengths:
        small.resize(length)
        per_token[length] = median_seconds({"escd": small.escd}, 3)["escd"] / length
        extra[length] = peak_extra_bytes(small.escd)
        results.add(f"V_T=151,936 V_S=49,152 T={length}: escd, time per token", 1e3 * per_token[length], "ms")
        results.add(f"V_T=151,936 V_S=49,152 T={length}: escd, extra memory", extra[length] / 2**20, "MiB")
    first, last = lengths[0], lengths[-1]
    results.add(f"time per token, T={last} / T={first}", per_token[last] / per_token[first], "x", "linear: 1")
    results.add(f"extra memory, T={last} / T={first}", extra[last] / extra[first], "x", "constant: 1")
    results.save()


if __name__ == "__main__":
    main()
