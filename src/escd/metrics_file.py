"""Reading `metrics.jsonl`, the log of a training run. Needs the standard library only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Rows of a `metrics.jsonl`, or of any file with one JSON object per line.

    A line that was cut off while it was written is left out, and a file that does not exist has no rows. Values that
    are not numbers in JSON (`NaN`, `Infinity`) are read as Python writes them.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:  # not JSON, or a character cut in two
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
