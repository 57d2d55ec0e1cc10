"""What the tests of sandbox and graders share."""

from functools import cache

import pytest

from escd.errors import ConfigError
from escd.evaluation.sandbox import Limits, run_python

SHORT = Limits(cpu=1, wall=60)


@cache
def missing() -> str:
    """Why no sandbox works here, or empty."""
    try:
        run_python("")
    except ConfigError as error:
        return str(error)
    return ""


def need_sandbox() -> None:
    if missing():
        pytest.skip(missing())
