"""Prompts and responses of the lab's teacher, and which rows of them are wanted."""

import numpy as np
import torch

from escd import lab
from escd.models import load_tokenizer
from escd.teachers import Conversation

from .fake import states

TOKENIZER = load_tokenizer(lab.TEACHER_PATH, "teacher")
QUESTIONS = [f"Tom has {n} shells and finds {n + 5} more. How many shells has he?" for n in (3, 17, 20, 41)]
PROMPTS = [
    TOKENIZER.apply_chat_template([{"role": "user", "content": q}], add_generation_prompt=True)["input_ids"]
    for q in QUESTIONS
]
BATCH = [Conversation(p, list(range(20 + n, 32 + 3 * n))) for n, p in enumerate(PROMPTS)]
ROWS = [np.arange(len(c.response)) for c in BATCH]
ROWS[1] = np.array([0, 3, 7])
ROWS[2] = ROWS[2][:0]


def check(teacher, folder=None, response=60):
    teacher.check(PROMPTS, 1000, response, folder)
    return teacher


def expected():
    parts = []
    for c, rows in zip(BATCH, ROWS, strict=True):
        if len(rows):
            parts.append(states([*c.prompt, *c.response])[rows + len(c.prompt) - 1])
    return torch.cat(parts)
