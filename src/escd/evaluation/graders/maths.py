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
from .math_text import CALENDAR, is_number, readings, spelled
from .math_worker import SECONDS as TIME_LIMIT

_SECONDS = 20.0
_TAIL = 2000
_LONGEST = 1000
_WORDS = re.compile(r"\\(?:text|textbf|mathrm|mbox)\{([^{}]*)\}")
_NAME = re.compile(r"[^\W\d_][^\W\d_.' -]*[^\W\d_][\w.' -]*")
_BASED = re.compile(r"(?<!\w)[0-9A-F]+_\{?\d+\}?")


def grade_math(response: str, record: Mapping[str, Any]) -> Verdict:
    r"""Compare a response with `record["answer"]`, a number or LaTeX; a GSM8K solution stands for its `#### 42`.

    The answer is what the response states last, in a box, on an "Answer:" line or behind "####", else its last
    expression. docs/evaluation.md says what counts as equal.

    >>> grade_math("Half of it. Answer: \\frac{1}{2}", {"answer": "0.5"})
    Verdict(correct=True, reason='right')
    """
    gold = bare(str(record["answer"]))
    gold = stated_answer(gold) or gold
    answer, text = stated_answer(response), final_part(response)[-_TAIL:]
    exact = next((kind for kind in (CALENDAR, _BASED) if kind.fullmatch(gold)), None)
    if answer is None and exact:  # an expression would be computed
        answer = next((m[0] for m in reversed([*exact.finditer(text)])), None)
        text = ""
    if answer == "" or (answer is None and not text.strip()):
        return Verdict(False, "no answer found")
    if answer is not None:
        if len(answer) > _LONGEST:
            return Verdict(False, f"the answer is {len(answer)} characters long")
        words = _WORDS.fullmatch(gold)
        named = words[1] if words else gold if _NAME.fullmatch(gold) else None
        if spelled(answer) == spelled(gold) or (named is not None and _words(answer) == _words(gold)):
            return Verdict(True, "right")
        wordy = named is not None and (len(_words(gold)) > 3 or words) and not re.fullmatch(r"[\W\d]*", named)
        if wordy or exact is CALENDAR or CALENDAR.fullmatch(answer):
            return _judge(False, bare(_WORDS.sub(r"\1", answer)), named or gold)
    golds = readings(gold)
    number = all(is_number(item["text"]) for item in golds[0]["items"] or golds[:1])
    answers = None if answer is None else readings(answer, number)
    found = _WORKER.ask({"gold": golds, "answer": answers, "text": spelled(text)})
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
