"""Cases of input and expected output, in the forms in which sets keep them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ConfigError


def cases_of(value: Any) -> list[tuple[str, str]]:
    """Pairs of input and expected output.

    Args:
        value: Pairs, mappings with `input` and `output`, or one mapping with lists of both (also `inputs`, `outputs`);
            or JSON text of these.

    Raises:
        ConfigError: It is none of these.

    >>> cases_of('{"inputs": ["1\\\\n"], "outputs": ["2\\\\n"]}')
    [('1\\n', '2\\n')]
    """
    try:
        if isinstance(value, str):
            value = json.loads(value)
        if isinstance(value, Mapping):
            inputs, outputs = (value.get(name, value.get(f"{name}s")) for name in ("input", "output"))
            value = list(zip(inputs, outputs, strict=True))
        pairs = [(c["input"], c["output"]) if isinstance(c, Mapping) else tuple(c) for c in value]
        if all(len(pair) == 2 for pair in pairs):
            return [(_text(given), _text(expected)) for given, expected in pairs]
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigError(f"cases must be pairs of input and output, not {str(value)[:80]!r}")


def _text(value: Any) -> str:
    """Input or output as text; some sets keep its lines in a list."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "\n".join(map(str, value))
    return str(value)
