"""Grader `math`: whether the answer of a response equals the reference, as numbers, expressions, sets or words."""

from __future__ import annotations

import atexit
import json
import re
import selectors
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..verdict import Verdict, one_line
from .extraction import bare, final_part, stated_answer
from .math_worker import SECONDS as TIME_LIMIT

_SECONDS = 20.0
_TAIL = 2000
_LONGEST = 1000
_WORDS = re.compile(r"\\(?:text|textbf|mathrm|mbox)\{([^{}]*)\}")
_SCIENTIFIC = re.compile(r"(?<=\d)[eE]([-+]?\d+)(?![\w.])")
# One number with separators between words: "1,234 dollars".
_THOUSANDS = re.compile(r"[A-Za-z\s$€£¥]*(-?\d{1,3}(?:,\d{3})+(?:\.\d+)?)[A-Za-z\s.]*")
_PLAIN = str.maketrans({"−": "-", "–": "-", "，": ",", "°": r"^\circ", "×": r"\times ", "·": r"\cdot ", "π": r"\pi "})


def grade_math(response: str, record: Mapping[str, Any]) -> Verdict:
    r"""Compare a response with `record["answer"]`, a number or LaTeX; a GSM8K solution stands for its `#### 42`.

    The answer is what the response states last, in a box, on an "Answer:" line or behind "####", else its last
    expression.

    >>> grade_math("Half of it. Answer: \\frac{1}{2}", {"answer": "0.5"})
    Verdict(correct=True, reason='right')
    """
    gold = bare(str(record["answer"]))
    gold = (stated_answer(gold) or gold).translate(_PLAIN)
    answer, text = stated_answer(response), final_part(response)[-_TAIL:]
    if answer == "" or (answer is None and not text.strip()):
        return Verdict(False, "no answer found")
    if answer is not None:
        if len(answer) > _LONGEST:
            return Verdict(False, f"the answer is {len(answer)} characters long")
        answer = _SCIENTIFIC.sub(r"\\times 10^{\1}", answer.translate(_PLAIN))
        if number := _THOUSANDS.fullmatch(answer):
            answer = number[1]
        if answer == gold:
            return Verdict(True, "right")
        words = _WORDS.fullmatch(gold)
        if words and not re.fullmatch(r"\W*\d[\d.,]*\W*", words[1]):
            return _judge(_words(answer) == _words(gold), bare(_WORDS.sub(r"\1", answer)), words[1])
    found = _WORKER.ask({"gold": _SCIENTIFIC.sub(r"\\times 10^{\1}", gold), "answer": answer, "text": text})
    if found is None or (not found["equal"] and found["seconds"] >= TIME_LIMIT):
        return Verdict(False, f"time limit: {one_line(answer or 'the answer', 80)} cannot be compared")
    if found["found"] is None and answer is None:
        return Verdict(False, "no answer found")
    return _judge(found["equal"], str(answer or found["found"]), gold)


def _judge(equal: bool, answer: str, gold: str) -> Verdict:
    if equal:
        return Verdict(True, "right")
    return Verdict(False, f"wrong answer: {one_line(answer, 80)}, not {one_line(gold, 80)}")


def _words(text: str) -> str:
    """Words as they are compared: without case, blanks and marks around them."""
    return re.sub(r"[\s$(){}.,]+", " ", _WORDS.sub(r"\1", text)).strip().casefold()


class _Worker:
    """The process that compares; started when it is needed, ended and replaced when it does not answer in time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """Its answer, None if there is none in time."""
        with self._lock:
            process = self._process or self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(question).encode() + b"\n")
                process.stdin.flush()
                with selectors.DefaultSelector() as selector:
                    selector.register(process.stdout, selectors.EVENT_READ)
                    line = process.stdout.readline() if selector.select(_SECONDS) else b""
            except OSError:  # it died of what it was asked before
                line = b""
            if line:
                return json.loads(line)
            self._stop()
            return None

    def _start(self) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("math_worker.py")
        # -P: the modules beside the script are no top-level modules.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return self._process

    def _stop(self) -> None:
        if process := self._process:
            self._process = None
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                try:
                    if pipe:
                        pipe.close()
                except OSError:
                    pass

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()


_WORKER = _Worker()
atexit.register(_WORKER.close)
