"""The core imports numpy, torch and tokenizers only, so that any trainer can use it; its names are the fixed ones."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import escd

PACKAGE = Path(escd.__file__).parent
CORE = [
    "vocab.py",
    "pair.py",
    "align.py",
    "errors.py",
    *(f"families/{p.name}" for p in (PACKAGE / "families").glob("*.py")),
]
CORE += [f"objectives/{p.name}" for p in (PACKAGE / "objectives").glob("*.py")]
ALLOWED = {"numpy", "torch", "tokenizers"}
OURS = {"vocab", "pair", "align", "errors", "families", "objectives"}


def imports(path: Path) -> set[str]:
    """Top names of a module's absolute imports, and `.name` of the package's own."""
    found = set()
    package = path.relative_to(PACKAGE).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1])
            names = [*base, *((node.module or "").split(".") if node.module else [])]
            found |= {f".{names[0]}"} if names else {f".{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("name", CORE)
def test_core_imports_only_what_it_may(name):
    found = imports(PACKAGE / name)
    outside = {n for n in found if not n.startswith(".")} - set(sys.stdlib_module_names) - ALLOWED
    inside = {n[1:] for n in found if n.startswith(".")} - OURS
    assert not outside
    assert not inside


def test_import_of_the_package_loads_neither_transformers_nor_trl():
    heavy = "('transformers', 'trl', 'datasets', 'peft')"
    code = f"import escd, escd.lab, sys; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_public_names():
    assert set(escd.__all__) <= set(dir(escd)) | {"ESCDConfig", "ESCDTrainer"}
    for name in escd.__all__:
        assert getattr(escd, name)
    assert not hasattr(escd, "no_such_name")


def test_no_module_is_too_long():
    long = {str(p): n for p in PACKAGE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400}
    assert not long
