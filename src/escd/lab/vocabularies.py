"""The two byte-level BPE tokenizers of the lab, built to differ as real ones do.

The teacher has whole words, numbers of two digits, and ``".\\n\\n"`` and ``"):\\n    return"`` as one
token each; the student has word pieces, single digits, and stops and colons apart from the line
breaks. Only the student has ``" How many"`` as one token. Both contain all 256 bytes.
"""

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from .problems import problems
from .tasks import TASKS

TEACHER_SPLIT = r"[^\s\p{L}\p{N}]?\p{L}+| \p{L}+| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]+(?:\n+(?: +\p{L}+)?)?|\n +\p{L}+|\s+"
STUDENT_SPLIT = r" How many| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+"

TEACHER_SIZE = 1000
STUDENT_SIZE = 420

TEACHER_TEMPLATE = """\
{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
STUDENT_TEMPLATE = """\
{%- for message in messages -%}
{{- '<' + message['role'] + '>' + message['content'] -}}
{%- if message['role'] == 'assistant' -%}{{- '<end>' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<assistant>' -}}{%- endif -%}
"""


def _byte_level_bpe(texts: Iterable[str], split: str, size: int, special_tokens: list[str]) -> Tokenizer:
    """A BPE of at most `size` tokens over bytes, which never merges across the matches of `split`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special_tokens,
        initial_alphabet=list(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _wrap(tokenizer: Tokenizer, template: str, **special: str) -> PreTrainedTokenizerFast:
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side="left", model_max_length=256, **special)
    wrapped.chat_template = template
    return wrapped


def tokenizer_corpus() -> list[str]:
    """Texts that both tokenizers are trained on."""
    made = [problem for task in TASKS for problem in problems(4000, seed=1, task=task)]
    texts = [text for problem in made for text in (problem.question, problem.solution)]
    numbers = [f"{blank}{n}" for blank in ("", " ") for n in range(100)]
    return texts + (numbers + ["\n\n"] * 50) * 20


def train_teacher_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Teacher: ChatML turns; ``<|im_end|>`` ends a turn, ``<|endoftext|>`` pads."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer = _byte_level_bpe(texts, TEACHER_SPLIT, TEACHER_SIZE, special)
    return _wrap(tokenizer, TEACHER_TEMPLATE, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def train_student_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Student: one marker a turn, and only the assistant's turn is ended, by ``<end>``."""
    special = ["<pad>", "<system>", "<user>", "<assistant>", "<end>"]
    tokenizer = _byte_level_bpe(texts, STUDENT_SPLIT, STUDENT_SIZE, special)
    return _wrap(tokenizer, STUDENT_TEMPLATE, eos_token="<end>", pad_token="<pad>")
