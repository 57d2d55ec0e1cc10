"""A tiny random pair with different byte-level BPE tokenizers and chat templates, saved as any user's models are."""

from __future__ import annotations

import os

# Before torch is imported: contended threads that spin would make these small models ten times slower.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from pathlib import Path

import pytest

STUDENT_TEXT = ["the cat sat on the mat. the dog ran to the park. apples 12 + 7 = 19"]
TEACHER_TEXT = [
    *STUDENT_TEXT,
    "the cat sat on the mat.\n\nthe cats sat on the mats.\n\nthe dogs ran to the parks.\n\n" * 4,
    "apples and oranges, 12 + 7 = 19.\n\nbread breads break breaks 12 12 19 19" * 4,
]


def make_tokenizer(folder: Path, text: list[str], size: int, specials: tuple[str, str, str], **kwargs):
    """A byte-level BPE tokenizer with end-of-turn, pad and start-of-turn tokens, and a template that uses them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    end, pad, start = specials
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=list(specials), show_progress=False
    )
    backend.train_from_iterator(text, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=end, pad_token=pad, additional_special_tokens=[start], **kwargs
    )
    tokenizer.chat_template = (
        "{% for m in messages %}" + start + "{{ m['role'] }}\n{{ m['content'] }}" + end + "{% endfor %}"
        "{% if add_generation_prompt %}" + start + "assistant\n{% endif %}"
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_model(folder: Path, tokenizer, seed: int, **config):
    """A two-layer Llama with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(
        LlamaConfig(
            **{
                "vocab_size": len(tokenizer), "num_key_value_heads": 2, "max_position_embeddings": 256,
                "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id,
                "bos_token_id": None, "initializer_range": 0.2, **sizes, **config,
            }
        )
    )  # fmt: skip
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="session")
def pair_dir(tmp_path_factory) -> Path:
    """Folder with `student` and `teacher`: weights and tokenizers."""
    folder = tmp_path_factory.mktemp("pair")
    student = make_tokenizer(folder / "student", STUDENT_TEXT, 285, ("</s>", "<pad>", "<s>"))
    make_model(folder / "student", student, seed=1)
    teacher = make_tokenizer(folder / "teacher", TEACHER_TEXT, 420, ("<|im_end|>", "<|pad|>", "<|im_start|>"))
    make_model(folder / "teacher", teacher, seed=2, hidden_size=48)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Tests never read or write the user's cache of pairs."""
    os.environ["ESCD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
