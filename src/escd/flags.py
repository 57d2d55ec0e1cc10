"""Flags and YAML files of a command as Hugging Face has them: `--name value`, `--config file.yaml`."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from trl import TrlParser

from .errors import ConfigError, EscdError, first_line
from .objectives.options import suggest


class _Parser(TrlParser):
    """`TrlParser` whose complaints are `ConfigError`s that suggest the nearest flag."""

    def error(self, message: str):  # type: ignore[override]
        raise ConfigError(message)

    def known_flags(self) -> list[str]:
        return sorted({o for action in self._actions for o in action.option_strings if o.startswith("--")})


@dataclass(frozen=True)
class Flags:
    """What a command line says.

    Attributes:
        values: One dataclass per type, in order.
        named: Names that a flag or the file of `--config` sets.
        config: That file, if there is one.
    """

    values: tuple[Any, ...]
    named: frozenset[str]
    config: Path | None


def read_flags(
    types: Sequence[type],
    argv: Sequence[str],
    prog: str,
    find_config: Callable[[str], Path],
    dict_fields: Sequence[str] = (),
) -> Flags:
    """Read flags and the YAML file of `--config`, whose values the flags override.

    Args:
        types: Dataclasses whose fields are the flags.
        argv: The words of the command line.
        prog: Name for the help text.
        find_config: The file that `--config` means.
        dict_fields: Fields whose values in YAML may be mappings.

    Raises:
        ConfigError: Unknown flag or key, a value of the wrong kind, an unreadable file.
    """
    parser = _Parser(types, prog=prog, allow_abbrev=False)  # type: ignore[arg-type]
    args, content, config = split_equals(argv), {}, None
    if args.count("--config") > 1:
        raise ConfigError("--config is given twice; one file is enough")
    if "--config" in args:
        position = args.index("--config") + 1
        if position >= len(args) or args[position].startswith("--"):
            raise ConfigError("--config needs the path of a YAML file")
        config = find_config(args[position])
        content = _read_config(config, parser, dict_fields)
        args[position] = str(config)
    try:
        values = parser.parse_args_and_config(args)  # type: ignore[misc]
    except EscdError:
        raise
    except (ValueError, TypeError, ImportError, OSError, RuntimeError) as error:
        unknown = re.search(r"not used by the HfArgumentParser: \['([^']*)'", str(error))
        if unknown:
            word = unknown.group(1)
            kind = "flag" if word.startswith("-") else "argument"
            raise ConfigError(f"unknown {kind} {word!r}{suggest(word, parser.known_flags(), full=False)}") from error
        raise ConfigError(first_line(error)) from error
    return Flags(tuple(values), frozenset(content) | given_names(args), config)


def given_names(argv: Sequence[str]) -> frozenset[str]:
    """Names of the flags on a command line."""
    return frozenset(name_of(word) for word in split_equals(argv) if word.startswith("-"))


def name_of(flag: str) -> str:
    """The name of a flag: `--max-steps` is `max_steps`."""
    return flag.lstrip("-").replace("-", "_")


def json_mapping(name: str, given: dict[str, Any] | str | None) -> dict[str, Any]:
    """The value of a flag that takes a JSON dictionary; {} if it is not given.

    Raises:
        ConfigError: It is something else.
    """
    try:
        found = json.loads(given) if isinstance(given, str) else given or {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ConfigError(f"{name}={given!r} must be a JSON dictionary, e.g. '{{\"key\": 1}}'")
    return found


def find_file(name: str) -> Path:
    """The file that `--config` names, for a command without recipes of its own.

    Raises:
        ConfigError: There is no such file.
    """
    path = Path(name).expanduser()
    if not path.is_file():
        raise ConfigError(f"--config {name!r}: there is no such file")
    return path


def split_equals(argv: Sequence[str]) -> list[str]:
    """`--flag=value` as two words, so that `--config=x.yaml` is seen too."""
    return [word for arg in argv for word in (arg.split("=", 1) if re.match(r"--[\w-]+=", arg) else [arg])]


class _UniqueKeys(yaml.SafeLoader):
    """A loader that does not let the second of two equal keys win in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The content of a YAML file.

    Args:
        path: The file.
        what: What a file of its kind is, for the message: "a recipe is a YAML mapping of flags to values".

    Raises:
        ConfigError: It is not readable, or no mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
    except (yaml.YAMLError, ValueError, KeyError, OSError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: {what}")
    return content


def _read_config(path: Path, parser: _Parser, dict_fields: Sequence[str]) -> dict[str, Any]:
    """The content of a file of flags, each value of a kind that its flag takes."""
    content = read_mapping(path, "a recipe is a YAML mapping of flags to values")
    actions = {action.dest: action for action in parser._actions if action.dest != "help"}
    env = content.get("env", {})
    if not isinstance(env, dict) or any(isinstance(v, (dict, list)) for v in env.values()):
        raise ConfigError(f"{path}: env must be a mapping of environment variables to values")
    for key, value in content.items():
        if key == "env":
            continue
        if key not in actions:
            raise ConfigError(f"{path}: unknown key {key!r}{suggest(str(key), sorted(actions), full=False)}")
        if not _fits(parser, actions[key], value, dict_fields):
            raise ConfigError(f"{path}: {key}: {value!r} is not a value for --{key}")
    return content


def _fits(parser: _Parser, action: Any, value: Any, dict_fields: Sequence[str]) -> bool:
    """Whether a YAML value is one that the flag would take as text."""
    if value is None:
        return action.default is None
    if isinstance(value, dict):
        return action.dest in dict_fields
    if isinstance(value, list):
        return action.nargs == "+" and all(_fits_scalar(parser, action, v) for v in value)
    return _fits_scalar(parser, action, value)


def _fits_scalar(parser: _Parser, action: Any, value: Any) -> bool:
    if isinstance(value, (dict, list)) or value is None:
        return False
    try:
        converted = parser._get_value(action, str(value))
    except argparse.ArgumentError:
        return False
    # YAML reads 1e-4 as text, which the flag turns into a number; a number is no text.
    return not isinstance(converted, str) or isinstance(value, (str, bool)) or action.choices is not None
