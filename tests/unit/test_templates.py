"""Messages through templates that reject, drop, prefill or want another form: right, or one clear line."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

import escd
from escd.chat import render, render_prompt
from escd.families.stops import end_of_turn

TURNS = "{{ '<s>' + m['role'] + '\n' + m['content'] + '</s>' }}"
CHATML = "{% for m in messages %}" + TURNS + "{% endfor %}{% if add_generation_prompt %}<s>assistant\n{% endif %}"
# As Gemma: no system role, strict alternation.
STRICT = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}" + TURNS + "{% endfor %}{{ '<s>model\n' }}"
)
DROPS = (
    "{% for m in messages %}{% if m['role'] in ('user', 'assistant') %}"
    + TURNS
    + "{% endif %}{% endfor %}{{ '<s>assistant\n' }}"
)
PARTS = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{% for p in m['content'] %}{{ p['text'] }}{% endfor %}</s>{% endfor %}"
    "{{ '<s>assistant\n' }}"
)
CALLS = (
    "{% for t in tools or [] %}<tool>{{ t | tojson }}</tool>{% endfor %}"
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] or '' }}"
    "{% for c in m['tool_calls'] or [] %}<call>{{ c['function']['name'] }} ARGUMENTS</call>{% endfor %}"
    "</s>{% endfor %}{{ '<s>assistant\n' }}"
)
TOOLS = [
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}}}
]
USER, ANSWER = {"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}
SYSTEM, TOOL = {"role": "system", "content": "Be brief."}, {"role": "tool", "content": "7 degrees"}


def call(arguments):
    function = {"name": "weather", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "function": function}]}


@pytest.fixture
def tokenizer(pair_dir):
    return AutoTokenizer.from_pretrained(pair_dir / "student")


def rendered(tokenizer, template, messages, **kwargs):
    tokenizer.chat_template = template
    found = render(tokenizer, messages, **kwargs)
    assert tokenizer.decode(found.ids()) == found.text + found.prefill
    return found.text + found.prefill


# -- prefilled thoughts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefill",
    ["<think>\n", "<think>", "<think>\n\n</think>\n\n", "<think></think>", "</think>", "[THINK]", "<mm:think>"],
)
def test_a_prefilled_thought_is_told_from_the_header(tokenizer, prefill):
    tokenizer.chat_template = CHATML.replace("<s>assistant\n", "<s>assistant\n" + prefill)
    for text in ("the cat", "say <think>", "<think>\n", "a\n<think>\n\n</think>\n\n", ""):
        found = render(tokenizer, [{"role": "user", "content": text}])
        assert (found.text, found.prefill) == (f"<s>user\n{text}</s><s>assistant\n", prefill)


@pytest.mark.parametrize("text", ["the cat", "the <think>\n", "</think>"])
def test_a_template_without_a_prefill_or_a_header(tokenizer, text):
    for template in (CHATML, "{% for m in messages %}{{ m['content'] }}{% endfor %}"):
        tokenizer.chat_template = template
        found = render(tokenizer, [{"role": "user", "content": text}])
        assert found.prefill == ""
        assert text in found.text
    assert render(tokenizer, "plain <think>\n").prefill == ""


def test_a_prefill_that_a_keyword_turns_off(tokenizer):
    thought = "{{ '<think>\n' if enable_thinking is not defined or enable_thinking else '<think>\n\n</think>\n\n' }}"
    tokenizer.chat_template = CHATML.replace("<s>assistant\n{%", "<s>assistant\n" + thought + "{%")
    assert render(tokenizer, [USER]).prefill == "<think>\n"
    assert render(tokenizer, [USER], {"enable_thinking": False}).prefill == "<think>\n\n</think>\n\n"


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.text(st.sampled_from("a <>/\nthinké漢")), min_size=1, max_size=4),
    prefill=st.sampled_from(["", "<think>\n", "</think>", "<think>\n\n</think>\n\n"]),
)
def test_any_conversation_splits_into_prompt_and_prefill(pair_dir, texts, prefill):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    tokenizer.chat_template = CHATML.replace("<s>assistant\n", "<s>assistant\n" + prefill)
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": t}
        for i, t in enumerate(texts + texts[-1:] * (len(texts) % 2 == 0))
    ]
    found = render(tokenizer, messages)
    turns = "".join(f"<s>{m['role']}\n{m['content']}</s>" for m in messages)
    assert (found.text, found.prefill) == (turns + "<s>assistant\n", prefill)
    assert found.ids("X") == tokenizer(turns + "<s>assistant\nX", add_special_tokens=False)["input_ids"]


def test_one_models_prefill_in_the_others_prompt(tokenizer, pair_dir):
    teacher = AutoTokenizer.from_pretrained(pair_dir / "teacher")
    tokenizer.chat_template = CHATML.replace("<s>assistant\n", "<s>assistant\n<think>\n")
    own = "<|im_start|>user\nthe cat<|im_end|><|im_start|>assistant\n"
    prefill = render(tokenizer, [USER]).prefill
    assert teacher.decode(render_prompt(teacher, [USER], prefill=prefill)) == own + "<think>\n"
    teacher.chat_template = teacher.chat_template.replace("assistant\\n", "assistant\\n<think>\\n\\n</think>")
    teacher.chat_template = teacher.chat_template.replace("assistant\n", "assistant\n<think>\n\n</think>")
    assert teacher.decode(render_prompt(teacher, [USER])) == own + "<think>\n\n</think>"
    assert teacher.decode(render_prompt(teacher, [USER], prefill=prefill)) == own + "<think>\n"
    assert teacher.decode(render_prompt(teacher, [USER], prefill="")) == own


# -- system texts -------------------------------------------------------------------------------------------------


def test_a_rejected_system_text_goes_into_the_first_user_turn_and_is_told_once(tokenizer, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            text = rendered(tokenizer, STRICT, [SYSTEM, USER, ANSWER, USER])
    assert text == "<s>user\nBe brief.\n\nthe cat</s><s>assistant\nsat</s><s>user\nthe cat</s><s>model\n"
    assert len(caplog.records) == 1
    assert "does not take a system text" in caplog.text
    assert str(tokenizer.name_or_path) in caplog.text


def test_a_dropped_system_text_goes_into_the_first_user_turn(tokenizer, caplog):
    assert rendered(tokenizer, DROPS, [SYSTEM, USER]) == "<s>user\nBe brief.\n\nthe cat</s><s>assistant\n"
    assert "system text" in caplog.text


def test_a_system_text_that_is_taken_stays(tokenizer, caplog):
    expected = "<s>system\nBe brief.</s><s>user\nthe cat</s><s>assistant\n"
    assert rendered(tokenizer, CHATML, [SYSTEM, USER]) == expected
    assert not caplog.records


def test_only_a_later_system_text_moves_if_only_that_is_rejected(tokenizer):
    late = "not loop.first and m['role'] == 'system'"
    template = "{% for m in messages %}{{ raise_exception('first') if " + late + " }}"
    found = rendered(
        tokenizer, template + CHATML.removeprefix("{% for m in messages %}"), [SYSTEM, USER, ANSWER, SYSTEM, USER]
    )
    assert found.startswith("<s>system\nBe brief.</s><s>user\nthe cat</s>")
    assert found.endswith("<s>user\nBe brief.\n\nthe cat</s><s>assistant\n")


def test_a_developer_is_a_system_to_templates_that_know_no_developer(tokenizer):
    template = (
        "{% for m in messages %}{% if m['role'] != 'developer' %}"
        + TURNS
        + "{% endif %}{% endfor %}{{ '<s>assistant\n' }}"
    )
    found = rendered(tokenizer, template, [dict(SYSTEM, role="developer"), USER])
    assert found.startswith("<s>system\nBe brief.</s>")


# -- what cannot be rendered --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "messages", "tools", "error"),
    [
        (STRICT, [USER, USER], None, r"rejects .*\['user', 'user'\]: Conversation roles must alternate; merge"),
        (STRICT, [SYSTEM, USER, USER], None, r"must alternate; merge neighbouring messages"),
        (STRICT, [ANSWER, USER], None, r"must alternate; let the conversation begin with a user message"),
        (STRICT, [USER, call({"city": "K"}), TOOL], None, r"'tool'\].*set a chat_template that knows tools"),
        (STRICT, [SYSTEM], None, r"System role not supported; let the conversation begin with a user message"),
        (DROPS, [USER, ANSWER, TOOL], None, "leaves out the text of the tool message .* knows tools"),
        (DROPS, [USER, call({"city": "K"}), USER], None, "leaves out the tool calls"),
        (CHATML, [USER], TOOLS, "leaves out the tool definitions"),
        (DROPS, [SYSTEM], None, "leaves out the text of the system message"),
        (CHATML, [USER, ANSWER], None, "must end with a message to answer"),
        (CHATML, [], None, "must end with a message to answer"),
        (CHATML, [USER], "{not json", "tools are no JSON"),
        (CHATML, [USER], "7", "must be a list of definitions"),
        ("{{ nothing.at.all }}", [USER], None, "change the prompts, or set the tokenizer's chat_template"),
        ("{% if %}", [USER], None, "rejects"),
    ],
)  # fmt: skip
def test_what_cannot_be_rendered_names_tokenizer_roles_and_mend(tokenizer, template, messages, tools, error):
    tokenizer.chat_template = template
    with pytest.raises(escd.ConfigError, match=error) as caught:
        render(tokenizer, messages, tools=tools)
    if (
        "must end" not in error
        and "tools are" not in error
        and "definitions, not" not in error
        and "list of" not in error
    ):
        assert str(tokenizer.name_or_path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_tools_need_messages(tokenizer):
    with pytest.raises(escd.ConfigError, match="need prompts that are messages"):
        render(tokenizer, "plain", tools=TOOLS)


# -- tools and forms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_as", ["dict", "text"])
@pytest.mark.parametrize(
    "written",
    [
        "{{ c['function']['arguments'] | tojson }}",  # Qwen 2.5: a dictionary
        "{% for k, v in c['function']['arguments'].items() %}{{ '{\"' + k + '\": \"' + v + '\"}' }}{% endfor %}",
        "{{ '' + c['function']['arguments'] }}",  # DeepSeek R1: JSON text
        "{{ c['function']['arguments'] }}",  # JSON text, or else Python's way to write a dictionary
    ],
)
def test_arguments_of_a_call_come_out_as_json_once(tokenizer, written, given_as):
    arguments = {"city": "Köln"}
    given_arguments = arguments if given_as == "dict" else json.dumps(arguments)
    template = CALLS.replace("ARGUMENTS", written)
    text = rendered(tokenizer, template, [USER, call(given_arguments), TOOL], tools=TOOLS)
    assert '<call>weather {"city": "Köln"}</call>' in text
    assert "<s>tool\n7 degrees</s>" in text
    assert '<tool>{"type": "function"' in text


def test_tools_as_json_text_and_empty(tokenizer):
    template = CALLS.replace("ARGUMENTS", "")
    assert rendered(tokenizer, template, [USER], tools=json.dumps(TOOLS)) == rendered(
        tokenizer, template, [USER], tools=TOOLS
    )
    for nothing in (None, [], "", "null", "[]"):
        assert rendered(tokenizer, template, [USER], tools=nothing) == "<s>user\nthe cat</s><s>assistant\n"


def test_a_call_without_text_where_only_that_is_a_call(tokenizer):
    template = CALLS.replace("ARGUMENTS", "").replace(
        "m['tool_calls'] or []", "(m['tool_calls'] or [] if m['content'] is not defined else [])"
    )
    assert "<call>weather" in rendered(tokenizer, template, [USER, call({}), TOOL])


def test_text_beside_a_call_that_is_left_out_is_told(tokenizer, caplog):
    template = CALLS.replace("ARGUMENTS", "")
    both = dict(call({}), content="let me see")
    assert "let me see" in rendered(tokenizer, template, [USER, both, TOOL])
    assert not caplog.records
    template = template.replace("m['content'] or ''", "m['content'] if not m['tool_calls']")
    assert "let me see" not in rendered(tokenizer, template, [USER, both, TOOL])
    assert "leaves out the text of messages that call tools" in caplog.text


def test_calls_and_definitions_of_one_name_are_told_apart(tokenizer):
    template = CALLS.replace("ARGUMENTS", "")
    for dropped, error in (("tools or []", "the tool definitions"), ("m['tool_calls'] or []", "the tool calls")):
        tokenizer.chat_template = template.replace(dropped, "[]")
        with pytest.raises(escd.ConfigError, match=f"leaves out {error}"):
            render(tokenizer, [USER, call({}), TOOL], tools=TOOLS)


def test_keys_that_a_dataset_fills_with_none_are_not_there(tokenizer):
    template = "{% for m in messages %}{{ m.keys() | list | join(' ') }}" + TURNS + "{% endfor %}"
    assert rendered(tokenizer, template, [dict(USER, tool_calls=None, name=None)]).startswith("role content<s>")


def test_templates_that_take_parts_only(tokenizer):
    expected = "<s>system\nBe brief.</s><s>user\nthe cat</s><s>assistant\n"
    assert rendered(tokenizer, PARTS, [SYSTEM, USER]) == expected
    # One that does not, and fails for another reason, never gets Python's way to write a list.
    tokenizer.chat_template = (
        CHATML.replace("m['content']", "m['content'] | string")
        + "{{ raise_exception('no') if messages[0]['content'] is string }}"
    )
    with pytest.raises(escd.ConfigError, match=r"rejects .*: no;"):
        render(tokenizer, [USER])


# -- stops --------------------------------------------------------------------------------------------------------


def test_the_last_turn_tells_the_stop(tokenizer):
    """gpt-oss ends earlier turns with a token that in a response only ends its thought."""
    end, other = tokenizer.convert_tokens_to_ids("</s>"), tokenizer.pad_token_id
    tokenizer.chat_template = CHATML.replace(
        "'</s>'", "('<pad>' if loop.last and not add_generation_prompt else '</s>')"
    )
    assert end_of_turn(tokenizer) == other
    tokenizer.chat_template = CHATML
    assert end_of_turn(tokenizer) == end


def test_the_next_turns_marker_ends_a_turn_without_an_end(tokenizer):
    tokenizer.chat_template = CHATML.replace(" + '</s>'", "")
    assert end_of_turn(tokenizer) == tokenizer.convert_tokens_to_ids("<s>")


def test_the_stop_of_a_template_that_takes_parts(tokenizer):
    tokenizer.chat_template = PARTS
    assert end_of_turn(tokenizer) == tokenizer.convert_tokens_to_ids("</s>")
