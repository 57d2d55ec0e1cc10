"""Tokenizers from single files give the vocabulary that the file holds, or one line that says what is wrong."""

import base64
import json
import shutil
from pydoc_data.topics import topics

import numpy as np
import pytest
import sentencepiece
import tiktoken
from gguf import GGUFWriter
from transformers import AutoTokenizer

import escd
from escd.errors import ConfigError
from escd.models import load_tokenizer
from escd.tokenizer_files import _CL100K, _QWEN_35

TEXT = "\n".join(topics[name] for name in sorted(topics))[:30_000]


def read(path):
    return escd.ByteVocab.from_tokenizer(load_tokenizer(str(path), "student"))


def test_tokenizer_json(pair_dir, tmp_path):
    whole = escd.ByteVocab.from_tokenizer(AutoTokenizer.from_pretrained(pair_dir / "teacher"))
    # Beside its tokenizer_config.json it is the tokenizer of the folder, with its stop and template.
    assert read(pair_dir / "teacher" / "tokenizer.json") == whole
    shutil.copy(pair_dir / "teacher" / "tokenizer.json", tmp_path / "alone.json")
    alone = load_tokenizer(str(tmp_path / "alone.json"), "student")
    assert alone.eos_token == "<|im_end|>"
    assert alone.name_or_path == str(tmp_path / "alone.json")
    assert read(tmp_path / "alone.json").token_bytes == whole.token_bytes


def trained_pieces(folder, kind):
    text = folder / "text.txt"
    text.write_text(TEXT)
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "spm"), vocab_size=700, model_type=kind, byte_fallback=True,
        user_defined_symbols=["<tool>"], minloglevel=2,
    )  # fmt: skip
    return folder / "spm.model"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sentencepiece_models_spell_as_sentencepiece_does(tmp_path, kind):
    path = trained_pieces(tmp_path, kind)
    vocab, original = read(path), sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert vocab.stop_ids == (original.eos_id(),)
    text = "the value of an expression (see section 3.2) <tool> is evaluated"
    # SentencePiece puts a space before the text; as bytes there is none, so the text is given one.
    ids, lost = vocab.encode(f" {text}".encode())
    assert (ids, lost) == (original.encode(text), 0)
    assert vocab.decode(vocab.encode("é  ☃\n▁".encode())[0]) == "é  ☃\n▁".encode()


def write_ranks(path, ranks):
    path.write_text("".join(f"{base64.b64encode(b).decode()} {i}\n" for b, i in ranks.items()))
    return path


def ranks(size=256):
    return {bytes([b]): b for b in range(256)} | {b"t": 116, b"th": 256, b" the": 258, b"he": 257, b"12": 259}


@pytest.mark.parametrize("name", ["x.tiktoken", "tokenizer.model"])
def test_tiktoken_ranks(tmp_path, name):
    vocab = read(write_ranks(tmp_path / name, ranks()))
    assert {b: i for i, b in enumerate(vocab.token_bytes) if b} == ranks()
    assert vocab.stop_ids == ()
    original = tiktoken.Encoding("x", pat_str=_CL100K, mergeable_ranks=ranks(), special_tokens={})
    assert vocab.encode(TEXT.encode()) == (original.encode(TEXT), 0)


def test_ranks_of_a_known_encoding_have_its_pattern_and_stop(tmp_path, monkeypatch):
    count = 248_044
    rng = np.random.default_rng(0)
    known = ranks() | {bytes(rng.integers(0, 256, 9, np.uint8)): i for i in range(260, count)}
    assert len(known) == count
    tokenizer = load_tokenizer(str(write_ranks(tmp_path / "q.tiktoken", known)), "student")
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|im_end|>", 248_046)
    # Qwen splits digits.
    assert len(tokenizer.tokenize("12")) == 2
    assert "{1,3}" not in _QWEN_35


def test_tekken(tmp_path):
    content = {
        "config": {"pattern": _CL100K, "default_vocab_size": 263, "default_num_special_tokens": 4},
        # One token more than the models have.
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(b).decode(), "token_str": None} for b, i in ranks().items()
        ],
    }
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(content))
    vocab = read(path)
    assert {b: i - 4 for i, b in enumerate(vocab.token_bytes) if b} == {b: i for b, i in ranks().items() if i < 259}
    assert vocab.stop_ids == (2,)
    content["special_tokens"] = [{"rank": 3, "token_str": "</s>"}, {"rank": 1, "token_str": "<s>"}]
    path.write_text(json.dumps(content))
    assert read(path).stop_ids == (3,)


def test_gguf(tmp_path):
    path = tmp_path / "model.gguf"
    alphabet = [*sorted(json.loads(BYTE_LEVEL)), "Ġt", "he", "Ġthe", "<|end|>"]
    writer = GGUFWriter(str(path), "llama")
    for name, value in (("context_length", 64), ("embedding_length", 8), ("block_count", 1), ("head_count", 1)):
        getattr(writer, f"add_{name}")(value)
    writer.add_feed_forward_length(8)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(alphabet)
    writer.add_token_types([1] * (len(alphabet) - 1) + [3])
    writer.add_token_merges(["Ġ t", "h e", "Ġt he"])
    writer.add_eos_token_id(len(alphabet) - 1)
    writer.add_bos_token_id(len(alphabet) - 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    vocab = read(path)
    assert vocab.decode(vocab.encode("the the é".encode())[0]) == "the the é".encode()
    assert b" the" in vocab.token_bytes
    assert vocab.stop_ids == (len(alphabet) - 1,)


BYTE_LEVEL = json.dumps([chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 324))])


@pytest.mark.parametrize("name", ["no.json", "no.gguf", "no.model", "no/such.tiktoken"])
def test_a_file_that_is_not_there(tmp_path, name):
    with pytest.raises(ConfigError, match=r"teacher '.*no.*': there is no such file"):
        load_tokenizer(str(tmp_path / name), "teacher")


@pytest.mark.parametrize("suffix", [".json", ".gguf", ".model", ".tiktoken"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00 nonsense\n", b'{"a": 1}', b"[1, 2]", b"YQ== x\n"])
def test_files_that_are_something_else(tmp_path, suffix, content):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot read a tokenizer for the teacher from '.*file\.\w+': \S") as error:
        load_tokenizer(str(path), "teacher")
    assert "\n" not in str(error.value)
