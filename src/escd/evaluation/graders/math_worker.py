"""Compares mathematical answers with math-verify, as a program of its own: JSON lines in, JSON lines out.

Run by `maths.py`. Sympy can be made to compute for ever; math-verify's time-outs are signals, which need a main thread
and do not reach into long arithmetic, so whoever waits for an answer must be able to end the process.
"""

import json
import sys
import time

MEMORY = 2 << 30
SECONDS = 5  # of each step


def main() -> None:
    """Answer each `{"gold": ..., "answer": ..., "text": ...}` with `{"equal": ..., "found": ..., "seconds": ...}`.

    `answer` is what the response states; where it is null, the last expression in `text` counts.
    """
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):  # no such limit on this system
        pass
    from math_verify import parse, verify
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

    targets = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    answers = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        asked, start = json.loads(line), time.monotonic()
        try:
            gold = parse(f"\\boxed{{{asked['gold']}}}", targets, parsing_timeout=SECONDS)
            text = asked["text"] if asked["answer"] is None else f"\\boxed{{{asked['answer']}}}"
            found = parse(text, targets, parsing_timeout=SECONDS)
            equal = bool(found) and verify(gold, found, timeout_seconds=SECONDS)
            reply = {"equal": bool(equal), "found": str(found[-1]) if found else None}
        except Exception as error:  # an expression that none of the libraries was made for
            reply = {"equal": False, "found": None, "error": type(error).__name__}
        reply["seconds"] = time.monotonic() - start
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
