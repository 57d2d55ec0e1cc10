"""What both models see of a row: the writer's prefilled thought, tools, conversations of several answers."""

import json

import pytest
from datasets import Dataset, DatasetDict, IterableDataset
from transformers import AutoTokenizer

import escd
from escd.training.data import load_prompts, split_conversations
from escd.training.turns import Side, read_turn

USER = {"role": "user", "content": "the cat"}
HEADERS = {"student": "<s>assistant\n", "teacher": "<|im_start|>assistant\n"}


def side(pair_dir, who, prefill="", body=None):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / who)
    tokenizer.chat_template = tokenizer.chat_template.replace("assistant\n", "assistant\n" + prefill)
    if body:
        tokenizer.chat_template = tokenizer.chat_template.replace("{{ m['content'] }}", body)
    return Side(tokenizer, {})


def seen(pair_dir, source, student="", teacher="", body=None, **row):
    mine, theirs = side(pair_dir, "student", student, body), side(pair_dir, "teacher", teacher)
    vocab = escd.ByteVocab.from_tokenizer(mine.tokenizer)
    found = read_turn({"prompt": [USER], **row}, source, mine, theirs, vocab)
    texts = mine.tokenizer.decode(found.student), theirs.tokenizer.decode(found.teacher)
    for text, who in zip(texts, ("student", "teacher"), strict=True):
        assert HEADERS[who] in text
    ends = [text.rpartition(HEADERS[who])[2] for text, who in zip(texts, ("student", "teacher"), strict=True)]
    given = None if found.given is None else mine.tokenizer.decode(found.given)
    return ends, given


OPEN, EMPTY = "<think>\n", "<think>\n\n</think>\n\n"


@pytest.mark.parametrize(
    ("source", "student", "teacher", "expected"),
    [
        ("student", OPEN, "", OPEN),
        ("student", "", OPEN, ""),
        ("student", EMPTY, OPEN, EMPTY),
        ("student", OPEN, OPEN, OPEN),
        ("student", "", "", ""),
        ("teacher", "", OPEN, OPEN),
        ("teacher", OPEN, "", ""),
        ("teacher", EMPTY, OPEN, OPEN),
    ],
)
def test_both_prompts_end_with_what_the_writer_finds(pair_dir, source, student, teacher, expected):
    assert seen(pair_dir, source, student, teacher) == ([expected, expected], None)


@pytest.mark.parametrize(
    ("prefill", "completion", "expected"),
    [
        ("", "sat", ""),
        (OPEN, "<think>\nhm</think>sat", ""),  # brings its own thought
        (OPEN, "hm</think>sat", OPEN),  # goes on with the template's
        (OPEN, "sat", ""),  # no thought at all
        (EMPTY, "sat", EMPTY),
        (EMPTY, EMPTY + "sat", ""),
        ("</think>", "sat", "</think>"),
    ],
)
@pytest.mark.parametrize("as_message", [True, False])
def test_a_given_response_stands_behind_what_fits(pair_dir, prefill, completion, expected, as_message):
    given = [{"role": "assistant", "content": completion}] if as_message else completion
    assert seen(pair_dir, "dataset", prefill, OPEN, completion=given) == ([expected, expected], completion + "</s>")


def test_a_given_response_keeps_its_bytes(pair_dir):
    """A typed stop is text, and nothing is normalised."""
    _, given = seen(pair_dir, "dataset", completion="a</s>b A\u0301")
    assert given == "a</s>b A\u0301</s>"


BODY = (
    "{{ ('<think>' + m['reasoning_content'] + '</think>') if m['reasoning_content'] }}{{ m['content'] }}"
    "{% for c in m['tool_calls'] or [] %}"
    "[{{ c['function']['name'] }}{{ c['function']['arguments'] | tojson }}]{% endfor %}"
)


def test_a_given_response_with_a_thought_or_calls_is_the_templates(pair_dir):
    function = {"name": "weather", "arguments": json.dumps({"city": "Köln"})}
    answer = {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}
    ends, given = seen(pair_dir, "dataset", OPEN, body=BODY, completion=[answer])
    assert (ends, given) == (["", ""], '[weather{"city": "Köln"}]</s>')
    answer = {"role": "assistant", "content": "sat", "reasoning_content": "hm"}
    assert seen(pair_dir, "dataset", body=BODY, completion=[answer]) == (["", ""], "<think>hm</think>sat</s>")
    with pytest.raises(escd.ConfigError, match="does not write thoughts or tool calls"):
        seen(pair_dir, "dataset", completion=[answer])
    with pytest.raises(escd.ConfigError, match="needs a prompt of messages"):
        seen(pair_dir, "dataset", prompt="text", completion=[answer])


def test_a_teacher_that_opens_a_channel_finds_it_open(pair_dir):
    """As gpt-oss: the generation prompt ends before the control tokens that the model writes itself."""
    channel = "<|im_start|>final<|im_end|>"
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "teacher")
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "{{ m['content'] }}", "{{ ('" + channel + "' if m['role'] == 'assistant') ~ m['content'] }}"
    )
    mine, theirs = side(pair_dir, "student", OPEN), Side(tokenizer, {})
    vocab = escd.ByteVocab.from_tokenizer(mine.tokenizer)
    for source, expected in (("student", channel + OPEN), ("teacher", "")):
        found = read_turn({"prompt": [USER]}, source, mine, theirs, vocab)
        assert theirs.tokenizer.decode(found.teacher).rpartition(HEADERS["teacher"])[2] == expected
    assert side(pair_dir, "teacher", body="<think></think>{{ m['content'] }}").opening == ""
    assert side(pair_dir, "teacher").opening == ""


# -- datasets -------------------------------------------------------------------------------------------------------


def turns(*texts):
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def test_one_answer_of_a_conversation_is_one_row():
    data = Dataset.from_dict({"messages": [turns("u1", "a1", "u2", "a2"), turns("u3", "a3", "u4")], "id": [1, 2]})
    found = split_conversations(data, completions=True)
    assert found.column_names == ["prompt", "completion"]
    assert [(row["prompt"], row["completion"]) for row in found] == [
        (turns("u1"), [{"role": "assistant", "content": "a1"}]),
        (turns("u1", "a1", "u2"), [{"role": "assistant", "content": "a2"}]),
        (turns("u3"), [{"role": "assistant", "content": "a3"}]),
    ]
    on_policy = split_conversations(data, completions=False)
    assert [row["prompt"] for row in on_policy] == [
        turns("u1"), turns("u1", "a1", "u2"), turns("u3"), turns("u3", "a3", "u4"),
    ]  # fmt: skip


def test_kinds_of_datasets():
    data = Dataset.from_dict({"messages": [turns("u1", "a1")], "tools": ["[]"]})
    streamed = IterableDataset.from_generator(lambda: iter(data), features=data.features)
    for found in (split_conversations(data, True), split_conversations(streamed, True)):
        (row,) = found
        assert row == {"prompt": turns("u1"), "completion": [{"role": "assistant", "content": "a1"}], "tools": "[]"}
    assert set(split_conversations(DatasetDict(a=data), True)["a"].column_names) == {"prompt", "completion", "tools"}
    for same in (None, [1], Dataset.from_dict({"prompt": ["a"], "messages": [turns("u")]})):
        assert split_conversations(same, True) is same


def test_a_completion_of_several_messages_is_taken_apart():
    rest = [
        {"role": "assistant", "content": "a1"},
        {"role": "user", "content": "u2"},
        {"role": "assistant", "content": "a2"},
    ]
    data = Dataset.from_dict({"prompt": [turns("u0", "a0", "u1")], "completion": [rest]})
    found = split_conversations(data, True)
    assert [len(row["prompt"]) for row in found] == [3, 5]
    assert [row["completion"][0]["content"] for row in found] == ["a1", "a2"]
    assert split_conversations(data, False) is data


def test_turns_that_answer_nothing_are_context():
    empty = [*turns("u1", "", "u2", "a2"), {"role": "assistant", "content": "again"}]
    data = Dataset.from_dict({"messages": [empty]})
    assert [row["completion"][0]["content"] for row in split_conversations(data, True)] == ["a2"]


def jsonl(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def load(name, completions=False):
    from escd.training.arguments import DistillArguments

    return load_prompts(DistillArguments(dataset_name=name), 0, completions)


def test_a_file_of_conversations(tmp_path):
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    whole = [USER, call, {"role": "tool", "content": "7"}, {"role": "assistant", "content": "seven"}]
    found = load(jsonl(tmp_path / "a.jsonl", {"messages": whole, "tools": [{"name": "f"}]}), completions=True)
    assert found.column_names == ["prompt", "completion", "tools"]
    assert [len(row["prompt"]) for row in found] == [1, 3]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"messages": "text"}, "text or messages with role"),
        ({"messages": [{"content": "x"}]}, "text or messages with role"),
        ({"messages": [{"role": "user", "content": None}]}, "text or messages with role"),
        ({"messages": [USER]}, "not one has a turn of the assistant"),
    ],
)
def test_conversations_that_cannot_be_learnt(tmp_path, row, error):
    with pytest.raises(escd.ConfigError, match=error):
        load(jsonl(tmp_path / "a.jsonl", row), completions=True)


# -- a whole step ---------------------------------------------------------------------------------------------------


@pytest.fixture
def run(pair_dir, tmp_path):
    def make(data, objective="escd", **sides):
        tokenizers = {who: side(pair_dir, who, prefill).tokenizer for who, prefill in sides.items()}
        return escd.ESCDTrainer(
            model=str(pair_dir / "student"), teacher_model=str(pair_dir / "teacher"),
            train_dataset=Dataset.from_list(data),
            processing_class=tokenizers.get("student"), teacher_processing_class=tokenizers.get("teacher"),
            args=escd.ESCDConfig(
                output_dir=str(tmp_path), objective=objective, max_steps=1, per_device_train_batch_size=2,
                gradient_accumulation_steps=1, max_completion_length=8, report_to="none", save_strategy="no",
                disable_tqdm=True, gradient_checkpointing=False, logging_steps=1,
            ),
        )  # fmt: skip

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "expected"), [("escd", OPEN), ("seqkd", EMPTY)])
def test_a_step_conditions_both_models_on_the_writers_thought(run, objective, expected):
    trainer = run([{"prompt": [USER]}] * 4, objective, student=OPEN, teacher=EMPTY)
    generate, asked = trainer.teacher.generate, []
    trainer.teacher.generate = lambda prompts, *a: asked.extend(prompts) or generate(prompts, *a)
    batch = trainer._generate_and_score_completions([{"prompt": [USER]}] * 2)
    for who, tokenizer in (("student", trainer._tokenizer), ("teacher", trainer.teacher_tokenizer)):
        for conversation in batch[who]:
            assert tokenizer.decode(conversation.prompt).endswith(HEADERS[who] + expected)
    assert [c.prompt for c in batch["teacher"]] == asked or not asked
    assert bool(asked) == (objective == "seqkd")
    trainer.train()


@pytest.mark.slow
def test_a_step_of_sft_on_conversations(run):
    trainer = run([{"messages": turns("u1", "a1", "u2", "a2")}] * 2, "sft")
    assert len(trainer.train_dataset) == 4
    trainer.train()
    batch = trainer._generate_and_score_completions(list(trainer.train_dataset)[:2])
    texts = [trainer._tokenizer.decode(c.prompt + c.response) for c in batch["student"]]
    assert texts == [
        "<s>user\nu1</s><s>assistant\na1</s>",
        "<s>user\nu1</s><s>assistant\na1</s><s>user\nu2</s><s>assistant\na2</s>",
    ]


@pytest.mark.slow
def test_tools_of_a_row_reach_both_templates(run):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    trainer = run([{"prompt": [USER], "tools": json.dumps(tools)}] * 4)
    for tokenizer in (trainer._tokenizer, trainer.teacher_tokenizer):
        tokenizer.chat_template = (
            "{% for t in tools %}{{ t['function']['name'] }}{% endfor %}" + tokenizer.chat_template
        )
    batch = next(iter(trainer.get_train_dataloader()))
    assert set(batch[0]) == {"prompt", "tools"}
    scored = trainer._generate_and_score_completions(batch)
    for who, tokenizer in (("student", trainer._tokenizer), ("teacher", trainer.teacher_tokenizer)):
        assert tokenizer.decode(scored[who][0].prompt).startswith("weather")
