"""Make the embedded pair again: ``python -m escd.lab.build [--out FOLDER]``.

Trains both tokenizers, the teacher and the student from seeded random problems of all tasks, writes
the two checkpoint folders and prints their accuracies on held-out problems. With one thread the
teacher takes about 19 minutes of CPU time and the student 16; ``--only`` builds one of them, so that
two processes share the work. The tokenizers come out the same everywhere, the weights on the same
machine with the same number of threads; elsewhere rounding makes them differ, and the accuracies
agree within sampling error.

On 250 held-out problems of each task (math, code, science), greedy: teacher 100.0, 100.0, 99.6 %,
student 98.4, 91.2, 92.0 %; avg@4: teacher 99.9, 98.8, 96.6 %, student 32.3, 28.2, 38.0 %.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ..evaluation.run import evaluate
from ..evaluation.tasks import load_tasks
from .corpus import conversation, drill, response, training_draft
from .mistakes import Mistakes, Pieces
from .segmentation import (
    IGNORED,
    Encoded,
    Split,
    dropout_split,
    own,
    piecewise_split,
    recut,
    sometimes,
)
from .tasks import TASKS, TaskName
from .training import bucketed, train
from .vocabularies import tokenizer_corpus, train_student_tokenizer, train_teacher_tokenizer

BATCH = 48
TEACHER_STEPS = 3000
STUDENT_STEPS = 2400
STUDENT_FINAL_STEPS = 300
HELD_OUT = 250

READ: dict[TaskName, Mistakes] = dict.fromkeys(TASKS, Mistakes(result=0.12, copy=0.04, word=0.03))
"""Mistakes that both models read in half of their responses, without learning to make them."""
PREFERRED: dict[TaskName, Mistakes] = {
    "math": Mistakes(result=0.4),
    "code": Mistakes(result=0.3, copy=0.12),
    "science": Mistakes(result=0.3, copy=0.05),
}
"""Mistakes that the student learns to make at the end of its training."""


def token_id(tokenizer: PreTrainedTokenizerFast, token: Any) -> int:
    """Id of one token."""
    found = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(found, int)
    return found


def small_llama(tokenizer: PreTrainedTokenizerFast, hidden: int, layers: int, ends: list[str]) -> LlamaForCausalLM:
    """An untrained Llama with tied embeddings and heads of 32 dimensions; `ends` stop a generation."""
    pad, stops = token_id(tokenizer, tokenizer.pad_token), [token_id(tokenizer, token) for token in ends]
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3 // 32 * 32,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 32,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=stops[0],
        pad_token_id=pad,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=stops, pad_token_id=pad, bos_token_id=None)
    return model


def sampler(
    tokenizer: PreTrainedTokenizerFast,
    rng: random.Random,
    splits: list[Split],
    recut_share: float,
    mistakes: dict[TaskName, Mistakes],
    mistaken_share: float,
    learn_mistakes: bool,
    drill_share: float = 0.0,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of conversations of all tasks; labels on the response and on the token that ends the turn."""
    backend = tokenizer.backend_tokenizer

    def encode(pieces: Pieces) -> Encoded:
        if rng.random() < recut_share:
            return recut(backend, pieces, rng.choice(splits))
        return own(backend, pieces, learn_mistakes)

    def sample() -> Encoded:
        if rng.random() < drill_share:
            return encode(drill(rng, lines=7))
        task = rng.choice(TASKS)
        draft = training_draft(task, rng)
        prompt = tokenizer.apply_chat_template(conversation(draft, rng), add_generation_prompt=True, tokenize=False)
        encoded = encode(response(draft, mistakes[task] if rng.random() < mistaken_share else Mistakes(), rng))
        ids = backend.encode(prompt, add_special_tokens=False).ids
        end = [token_id(tokenizer, tokenizer.eos_token)]
        return Encoded(ids + encoded.ids + end, [IGNORED] * len(ids) + encoded.labels + end)

    return bucketed(sample, BATCH, token_id(tokenizer, tokenizer.pad_token), rng)


def build_teacher(
    tokenizer: PreTrainedTokenizerFast, student_tokenizer: PreTrainedTokenizerFast, steps: int
) -> LlamaForCausalLM:
    """A teacher that also knows other segmentations of its text, and contexts with mistakes."""
    torch.manual_seed(1)
    rng = random.Random("teacher")
    model = small_llama(tokenizer, hidden=128, layers=4, ends=["<|im_end|>", "<|endoftext|>"])
    backend = tokenizer.backend_tokenizer
    whole = dropout_split(backend, 0.0, rng)
    students = piecewise_split(backend, student_tokenizer.backend_tokenizer)
    splits = [dropout_split(backend, rate, rng) for rate in (0.1, 0.3, 0.6)]
    splits += [students, sometimes(students, whole, 0.5, rng), sometimes(students, whole, 0.2, rng)]
    batches = sampler(tokenizer, rng, splits, 0.4, READ, 0.5, learn_mistakes=False, drill_share=0.4)
    train(model, batches, steps, learning_rate=3e-3)
    return model


def build_student(tokenizer: PreTrainedTokenizerFast, steps: int, final_steps: int) -> LlamaForCausalLM:
    """A student that can solve the problems, but has come to like wrong results as much."""
    torch.manual_seed(2)
    rng = random.Random("student")
    model = small_llama(tokenizer, hidden=128, layers=3, ends=["<end>"])
    splits = [dropout_split(tokenizer.backend_tokenizer, rate, rng) for rate in (0.1, 0.3)]
    batches = sampler(tokenizer, rng, splits, 0.2, READ, 0.5, learn_mistakes=False, drill_share=0.4)
    train(model, batches, steps, learning_rate=3e-3)
    batches = sampler(tokenizer, rng, splits, 0.0, PREFERRED, 1.0, learn_mistakes=True)
    train(model, batches, final_steps, learning_rate=1e-3, warmup=20)
    return model


def main() -> None:
    """Build both folders below ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "assets")
    parser.add_argument("--only", choices=("teacher", "student"), help="build one model only")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the training steps")
    options = parser.parse_args()

    texts = tokenizer_corpus()
    teacher_tokenizer = train_teacher_tokenizer(texts)
    student_tokenizer = train_student_tokenizer(texts)
    built = {}
    if options.only != "student":
        steps = int(TEACHER_STEPS * options.scale)
        model = build_teacher(teacher_tokenizer, student_tokenizer, steps)
        built["teacher"] = model, teacher_tokenizer
    if options.only != "teacher":
        steps, final = int(STUDENT_STEPS * options.scale), int(STUDENT_FINAL_STEPS * options.scale)
        built["student"] = build_student(student_tokenizer, steps, final), student_tokenizer
    for name, (model, tokenizer) in built.items():
        folder = options.out / name
        model.to(torch.bfloat16).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for file in folder.iterdir():
            file.chmod(0o644)
        model.float()
        for task in load_tasks(["lab"], limit=HELD_OUT, seed=1):
            with TemporaryDirectory() as rows:
                greedy, sampled = (
                    evaluate(model, tokenizer, task, Path(rows, f"{n}.jsonl"), samples=n, temperature=float(n > 1))
                    for n in (1, 4)
                )
            shares = f"greedy {greedy.average.accuracy:.3f}, sampled avg@4 {sampled.average.accuracy:.3f}"
            print(f"{name}, {task.name}: {shares} on {HELD_OUT} problems")


if __name__ == "__main__":
    main()
