"""Every tokenizer family on small vocabularies: exact bytes, no added space, no normalising, refusals."""

import json
import string

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import escd
from escd.families.bytelevel import byte_alphabet

LETTERS = string.ascii_letters + string.digits + string.punctuation
WORDS = ["▁the", "▁cat", "he", "▁t", "▁c", "at", "▁▁", "▁▁▁", "é", "漢", "Ċ", "ĉ", "▁1", "12"]
TEXT = st.text(st.one_of(st.sampled_from("the cat 12\n▁éĉ漢  <0A>"), st.characters(exclude_categories=["Cs"])))
any_text = settings(max_examples=60, deadline=None)


def pieces(bytes_too=True):
    """Strings of a SentencePiece-like vocabulary; `the` and `<0x41>`-like pieces among them."""
    known = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if bytes_too else [])
    return [*known, "▁", *LETTERS, *WORDS, "th", "the", "ca", "cat"]


def finished(built, prefix="normalizer", decoder=None):
    """Steps as Llama 2 has them (`normalizer`), as Mistral and T5 (`metaspace`), or as Gemma (`none`)."""
    if prefix == "metaspace":
        built.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        built.decoder = decoders.Metaspace(prepend_scheme="always")
    else:
        replace = normalizers.Replace(" ", "▁")
        prepend = [normalizers.Prepend("▁")] if prefix == "normalizer" else []
        built.normalizer = normalizers.Sequence([*prepend, replace])
        steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        built.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if prepend else []))
    built.decoder = decoder or built.decoder
    built.add_special_tokens(["<unk>", "<s>", "</s>"])
    return built


def merging(known=None, **options):
    """BPE."""
    known = known or pieces()
    merges = [("▁", "t"), ("▁", "c"), ("t", "h"), ("th", "e"), ("h", "e"), ("a", "t"), ("c", "at"), ("c", "a"),
              ("▁t", "he"), ("▁c", "at"), ("▁", "▁"), ("▁▁", "▁"), ("▁", "1"), ("1", "2")]  # fmt: skip
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, **options}
    return Tokenizer(models.BPE({p: i for i, p in enumerate(known)}, merges, **options))


def scoring(known=None, byte_fallback=True):
    """Unigram; the fewest pieces win."""
    return Tokenizer(models.Unigram([(p, -1.0) for p in known or pieces()], 0, byte_fallback))


FAMILIES = {
    "llama-2": lambda: finished(merging()),
    "mistral": lambda: finished(merging(), "metaspace", finished(merging()).decoder),
    "gemma": lambda: finished(merging(), "none"),
    "unigram": lambda: finished(scoring()),
    "unigram metaspace": lambda: finished(scoring(), "metaspace", finished(merging()).decoder),
}


@pytest.fixture(scope="module", params=FAMILIES)
def vocab(request):
    return escd.ByteVocab.from_tokenizer(FAMILIES[request.param]())


@any_text
@given(text=TEXT, broken=st.binary(max_size=3))
def test_every_text_round_trips(vocab, text, broken):
    for data in (text.encode(), text.encode() + broken + text.encode()):
        ids, lost = vocab.encode(data)
        assert lost == 0
        assert vocab.decode(ids) == data


def test_no_space_is_added_and_none_is_lost(vocab):
    def spelled(text):
        return [vocab.token_bytes[i] for i in vocab.encode(text)[0]]

    assert spelled(b"the cat") == [b"the", b" cat"]
    assert spelled(b" the") == [b" the"]
    # The sign of a space in a text is no space.
    assert spelled("▁".encode()) == [b"\xe2", b"\x96", b"\x81"]
    assert b"".join(spelled("a▁the cat".encode())[-2:]) == b"the cat"
    assert spelled("ĉ".encode()) == ["ĉ".encode()]
    assert spelled(b"\n") == [b"\n"]
    assert spelled(b"</s>") == [bytes([c]) for c in b"</s>"]


def test_letters_are_spelled_by_their_tokens_and_not_by_their_bytes(vocab):
    """The byte token of a letter has the same bytes and is never produced."""
    byte, letter = (pieces().index(p) for p in ("<0x61>", "a"))
    assert vocab.token_bytes[byte] == vocab.token_bytes[letter] == b"a"
    assert byte in vocab.aliases
    assert letter not in vocab.aliases
    assert vocab.id_of[b"a"] == letter
    newline = pieces().index("<0x0A>")
    assert vocab.id_of[b"\n"] == newline
    assert newline not in vocab.aliases
    other = escd.ByteVocab([b"a", b"ab", None], stop_ids=[2])
    pair = escd.TokenizerPair(student=vocab, teacher=other)
    assert pair.phi[0] == letter
    assert (0, letter) in pair.shared.tolist() or [0, letter] in pair.shared.tolist()
    # Both complete ab after a, the letter's token first.
    taken = next(iter(pair.completions(letter).values())).tolist()
    assert taken == [pieces().index("b"), pieces().index("<0x62>")]
    arrays = pair.student.to_arrays("x")
    again = escd.ByteVocab.from_arrays(arrays, "x")
    assert (again.aliases, again.fingerprint) == (vocab.aliases, vocab.fingerprint)
    assert escd.ByteVocab(vocab.token_bytes, vocab.stop_ids).fingerprint != vocab.fingerprint


def test_a_claim_of_byte_fallback_without_byte_pieces(tmp_path):
    """What such a vocabulary cannot spell ends the ids at that very byte."""
    vocab = escd.ByteVocab.from_tokenizer(finished(merging(pieces(bytes_too=False))))
    assert not any(b == b"\n" for b in vocab.token_bytes)
    for text, kept in (("the cat\nthe", "the cat"), ("é ß the", "é "), ("☃☃", ""), ("the ▁", "the "), ("the", "the")):
        ids, lost = vocab.encode(text.encode())
        assert vocab.decode(ids) == kept.encode()
        assert lost == len(text.encode()) - len(kept.encode())
    assert [vocab.token_bytes[i] for i in vocab.encode(b"the cat\n")[0]] == [b"the", b" cat"]


def test_pieces_that_look_like_bytes_are_text_where_nothing_claims_bytes():
    plain = finished(merging(byte_fallback=False), decoder=decoders.Sequence([decoders.Replace("▁", " ")]))
    vocab = escd.ByteVocab.from_tokenizer(plain)
    assert vocab.token_bytes[pieces().index("<0x0A>")] == b"<0x0A>"
    ids, lost = vocab.encode(b"the <0x0A> cat")
    assert (vocab.decode(ids), lost) == (b"the <0x0A> cat", 0)


def test_added_runs_of_spaces_are_spaces():
    """Gemma lists them as added tokens that are not special."""
    built = finished(merging(), "none")
    built.add_tokens([AddedToken("▁▁", normalized=False), AddedToken("▁▁▁▁", normalized=False)])
    vocab = escd.ByteVocab.from_tokenizer(built)
    assert vocab.token_bytes[len(pieces())] == b"    "
    assert vocab.token_bytes[pieces().index("▁▁")] == b"  "
    for text in ("a  b    c▁▁d▁▁▁▁", "    ", "▁▁▁▁"):
        ids, lost = vocab.encode(text.encode())
        assert (vocab.decode(ids), lost) == (text.encode(), 0)


def test_normalisers_that_lose_something_are_left_out():
    """NFKC, lower-casing, stripping and the like change what a user types, never the bytes of a response."""
    for lossy in (
        normalizers.NFKC(), normalizers.NFC(), normalizers.Lowercase(), normalizers.Strip(),
        normalizers.StripAccents(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace("x", "y"),
    ):  # fmt: skip
        for build in (lambda: finished(merging()), byte_level):
            built = build()
            built.normalizer = normalizers.Sequence([lossy, *([built.normalizer] if built.normalizer else [])])
            vocab = escd.ByteVocab.from_tokenizer(built)
            for text in ("  ﬁ Å a\u0301  Xx THE  ", "é e\u0301"):
                ids, lost = vocab.encode(text.encode())
                assert (vocab.decode(ids), lost) == (text.encode(), 0)


def test_whitespace_that_a_pre_tokenizer_throws_away_is_kept():
    built = finished(scoring(), "metaspace", finished(merging()).decoder)
    built.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), built.pre_tokenizer])
    vocab = escd.ByteVocab.from_tokenizer(built)
    ids, lost = vocab.encode(b"the  cat\n")
    assert (vocab.decode(ids), lost) == (b"the  cat\n", 0)


def test_the_unknown_token_is_no_content():
    built = Tokenizer(models.Unigram([("☐", 0.0), ("a", -1.0), ("▁", -1.0)], 0))
    built.pre_tokenizer, built.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    assert escd.ByteVocab.from_tokenizer(built).token_bytes == [None, b"a", b" "]


# ---------------------------------------------------------------- byte-level


def byte_level(normaliser=False):
    """With an added prefix space; bytes by the pre-tokenizer, or by a normaliser."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [*alphabet, "Ġt", "he", "Ġthe"]
    built = Tokenizer(models.BPE({p: i for i, p in enumerate(known)}, [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]))
    if normaliser:
        built.normalizer = normalizers.ByteLevel()
    else:
        built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    built.decoder = decoders.ByteLevel()
    return built


@pytest.mark.parametrize("normaliser", [False, True])
def test_byte_level(normaliser):
    vocab = escd.ByteVocab.from_tokenizer(byte_level(normaliser))
    for text in ("the the", " the", "ĉ Ġ é\n", ""):
        ids, lost = vocab.encode(text.encode())
        assert (vocab.decode(ids), lost) == (text.encode(), 0)
    assert vocab.encode(b"the")[0] != vocab.encode(b" the")[0]


def test_without_a_decoder_the_other_steps_tell_the_family():
    for build, text in ((byte_level, b" the\n"), (lambda: finished(merging()), b"the cat\n")):
        spec = json.loads(build().to_str())
        spec["decoder"] = None
        vocab = escd.ByteVocab.from_tokenizer(Tokenizer.from_str(json.dumps(spec)))
        assert vocab.decode(vocab.encode(text)[0]) == text
        assert len(vocab.encode(text)[0]) < len(text)


def test_a_decoder_that_does_not_fit_the_vocabulary():
    """The proof decides: a byte-level vocabulary whose decoder is SentencePiece's, as some conversions leave it."""
    built = byte_level()
    built.decoder = finished(merging()).decoder
    vocab = escd.ByteVocab.from_tokenizer(built)
    assert vocab.decode(vocab.encode("the é".encode())[0]) == "the é".encode()
    assert b" the" in vocab.token_bytes


def test_words_that_end_in_a_mark_are_refused():
    for model in (
        models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"),
        models.BPE({"a": 0, "a</w>": 1}, [], end_of_word_suffix="</w>"),
        models.BPE({"a": 0, "@@a": 1}, [], continuing_subword_prefix="@@"),
    ):
        with pytest.raises(escd.VocabError, match=f"{type(model).__name__}.*no bytes of their own.*take a model"):
            escd.ByteVocab.from_tokenizer(Tokenizer(model))
    joined = Tokenizer(models.WordLevel({"a": 0}, "a"))
    joined.decoder = decoders.WordPiece()
    with pytest.raises(escd.VocabError, match="decoded by WordPiece"):
        escd.ByteVocab.from_tokenizer(joined)


def test_a_vocabulary_without_single_characters_is_refused():
    with pytest.raises(escd.VocabError, match="no token of a single character"):
        escd.ByteVocab.from_tokenizer(Tokenizer(models.BPE({"ab": 0}, [])))


# ---------------------------------------------------------------- tiktoken


PATTERN = r"\p{L}+| ?\p{N}{1,3}|\s+|[^\s\p{L}\p{N}]+"
RANKS = {bytes([b]): 255 - b for b in range(256)} | {b"th": 300, b"he": 301, b"the": 310, b"\xc3\xa9": 400, b" 1": 256}


def encoding():
    return tiktoken.Encoding(
        "small", pat_str=PATTERN, mergeable_ranks=RANKS, special_tokens={"<|end|>": 500, "<|pad|>": 450}
    )


class Slow:
    """A tokenizer that is code of its authors, as Kimi's."""

    name_or_path = "slow"
    eos_token_id = 500

    def __init__(self):
        self.model = encoding()


@pytest.mark.parametrize("make", [encoding, Slow])
def test_tiktoken(make):
    vocab = escd.ByteVocab.from_tokenizer(make())
    assert len(vocab) == 501
    assert {b: i for i, b in enumerate(vocab.token_bytes) if b} == RANKS
    assert vocab.special_tokens == {500: "<|end|>", 450: "<|pad|>"}
    assert vocab.stop_ids == ((500,) if make is Slow else ())


@any_text
@given(st.text(st.sampled_from("the 1é\n<|end|>.漢")))
def test_tiktoken_encodes_the_same(text):
    vocab = escd.ByteVocab.from_tokenizer(encoding())
    assert vocab.encode(text.encode()) == (encoding().encode(text, disallowed_special=()), 0)


def test_possessive_patterns_of_tiktoken():
    """`{1,3}+` takes at most three digits there."""
    possessive = tiktoken.Encoding(
        "p", pat_str=r"\p{L}++|\p{N}{1,3}+|\s++$|\s+(?!\S)|\s|[^\s\p{L}\p{N}]++",
        mergeable_ranks=RANKS | {b"12": 600, b"1212": 601, b"121": 602}, special_tokens={},
    )  # fmt: skip
    vocab = escd.ByteVocab.from_tokenizer(possessive)
    for text in ("12121212", "the  \n 1212", "a  \n\n", "é 1\n the"):
        assert vocab.encode(text.encode()) == (possessive.encode(text), 0)


def test_characters_apart_are_spelled_one_by_one():
    """Greedily, two of them fit a token that leaves a byte which nothing spells."""
    letters = {b: c for c, b in byte_alphabet().items()}
    tokens = [bytes([b]) for b in range(256) if b != 0x96] + ["▁".encode(), "▁".encode() + b"\xe2"]
    known = {"".join(letters[b] for b in token): i for i, token in enumerate(tokens)}
    built = Tokenizer(models.BPE(known, []))
    built.pre_tokenizer, built.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    vocab = escd.ByteVocab.from_tokenizer(built)
    ids, lost = vocab.encode("a▁▁b".encode())
    assert (vocab.decode(ids), lost) == ("a▁▁b".encode(), 0)
