"""The `escd` command."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence

from . import __version__
from .errors import EscdError

# command: module with `main(argv)` that may return an exit code, extras that it needs, what it does
_COMMANDS = {
    "distill": ("escd.training.distill", "eval,report", "distil a teacher into a student with another tokenizer"),
    "compare": ("escd.compare.main", "eval,report", "objectives x seeds from one base student, with intervals"),
    "eval": ("escd.evaluation.command", "eval", "sample a model on tasks, grade its answers, avg@k and pass@k"),
    "inspect": (
        "escd.inspector.command",
        "eval,report",
        "a page: responses as bytes, what each row learns",
    ),
    "pair": ("escd.pair_report.command", "train", "will a teacher and a student work together? needs no weights"),
}

_USAGE = f"""escd {__version__}: on-policy distillation between models with different tokenizers

usage: escd COMMAND [flags]

commands:
{chr(10).join(f"  {name:10} {meaning}" for name, (_, _, meaning) in _COMMANDS.items())}

  escd distill                       the quickstart: an embedded pair, a few minutes on two CPU cores
  escd distill --config FILE.yaml    a recipe; flags after it override its values
  escd compare RECIPE.yaml           arms and seeds; the same command continues what is not finished
  escd eval --model_name_or_path MODEL --tasks gsm8k
  escd inspect --model_name_or_path STUDENT --teacher_model_name_or_path TEACHER --text FILE
  escd pair TEACHER STUDENT          what their tokenizers and templates make of each other, and a verdict
  escd COMMAND --help                all flags of a command

A mistake ends in one line and exit code 2; ESCD_TRACEBACK=1 shows where it was found.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 if runs of a comparison failed or a pair will not work, 2
    for what the user can mend."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help", "help"):
        print(_USAGE, end="")
        return 0
    if args[0] in ("-V", "--version", "version"):
        print(f"escd {__version__}")
        return 0
    command, rest = args[0], args[1:]
    if command not in _COMMANDS:
        return _fail(f"unknown command {command!r}; commands: {', '.join(_COMMANDS)}")
    # Two contended OpenMP threads that spin while they wait can run ten times slower than one.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    module, extras, _ = _COMMANDS[command]
    try:
        try:
            run = importlib.import_module(module).main
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] == "escd":
                raise
            return _fail(f"{command} needs {error.name}; install it with: pip install 'escd[{extras}]'")
        code = run(rest)
    except EscdError as error:
        if os.environ.get("ESCD_TRACEBACK"):
            traceback.print_exc()
        return _fail(f"{command}: {error}")
    except KeyboardInterrupt:
        print(f"\nescd {command}: interrupted", file=sys.stderr)
        return 130
    return code or 0


def _fail(message: str) -> int:
    print(f"escd: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
