"""What ARCHITECTURE.md calls invariants, as far as the source alone can show them."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import PROJECT_ROOT

FILE_LINES_MAX = 300
FUNCTION_LINES_MAX = 70
SEEDED = {"Random", "default_rng"}
SOURCES = sorted(path for root in ("app", "worker", "migrations") for path in (PROJECT_ROOT / root).rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _name(path: Path) -> str:
    return str(path.relative_to(PROJECT_ROOT))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _unseeded(tree: ast.Module) -> Iterator[str]:
    """Uses of the hidden, process-wide generator of ``random`` or ``numpy.random``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            yield from (alias.name for alias in node.names if alias.name not in SEEDED)
        if isinstance(node, ast.Attribute):
            origin, name = ast.unparse(node.value), node.attr
            hidden = origin == "random" or (origin in {"np.random", "numpy.random"} and name[0].islower())
            if hidden and name not in SEEDED:
                yield f"{origin}.{name}"


def test_import_contracts_are_kept() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    finished = subprocess.run([lint, "--no-cache"], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout[-3000:]


@pytest.mark.parametrize("path", [p for p in SOURCES if "domain" in p.parts], ids=_name)
def test_the_domain_draws_only_from_generators_it_was_given_a_seed_for(path: Path) -> None:
    assert list(_unseeded(_tree(path))) == []


@pytest.mark.parametrize(
    "source", ["import random\nrandom.random()", "from random import shuffle", "import numpy as np\nnp.random.normal()"]
)
def test_an_unseeded_draw_would_be_found(source: str) -> None:
    assert list(_unseeded(ast.parse(source)))


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_files_and_functions_stay_small(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= FILE_LINES_MAX, f"{lines} lines"
    if path.parent.name == "versions":
        return  # a migration is a list of tables, read once from top to bottom
    functions = [node for node in ast.walk(_tree(path)) if isinstance(node, Function)]
    long = {
        f.name: length for f in functions if (length := (f.end_lineno or f.lineno) - f.lineno + 1) > FUNCTION_LINES_MAX
    }
    assert long == {}


@pytest.mark.parametrize("path", [p for p in SOURCES if p.parent.name != "versions"], ids=_name)
def test_modules_say_what_and_why_in_five_lines(path: Path) -> None:
    said = ast.get_docstring(_tree(path))
    assert said is not None or not path.read_text().strip()
    assert len((said or "").splitlines()) <= 5
