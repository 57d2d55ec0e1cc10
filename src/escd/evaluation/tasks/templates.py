"""Templates and expressions of a task file, over the columns of a row.

A template is text with `{{ question }}` in it; an expression is what stands between such braces and may give a list. A
column whose name is no identifier is `row['Correct Answer']`.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Mapping, Sized
from typing import Any

from jinja2 import StrictUndefined, Undefined, meta, nodes
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ...errors import ConfigError, first_line


class _NothingButText(pickle.Unpickler):
    """A pickle of text: one that names a class, and so could run something, is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")


def unpack(text: str) -> Any:
    """JSON text, or JSON text pickled, compressed and in base 64, as LiveCodeBench keeps its private tests.

    Raises:
        ValueError: It is neither.
    """
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(_NothingButText(io.BytesIO(zlib.decompress(base64.b64decode(text)))).load())
    except (ValueError, TypeError, zlib.error, pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"neither JSON nor packed JSON: {str(text)[:40]!r} ({type(error).__name__})") from error


_LONGEST = 1_000_000  # characters, items, or bits of a whole number


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, in which an expression can't fill the memory, and no null becomes the word None."""

    intercepted_binops = frozenset(("*", "**"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(x) if isinstance(x, Sized) else x for x in (left, right)]
        if operator == "**" and isinstance(left, int):
            sizes[0] = left.bit_length()
        limited = isinstance(left, Sized) or isinstance(right, Sized) or operator == "**"
        if limited and all(isinstance(x, int) for x in sizes) and sizes[0] * sizes[1] > _LONGEST:
            raise ValueError(f"{operator} gives more than {_LONGEST:,} characters, items or bits")
        return super().call_binop(context, operator, left, right)


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("a value in the text is null")
    return value


_ENVIRONMENT = _Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_given)
_ENVIRONMENT.filters["unpack"] = unpack


class Template:
    """Text with braces.

    Args:
        source: The text.
        where: File and key, for messages.

    Raises:
        ConfigError: Not a template.

    Attributes:
        columns: Columns that it reads.
    """

    def __init__(self, source: str, where: str):
        self.where = where
        try:
            self.columns = _columns(_ENVIRONMENT.parse(source))
            self._render = self._compile(source)
        except TemplateError as error:
            raise ConfigError(f"{where}: {first_line(error)}") from error

    def _compile(self, source: str) -> Any:
        template = _ENVIRONMENT.from_string(source)
        return lambda values: template.render(values).strip("\n")

    def __call__(self, row: Mapping[str, Any], number: int) -> Any:
        """What it gives for a row.

        Raises:
            ConfigError: The row lacks something inside a column, or an operation on it fails.
        """
        try:
            found = self._render({**row, "row": row})
        # Expressions do what they say with whatever a column holds.
        except Exception as error:
            raise ConfigError(f"{self.where}: fails on row {number}: {first_line(error)}") from error
        if isinstance(found, Undefined):
            raise ConfigError(f"{self.where}: fails on row {number}: {found._undefined_message}")
        return found


class Expression(Template):
    """What could stand between the braces of a template."""

    def __init__(self, source: str, where: str):
        super().__init__("{{ " + source + " }}", where)

    def _compile(self, source: str) -> Any:
        return _ENVIRONMENT.compile_expression(source[3:-3], undefined_to_none=False)


def _columns(tree: nodes.Template) -> frozenset[str]:
    """Columns that a template reads, by name or as `row['name']`."""
    by_name = meta.find_undeclared_variables(tree) - {"row", *_ENVIRONMENT.globals}
    keys = [
        item.arg.value for item in tree.find_all(nodes.Getitem)
        if isinstance(item.node, nodes.Name) and item.node.name == "row" and isinstance(item.arg, nodes.Const)
    ]  # fmt: skip
    return frozenset(by_name | {key for key in keys if isinstance(key, str)})
