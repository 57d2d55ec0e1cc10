"""`ByteVocab`: exact bytes, content, stops."""

import pytest
from tokenizers import AddedToken, normalizers
from transformers import AutoTokenizer, GenerationConfig

import escd
from conftest import TEACHER_TEXT, make_tokenizer


@pytest.fixture
def tokenizer(pair_dir):
    return AutoTokenizer.from_pretrained(pair_dir / "teacher")


def test_bytes_and_content(tokenizer):
    vocab = escd.ByteVocab.from_tokenizer(tokenizer)
    assert len(vocab) == len(tokenizer)
    assert {b for b in vocab.token_bytes if b is not None and len(b) == 1} == {bytes([i]) for i in range(256)}
    assert vocab.token_bytes[tokenizer.pad_token_id] is None
    for text in (" the cat", "é — 漢字 👩‍👩‍👧\n\n", "a\u0301 ﬁ"):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert vocab.decode(ids) == text.encode()


def test_stop_ids_are_a_union(tokenizer):
    start = tokenizer.convert_tokens_to_ids("<|im_start|>")
    vocab = escd.ByteVocab.from_tokenizer(tokenizer, GenerationConfig(eos_token_id=[start, tokenizer.pad_token_id]))
    assert vocab.preferred_stop == tokenizer.eos_token_id
    assert set(vocab.stop_ids) == {tokenizer.eos_token_id, start, tokenizer.pad_token_id}


def test_the_templates_end_of_turn_is_preferred(tmp_path):
    tokenizer = make_tokenizer(tmp_path, TEACHER_TEXT, 300, ("<|end|>", "<|pad|>", "<|im|>"))
    tokenizer.eos_token = "<|pad|>"
    vocab = escd.ByteVocab.from_tokenizer(tokenizer)
    assert vocab.preferred_stop == tokenizer.convert_tokens_to_ids("<|end|>")
    assert set(vocab.stop_ids) == {vocab.preferred_stop, tokenizer.eos_token_id}


def test_added_tokens_stand_for_their_characters(tokenizer):
    tokenizer.add_tokens(["õ", "<tool>", AddedToken("  wide", lstrip=True)])
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|ctrl|>", "<think>", "</think>"]})
    vocab = escd.ByteVocab.from_tokenizer(tokenizer)
    bytes_of = {
        t: vocab.token_bytes[tokenizer.convert_tokens_to_ids(t)] for t in ("õ", "<tool>", "<|ctrl|>", "<think>")
    }
    assert bytes_of == {"õ": "õ".encode(), "<tool>": b"<tool>", "<|ctrl|>": None, "<think>": b"<think>"}


def test_exact_encoder_neither_normalises_nor_matches_special_tokens(tokenizer):
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    vocab = escd.ByteVocab.from_tokenizer(tokenizer)
    for text in ("A\u0301 Å ﬁ", "typed <|im_end|> and <|im_start|>", "  two  spaces  ", "\ufeffbom\r\n"):
        assert vocab.decode(vocab.encoder.encode(text, add_special_tokens=False).ids) == text.encode()


def test_slow_tokenizers_are_refused():
    with pytest.raises(escd.VocabError, match="fast tokenizer"):
        escd.ByteVocab.from_tokenizer(object())


def test_a_tokenizer_that_loses_bytes_is_refused(tokenizer):
    from tokenizers import Regex, pre_tokenizers

    losing = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(" "), "removed"), pre_tokenizers.ByteLevel(False)])
    tokenizer.backend_tokenizer.pre_tokenizer = losing
    with pytest.raises(escd.VocabError, match="do not add up"):
        escd.ByteVocab.from_tokenizer(tokenizer)


def test_constructor():
    vocab = escd.ByteVocab([b"a", None, b"", b"stop"], stop_ids=[3])
    assert vocab.token_bytes == [b"a", None, None, None]
    assert vocab.preferred_stop == 3
    assert escd.ByteVocab([b"a", None], [1]) == escd.ByteVocab([b"a", None], [1])
    assert escd.ByteVocab([b"a", None], [1]) != escd.ByteVocab([b"b", None], [1])
    with pytest.raises(escd.VocabError, match="outside"):
        escd.ByteVocab([b"a"], stop_ids=[1])
    with pytest.raises(escd.VocabError, match="preferred"):
        escd.ByteVocab([b"a", None], stop_ids=[1], preferred_stop=0)


def test_overlap_pairs_specials_by_spelling_and_the_two_eos(tmp_path):
    def vocab(name, specials):
        return escd.ByteVocab.from_tokenizer(make_tokenizer(tmp_path / name, TEACHER_TEXT, 259, specials))

    a = vocab("a", ("<|end|>", "<|pad|>", "<|im|>"))
    same = escd.TokenizerPair(a, vocab("same", ("<|end|>", "<|pad|>", "<|im|>"))).overlap()
    assert (same.shared, same.jaccard) == (259, 1.0)
    # Bytes, one special token of equal spelling, and the two EOS.
    other = escd.TokenizerPair(a, vocab("other", ("</s>", "<|pad|>", "<s>"))).overlap()
    assert (other.shared, other.teacher_coverage) == (258, 258 / 259)


def test_whitespace_that_a_template_writes_is_content(tokenizer):
    """Gemma has line ends as added tokens, and its template writes them."""
    tokenizer.add_tokens(["\n", "  "])
    text = tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert tokenizer.convert_tokens_to_ids("\n") in tokenizer(text)["input_ids"]
    vocab = escd.ByteVocab.from_tokenizer(tokenizer)
    assert vocab.token_bytes[tokenizer.convert_tokens_to_ids("\n")] == b"\n"
    assert vocab.decode(vocab.encode(b"a\n  b\n")[0]) == b"a\n  b\n"
