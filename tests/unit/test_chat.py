"""Rendering by each model's own template, the stop bridge, and retokenisation of exact bytes."""

import json
import shutil
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, processors
from transformers import AutoTokenizer, GenerationConfig

import escd
from escd.chat import Bridge, render_prompt, stop_warning
from escd.families import stop_ids
from escd.models import load_tokenizer

MESSAGES = [{"role": "user", "content": "the cat"}]


@pytest.fixture(scope="module")
def tokenizers_(pair_dir):
    return tuple(AutoTokenizer.from_pretrained(pair_dir / who) for who in ("student", "teacher"))


@pytest.fixture(scope="module")
def bridge(tokenizers_):
    student, teacher = tokenizers_
    # A normaliser must not reach the bytes.
    teacher.backend_tokenizer.normalizer = normalizers.NFKC()
    return Bridge(escd.ByteVocab.from_tokenizer(student), escd.ByteVocab.from_tokenizer(teacher))


def test_each_model_has_its_own_template(tokenizers_):
    student, teacher = tokenizers_
    assert student.decode(render_prompt(student, MESSAGES)) == "<s>user\nthe cat</s><s>assistant\n"
    rendered = teacher.decode(render_prompt(teacher, MESSAGES))
    assert rendered == "<|im_start|>user\nthe cat<|im_end|><|im_start|>assistant\n"


def test_plain_text_prompts(tokenizers_):
    student, _ = tokenizers_
    assert student.decode(render_prompt(student, "the cat")) == "the cat"


def test_bos_is_there_once(pair_dir):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    bos = tokenizer.convert_tokens_to_ids("<s>")
    tokenizer.bos_token = "<s>"
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", bos)]
    )
    assert render_prompt(tokenizer, "the cat").count(bos) == 1
    assert render_prompt(tokenizer, "<s>the cat").count(bos) == 1
    tokenizer.chat_template = "{{ bos_token }}" + "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    assert render_prompt(tokenizer, MESSAGES).count(bos) == 1


def test_what_cannot_be_rendered_is_said(pair_dir):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    with pytest.raises(escd.ConfigError, match="no tokens"):
        render_prompt(tokenizer, "")
    tokenizer.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(escd.ConfigError, match="no system role"):
        render_prompt(tokenizer, MESSAGES)
    tokenizer.chat_template = None
    with pytest.raises(escd.ConfigError, match="no chat template"):
        render_prompt(tokenizer, MESSAGES)


def test_stop_is_replaced(bridge):
    ids = [bridge.student.id_of[b"c"], bridge.student.preferred_stop]
    found = bridge.to_teacher(ids)
    assert found.ended
    assert found.ids[-1] == bridge.teacher.preferred_stop
    assert bridge.teacher.decode(found.ids) == b"c"


def test_an_empty_response_is_its_stop(bridge):
    assert bridge.to_teacher([bridge.student.preferred_stop]).ids == [bridge.teacher.preferred_stop]


def test_a_cut_response_has_no_stop(bridge):
    found = bridge.to_teacher([bridge.student.id_of[b"c"]])
    assert not found.ended
    assert not set(found.ids) & set(bridge.teacher.stop_ids)


def test_a_typed_stop_is_text(bridge):
    ids = [bridge.student.id_of[bytes([b])] for b in b"<|im_end|> ok"]
    found = bridge.to_teacher(ids)
    assert bridge.teacher.decode(found.ids) == b"<|im_end|> ok"
    assert not set(found.ids) & set(bridge.teacher.stop_ids)


@pytest.mark.parametrize(
    "data", [b"caf\xc3", b"ab\xff ab", b"\xe6\xbc", b"\xed\xa0\x80", b"\xc3\xa9\xa9", b"the \x80 cat\xf0\x9f"]
)
def test_bytes_that_are_no_utf8_become_byte_tokens(bridge, data):
    ids, lost = bridge.teacher.encode(data)
    assert not lost
    assert bridge.teacher.decode(ids) == data
    clean = data.decode(errors="ignore").encode()
    assert [i for i in ids if bridge.teacher.token_bytes[i] in (b"\xff", b"\x80")] or clean != data


def test_text_around_an_invalid_byte_is_untouched(bridge):
    ids, _ = bridge.teacher.encode(b"the cat\xffthe cat")
    whole, _ = bridge.teacher.encode(b"the cat")
    assert ids == [*whole, bridge.teacher.id_of[b"\xff"], *whole]


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_any_bytes_survive(bridge, data):
    ids, lost = bridge.teacher.encode(data)
    assert (bridge.teacher.decode(ids), lost) == (data, 0)


def test_bytes_that_the_teacher_lacks_end_the_supervision(tokenizers_):
    student, teacher = tokenizers_
    full = escd.ByteVocab.from_tokenizer(teacher)
    table = [None if b == b"\xff" else b for b in full.token_bytes]
    lacking = escd.ByteVocab(table, full.stop_ids, full.preferred_stop, full.encoder)
    bridge = Bridge(escd.ByteVocab.from_tokenizer(student), lacking)
    ids = [bridge.student.id_of[bytes([b])] for b in b"ab\xffcd"]
    found = bridge.to_teacher([*ids, bridge.student.preferred_stop])
    assert bridge.teacher.decode(found.ids) == b"ab"
    assert found.lost == 3
    assert not set(found.ids) & set(bridge.teacher.stop_ids)
    pair = escd.TokenizerPair(bridge.student, bridge.teacher)
    alignment = escd.align(pair, [*ids, bridge.student.preferred_stop], found.ids)
    assert alignment.roots[:, 0].max() < 3
    assert alignment.counts()["diverged"] == 3


def test_a_warning_when_stop_sets_differ(tokenizers_):
    student, _ = tokenizers_
    vocab = escd.ByteVocab.from_tokenizer(student)
    assert stop_warning(student, vocab, GenerationConfig(eos_token_id=vocab.preferred_stop), "student") is None
    config = GenerationConfig(eos_token_id=[student.pad_token_id])
    vocab = escd.ByteVocab.from_tokenizer(student, config)
    assert "student's stop ids differ" in (stop_warning(student, vocab, config, "student") or "")


# -- thinking markers: text on one side, one added token on the other ------------------------------------------------

THOUGHT = "<think>\nthe cat\n</think>\n\nthe mat"


def with_markers(pair_dir, who, special):
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / who)
    tokenizer.add_tokens(["<think>", "</think>"], special_tokens=special)
    return tokenizer


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("marked", ["student", "teacher"])
def test_markers_are_content_of_equal_bytes(pair_dir, marked, special):
    tokenizers = {who: AutoTokenizer.from_pretrained(pair_dir / who) for who in ("student", "teacher")}
    tokenizers[marked] = with_markers(pair_dir, marked, special)
    # A template that writes them in history does not make them its own.
    tokenizers[marked].chat_template = tokenizers[marked].chat_template.replace(
        "{{ m['content'] }}", "{{ ('<think></think>' if m['role'] == 'assistant') ~ m['content'] }}"
    )
    vocabs = {who: escd.ByteVocab.from_tokenizer(t) for who, t in tokenizers.items()}
    vocab, marker = vocabs[marked], tokenizers[marked].convert_tokens_to_ids("</think>")
    assert vocab.token_bytes[marker] == b"</think>"
    bridge = Bridge(vocabs["student"], vocabs["teacher"])
    pair = escd.TokenizerPair(vocabs["student"], vocabs["teacher"])
    ids = [*tokenizers["student"](THOUGHT)["input_ids"], bridge.student.preferred_stop]
    found = bridge.to_teacher(ids)
    assert (marker in ids) == (marked == "student")
    assert (marker in found.ids) == (marked == "teacher")
    assert bridge.teacher.decode(found.ids) == THOUGHT.encode()
    alignment = escd.align(pair, ids, found.ids)
    assert alignment.same_bytes
    # Both models stand at one offset before and after each marker.
    roots = {int(alignment.offsets[row]) for row, _ in alignment.roots}
    assert {0, 7, len("<think>\nthe cat\n"), len("<think>\nthe cat\n</think>"), len(THOUGHT)} <= roots
    back = bridge.to_student(found.ids)
    assert bridge.student.decode(back.ids) == THOUGHT.encode()


def test_a_marker_as_one_token_is_entered_by_its_first_piece(pair_dir):
    teacher = escd.ByteVocab.from_tokenizer(with_markers(pair_dir, "teacher", True))
    student = escd.ByteVocab.from_tokenizer(AutoTokenizer.from_pretrained(pair_dir / "student"))
    pair = escd.TokenizerPair(student, teacher)
    assert student.token_bytes[pair.phi[teacher.id_of[b"<think>"]]] == b"<"


def test_a_thought_cut_by_the_length_limit(pair_dir):
    """No stop and no closing marker are made up, and its rows are supervised."""
    tokenizer = with_markers(pair_dir, "student", True)
    student = escd.ByteVocab.from_tokenizer(tokenizer)
    teacher = escd.ByteVocab.from_tokenizer(AutoTokenizer.from_pretrained(pair_dir / "teacher"))
    ids = tokenizer("<think>\nthe cat sat on")["input_ids"]
    found = Bridge(student, teacher).to_teacher(ids)
    assert not found.ended
    assert teacher.decode(found.ids) == b"<think>\nthe cat sat on"
    assert not set(found.ids) & set(teacher.stop_ids)
    pair = escd.TokenizerPair(student, teacher)
    alignment = escd.align(pair, ids, found.ids)
    rows = escd.objective("escd", pair).rows(alignment)
    assert alignment.roots[0].tolist() == [0, 0]
    assert rows.counts["root"] > 1
    assert int(alignment.roots[:, 0].max()) < len(ids)


# -- stops ------------------------------------------------------------------------------------------------------------


def test_eos_ids_of_a_tokenizer_may_be_a_list():
    tokenizer = SimpleNamespace(eos_token_id=[3, 5], chat_template=None)
    assert stop_ids(tokenizer, GenerationConfig(eos_token_id=[5, 7])) == ([3, 5, 7], 3)
    assert stop_ids(SimpleNamespace(eos_token_id=0, chat_template=None)) == ([0], 0)
    assert stop_ids(SimpleNamespace(eos_token_id=None, chat_template=None)) == ([], None)


def test_a_tokenizer_config_with_a_list_of_eos_tokens_is_refused_in_one_line(pair_dir, tmp_path):
    shutil.copytree(pair_dir / "student", tmp_path / "listed")
    path = tmp_path / "listed" / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token": ["</s>", "<pad>"]}))
    with pytest.raises(escd.ConfigError, match="list further stops as eos_token_id"):
        load_tokenizer(str(tmp_path / "listed"), "student")


@pytest.mark.parametrize("template", [True, False])
def test_a_base_student_with_an_instruct_teacher(pair_dir, template):
    """All stops of both are one terminal event; where the student's own sets differ, the user is told."""
    tokenizer = AutoTokenizer.from_pretrained(pair_dir / "student")
    end, base_end = tokenizer.eos_token_id, tokenizer.pad_token_id
    tokenizer.eos_token = tokenizer.pad_token  # as <|endoftext|> of a base model whose template ends in <|im_end|>
    if not template:
        tokenizer.chat_template = None
    config = GenerationConfig(eos_token_id=base_end)
    student = escd.ByteVocab.from_tokenizer(tokenizer, config)
    assert set(student.stop_ids) == ({end, base_end} if template else {base_end})
    assert bool(stop_warning(tokenizer, student, config, "student")) == template
    other = AutoTokenizer.from_pretrained(pair_dir / "teacher")
    teacher = escd.ByteVocab.from_tokenizer(
        other, GenerationConfig(eos_token_id=[other.eos_token_id, other.pad_token_id])
    )
    pair = escd.TokenizerPair(student, teacher)
    assert {int(pair.phi[stop]) for stop in teacher.stop_ids} == {student.preferred_stop}
    bridge = Bridge(student, teacher)
    for stop in student.stop_ids:
        assert bridge.to_teacher([student.id_of[b"c"], stop]).ids[-1] == teacher.preferred_stop
