"""Where the child loss has something to do: the teacher's mass that it supervises, by task and by kind of token.

usage: OMP_WAIT_POLICY=PASSIVE python benchmarks/child_mass.py [--student FOLDER] [--teacher FOLDER] [--problems 100]
"""

from __future__ import annotations

import argparse
from collections import Counter

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from escd import ByteVocab, TokenizerPair, align, lab, objective
from escd.chat import Bridge, render_prompt
from escd.evaluation.sampling import sample
from escd.objectives.maths import ragged
from escd.teachers.base import Conversation
from escd.teachers.local import head_of, last_hidden

KINDS = ("numbers", "line ends", "words", "signs")


def kind(data: bytes) -> str:
    """What sort of text a teacher token is."""
    text = data.decode(errors="replace")
    if text.strip().isdigit():
        return "numbers"
    if "\n" in text:
        return "line ends"
    if any(c.isalpha() for c in text):
        return "words"
    return "signs"


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--student", default=lab.STUDENT_PATH)
    parser.add_argument("--teacher", default=lab.TEACHER_PATH)
    parser.add_argument("--problems", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    models = [
        AutoModelForCausalLM.from_pretrained(p, dtype=torch.float32).eval() for p in (options.student, options.teacher)
    ]
    tokenizers = [AutoTokenizer.from_pretrained(p) for p in (options.student, options.teacher)]
    vocabs = [ByteVocab.from_tokenizer(t, m.generation_config) for t, m in zip(tokenizers, models, strict=True)]
    pair = TokenizerPair(student=vocabs[0], teacher=vocabs[1])
    bridge, escd = Bridge(*vocabs), objective("escd", pair)
    heads = ("task", "rows", "roots", "child rows", "mass per child row", "P(completion)", *KINDS)
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for task in lab.TASKS:
        asked = lab.problems(options.problems, seed=7, split="test", task=task)
        found = sample(models[0], tokenizers[0], [p.prompt for p in asked], max_new_tokens=80, seed=7)
        masses: Counter[str] = Counter()
        rows = roots = children = 0
        completed = 0.0
        for problem, (answer,) in zip(asked, found, strict=True):
            ids_s = vocabs[0].encode(answer.text.encode())[0] + [vocabs[0].preferred_stop] * answer.finished
            ids_t = bridge.to_teacher(ids_s).ids
            z_s, z_t = (
                logits(model, render_prompt(tokenizer, problem.prompt), ids)
                for model, tokenizer, ids in zip(models, tokenizers, (ids_s, ids_t), strict=True)
            )
            each = escd.rows(align(pair, ids_s, ids_t))
            log_q, log_p = z_t[each.teacher].log_softmax(-1), z_s[each.student].log_softmax(-1)
            normal = (log_q.T, log_q.new_zeros(len(log_q))), (log_p.T, log_p.new_zeros(len(log_p)))
            sets = escd.sets.find(each.links, *normal)
            starts, counts = (torch.from_numpy(a[each.links.action]) for a in (escd.sets.start, escd.sets.count))
            group = torch.from_numpy(escd.sets.group)[ragged(starts, counts)[0]]
            for g, mass in zip(group.tolist(), sets.mass.tolist(), strict=True):
                masses[kind(pair.group_bytes[g])] += mass
            completed += float((sets.mass * sets.log_p.exp()).sum())
            rows, roots, children = rows + each.total, roots + each.counts["root"], children + each.counts["child"]
        whole = sum(masses.values())
        shares = " | ".join(f"{100 * masses[k] / whole:.0f} %" for k in KINDS)
        print(
            f"| {task} | {rows} | {100 * roots / rows:.0f} % | {100 * children / rows:.0f} % | {whole / children:.2f} "
            f"| {completed / whole:.2f} | {shares} |"
        )


def logits(model, prompt: list[int], response: list[int]) -> torch.Tensor:
    """[n, V], row i predicts response[i]."""
    hidden, (start,) = last_hidden(model, [Conversation(prompt, response)])
    return hidden[0, start : start + len(response)] @ head_of(model).weight.T


if __name__ == "__main__":
    main()
