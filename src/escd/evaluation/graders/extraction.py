"""Where a response states its answer."""

from __future__ import annotations

import re

from ...families.thoughts import CLOSING, OPENING

_THOUGHT_END, _THOUGHT_START = re.compile(CLOSING, re.I), re.compile(OPENING, re.I)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
# "Answer: 42", "**Final answer:** 42", "## Answer" above a line, "#### 42" (GSM8K; with words it is a heading).
_LINE = re.compile(
    r"(?im)^[ \t>#*_-]*(?:the[ ]+)?(?:(?:final|correct|best|right)[ ]+)?answer[*_]*[ \t]*[:=][ \t]*[*_]*"
    r"|^[ \t]*(?:#{1,6}[ \t]*|\*\*)(?:(?:final|correct)[ ]+)?answer[*_ \t]*$"
    r"|^[ \t]*####[ \t]*(?=[-+−$€£¥]*\.?\d)"
)
# The same where a sentence begins within a line: it then states what stands before the next sentence.
_INSIDE = re.compile(
    r"(?i)(?<=[.!?:;,)\]}*][ ])[*_]*(?:so,?[ ]+)?(?:the[ ]+)?(?:(?:final|correct|best|right)[ ]+)?"
    r"answer[*_]*[:=][ \t]*[*_]*"
)
# In running text.
_SENTENCE = re.compile(
    r"(?i)\b(?:the|my)[ ]+(?:(?:final|correct|best|right)[ ]+)?(?:answer|option|choice)"
    r"(?:[ ]+(?:to|for|of)[ ][^.:\n]{1,80}?)?[ ]+is(?:[ \t]*:)?(?=[\s*$(\\])[ \t]*"
)
_SENTENCE_END = re.compile(r"[.;](?=\s|$)")
_LONGEST = 2000  # characters; what is longer is no answer, and reading it would only take time


def final_part(response: str) -> str:
    """The response without what the model thought before it; empty if it never stopped thinking.

    >>> final_part("<think>7, no, 8</think>Answer: 8")
    'Answer: 8'
    """
    ends = list(_THOUGHT_END.finditer(response))
    rest = response[ends[-1].end() :] if ends else response
    start = _THOUGHT_START.search(rest)
    return rest[: start.start()] if start else rest


def stated_answer(response: str) -> str | None:
    r"""The last answer that a response states as such: in a box, behind "Answer:" that begins a line or sentence, or
    behind "####".

    Only without any of these "the answer is ..." counts.

    Returns:
        The answer without dollar signs and emphasis around it; "" if the place for it is empty; None if there is no
        such place.

    >>> stated_answer("So $x = 3$.\n\n**Answer:** $\\frac{1}{2}$.")
    '\\frac{1}{2}'
    >>> stated_answer("I think it is 12.") is None
    True
    """
    text = final_part(response)
    strong = [*_BOXED.finditer(text), *_LINE.finditer(text), *_INSIDE.finditer(text)]
    if strong:
        mark = max(strong, key=re.Match.start)
        if mark.re is _BOXED:
            return bare(_in_braces(text, mark.end()))
        said = _behind(text, mark)
        return bare(_SENTENCE_END.split(said, maxsplit=1)[0] if mark.re is _INSIDE else said)
    weak = [*_SENTENCE.finditer(text)]
    if not weak:
        return None
    return bare(_SENTENCE_END.split(_behind(text, weak[-1]), maxsplit=1)[0])


def bare(answer: str) -> str:
    """An answer without dollar signs, emphasis, a full stop and blanks around it.

    >>> bare(" **$42$**. ")
    '42'
    """
    before, answer = None, answer[:_LONGEST]
    while before != answer:
        before = answer
        answer = answer.strip().strip("*_`").strip()
        answer = answer.removesuffix(".").removesuffix("。")
        for left, right in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
            if len(answer) > len(left) and answer.startswith(left) and answer.endswith(right):
                answer = answer[len(left) : -len(right)]
    return answer


def _behind(text: str, mark: re.Match[str]) -> str:
    """The rest of the line behind a mark, or the next line if there is no rest."""
    line = text[mark.end() :].split("\n", 1)[0]
    return line if line.strip(" \t*_:") else text[mark.end() :].lstrip(" \t*_:\r\n").split("\n", 1)[0]


def _in_braces(text: str, start: int) -> str:
    """What stands between the brace before `start` and its partner; all of the rest if that is missing."""
    depth = 1
    for i in range(start, len(text)):
        if text[i] in "{}" and text[i - 1] != "\\":
            depth += 1 if text[i] == "{" else -1
            if not depth:
                return text[start:i]
    return text[start:]
