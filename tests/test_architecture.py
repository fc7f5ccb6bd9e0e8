"""The house keeps its order: imports run one way, files stay small, importing is silent."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "qml_lightning"

# Reading order: a module imports only from those before it (or beside it in the same room).
READING_ORDER = (
    "errors", "units", "files", "keeper", "tensorfile", "resources", "structures", "datasets", "kernels",
    "neighbours", "verlet", "representation", "projection", "features", "accumulation", "recipes", "recipefile",
    "baseline", "basis", "design", "normal", "ridge", "solve", "preconditioner", "krylov", "matrixfree", "tiles",
    "outofcore", "training", "iterative", "restart", "potential", "equations", "smallerfits", "planning", "choice",
    "distributed", "exact", "modelfile", "equationsfile", "checkpoint", "ways", "fit", "metrics", "curves",
    "learning", "workers", "tune", "label_check", "adapters", "report", "cli",
)  # fmt: skip
# `Potential.save` and `Potential.load` reach for what is built on it, inside the function that needs it.
LOOKS_AHEAD = {("potential", "modelfile"), ("potential", "adapters")}


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imported_rooms(path: Path) -> set[str]:
    rooms = set()
    depth = len(path.relative_to(PACKAGE).parts) - 1
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        up = depth - (node.level - 1)
        if up > 0:
            continue  # a neighbour in the same room
        names = [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
        rooms.update(names)
    return rooms


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if _room(path) not in ("__init__", "__main__"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_what_comes_before_it(path):
    room = _room(path)
    for imported in _imported_rooms(path):
        if (room, imported) in LOOKS_AHEAD:
            continue
        assert READING_ORDER.index(imported) < READING_ORDER.index(room), f"{room} imports {imported}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_opens_with_one_sentence_and_stays_below_500_lines(path):
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    assert docstring.split("\n")[0].endswith(".")
    assert len(text.splitlines()) <= 500


def test_importing_prints_nothing_and_loads_nothing_optional():
    code = "import qml_lightning, sys; print([m for m in ('load_atoms', 'matplotlib', 'optuna') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""
