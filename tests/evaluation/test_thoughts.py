"""Thoughts in an evaluation: what is thought is no answer, whoever has written its first marker."""

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from escd.evaluation import run
from escd.evaluation.run import evaluate
from escd.evaluation.sampling import Sample, _sample
from escd.evaluation.tasks import Question, Task

TASK = Task("mine/cats", "choice", (Question("q", [{"role": "user", "content": "cat?"}], {"answer": "A"}),))


@pytest.mark.parametrize(
    ("prefill", "response", "right"),
    [
        ("<think>\n", "Answer: A", 0),  # cut before the thought ends
        ("<think>\n", "hm</think>Answer: A", 1),
        ("<think>\n", "Answer: A</think>Answer: B", 0),
        ("<think>\n\n</think>\n\n", "Answer: A", 1),
        ("", "Answer: A", 1),
    ],
)
def test_a_thought_that_the_template_has_opened(pair_dir, tmp_path, monkeypatch, prefill, response, right):
    model = AutoModelForCausalLM.from_pretrained(pair_dir / "student")
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    tokenizer.chat_template = tokenizer.chat_template.replace("assistant\n", "assistant\n" + prefill)
    seen = []

    def answered(model, tokenizer, prompts, *args, **kwargs):
        seen.extend(prompts)
        yield {(0, 0): Sample(response, [1, 2, 3], True)}

    monkeypatch.setattr(run, "sample_batches", answered)
    found = evaluate(model, tokenizer, TASK, tmp_path / "cats.jsonl", samples=1, max_new_tokens=4)
    assert tokenizer.decode(seen[0]).endswith("assistant\n" + prefill)
    assert found.average.accuracy == right


@pytest.mark.parametrize("special", [True, False])
def test_markers_stay_in_the_text_and_other_special_tokens_do_not(pair_dir, special):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    tokenizer.add_tokens(["<think>", "</think>"], special_tokens=special)
    ids = tokenizer("<think>the cat<pad></think><s>sat</s>the", add_special_tokens=False)["input_ids"]
    found = _sample(tokenizer, ids, [tokenizer.eos_token_id])
    assert (found.text, found.finished) == ("<think>the cat</think>sat", True)
