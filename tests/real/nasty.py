"""More than 300 strings that break tokenizers, as bytes: scripts, marks, controls, markers, code, what is no UTF-8."""

import base64
import json
import random
from pathlib import Path

_GIVEN = json.loads(Path(__file__).with_suffix(".json").read_text())
WORDS = _GIVEN["text"]


def strings():
    """The same on every call."""
    rng = random.Random(0)
    found = [word.encode("utf-8", "surrogatepass") for word in WORDS] + [bytes.fromhex(h) for h in _GIVEN["hex"]]
    found += [bytes(range(256)), bytes(range(255, 127, -1))]
    found += [b" " * 10_000, b"\n" * 500, b"\t " * 300, b"0" * 1000, b"a" * 3000]
    found += ["漢".encode() * 500, "▁".encode() * 50]
    found += [base64.b64encode(rng.randbytes(n)) for n in (8, 100, 1000)] + [rng.randbytes(n) for n in (16, 100, 500)]
    found += [json.dumps({"k": [1, None, word], word: {"x": word}}).encode() for word in WORDS[::4]]
    found += [json.dumps([word], ensure_ascii=False).encode() for word in WORDS[::4]]
    for size in (2, 3, 8):
        found += [rng.choice(["", " ", "\n", "  "]).join(rng.choices(WORDS, k=size)).encode() for _ in range(30)]
    for _ in range(20):
        codes = (rng.choice((rng.randrange(32, 0x3000), rng.randrange(0x1F300, 0x1FAFF))) for _ in range(40))
        found.append("".join(map(chr, codes)).encode())
    return found
