"""Real vocabularies: exact bytes, and every pair of ten families aligns. Skipped without a registry."""

import itertools

import assets
import numpy as np
import pytest

import escd
from escd.models import load_tokenizer

from .nasty import strings

pytestmark = pytest.mark.slow

# Ten families for the pairs; the others are read and round-trip only.
PAIRED = (
    "qwen-2.5", "deepseek-v3", "glm-4.7-flash", "gpt2", "deepseek-coder-33b-base", "llama3", "mistral", "llama2",
    "claude", "gemma3",
)  # fmt: skip
OTHERS = ("tekken", "o200k", "minimax-m1-40k", "qwen-3.5", "p50k", "mistral-v3")
STRINGS = strings()


@pytest.fixture(scope="module")
def vocabularies():
    """By family, each read once."""
    known = {}

    def read(family):
        if family not in known:
            try:
                known[family] = escd.ByteVocab.from_tokenizer(
                    load_tokenizer(str(assets.tokenizer_file(family)), "model")
                )
            except assets.Unavailable as error:
                known[family] = str(error)
        if isinstance(known[family], str):
            pytest.skip(known[family])
        return known[family]

    return read


def unspellable(vocab, data):
    """Offset of the first character that the vocabulary has neither whole nor byte by byte, the length if none."""
    at = 0
    for character in data.decode("utf-8", "surrogateescape"):
        raw = character.encode("utf-8", "surrogateescape")
        if raw not in vocab.id_of and any(bytes([b]) not in vocab.id_of for b in raw):
            return at
        at += len(raw)
    return at


@pytest.mark.parametrize("family", [*PAIRED, *OTHERS])
def test_bytes_round_trip(vocabularies, family):
    assert len(STRINGS) >= 300
    vocab = vocabularies(family)
    for data in STRINGS:
        ids, lost = vocab.encode(data)
        assert vocab.decode(ids) == data[: len(data) - lost], data[:60]
        if lost:
            # Only what the vocabulary cannot spell, and from there on.
            assert len(data) - lost <= unspellable(vocab, data) < len(data), data[:60]
    bytes_lost = sum(vocab.encode(bytes([b]))[1] for b in range(256))
    assert bytes_lost == (13 if family == "deepseek-coder-33b-base" else 0)


def test_every_pair_aligns(vocabularies):
    """Roots are where both cut the text, straight from the definition."""
    vocabs = [vocabularies(family) for family in PAIRED]
    spelled = [[vocab.encode(data)[0] for data in STRINGS] for vocab in vocabs]
    for (mine, ids_s), (theirs, ids_t) in itertools.combinations(zip(vocabs, spelled, strict=True), 2):
        pair = escd.TokenizerPair(student=mine, teacher=theirs)
        for data, s, t in zip(STRINGS, ids_s, ids_t, strict=True):
            found = escd.align(pair, s, t)
            cut = [
                set(np.cumsum([0, *(len(v.token_bytes[i]) for i in ids)]).tolist())
                for v, ids in ((mine, s), (theirs, t))
            ]
            short = min(max(each) for each in cut)
            assert found.common == short
            assert found.same_bytes or short < len(data)
            boundaries = [o for o in sorted(cut[0] & cut[1]) if o < max(cut[0]) and o < max(cut[1])]
            assert found.offsets[found.roots[:, 0]].tolist() == boundaries
