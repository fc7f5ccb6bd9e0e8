"""The house keeps its order: imports run one way, files stay small, importing is silent."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from places import ROOT

PACKAGE = ROOT / "src" / "qml_lightning"

# Reading order. A module imports only modules that stand before it: in its own room, or in an earlier room. A room's
# name stands for its `__init__`, which comes last in the room.
HOUSE = """
errors
machine: files display journal tensors row_sums transfers memory processes progress ranks forks shared_lock compute
atoms: units structures fingerprints dataset cells linked_cells neighbours bonds
kernels: contract harmonics reference.pullback reference.fchl19 reference.density reference.features
  reference.tangents reference.pairs reference
  native.library native.functions native.predictor native triton.launch triton.key_runs triton.angles triton.two_sum
  triton.features triton.rows triton.tangents triton.pairs triton.geometry triton.harmonics triton.density
  triton.fchl19_functions triton.fchl19 triton.jacobian triton.compile_ahead triton
linear: robust_deviation compensated normal_equations cholesky ridge solution direct left_out preconditioner krylov
  posterior many_targets
  disk.tiles disk.solve disk
model: field_checks representations.fchl19 representations.density representations projection features recipe
  recipe_file baseline crowding gaps repulsion basis batching batch_environments committee provenance predictor
  properties potential crowding_fit module file property_file metrics
training: choice.rules problem environments rows row_operator costs chosen_recipe equations equations_file outputs plan
  choice.order choice.trials choice.budget choice.search choice screening.rows screening.judgement screening.search
  screening.decision screening checkpoint shared_gather uncertainty solvers.task solvers.direct solvers.disk
  solvers.iterative solvers sweep fit properties
datasets: usage archive xyz_sizes content npz frames citations entries unit_hints doubts downloads catalogue readers
  several writers
exact: recipe groups covariance potential file fit
api
study: contradictions trends learning_curve tuning label_check stress_check statistics calibration posterior selection
  vibrations infrared
adapters: engine ase delta dipoles ase_plugin ipi metatomic openmm torchsim lammps.folder lammps.build lammps.run
  lammps.external lammps
dynamics: replicas ensembles restart files watch known_ground run checks
report: style page drawing card series learning data_page points viewer reliability spread figures
  figure_pages model_page summary curve response
cli: screen help failures config options recipe_options tables portions overlap md check data datasets properties
  evaluate export info lammps learning_curve merge predict report select train tune update
"""
# Convenience methods of a potential reach for what is built on it, inside the function that needs it.
LOOKS_AHEAD = {
    ("model.potential", "api"),
    ("model.potential", "adapters.ase"),
    ("model.potential", "adapters.delta"),
    ("model.potential", "model.module"),
    ("model.properties", "model.property_file"),
    ("model.predictor", "model.potential"),
}


def reading_order() -> list[str]:
    """Names of all modules, such as `linear.disk.tiles`, in the order in which they may import each other."""
    order: list[str] = []
    for line in HOUSE.replace("\n  ", " ").strip().splitlines():
        room, _, modules = line.partition(":")
        order += [f"{room}.{module}" for module in modules.split()]
        if room in order:
            order.remove(room)
        order.append(room)
    return order


ORDER = reading_order()


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if module_name(path) not in ("__init__", "__main__"))


def imported_modules(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules of this package that a file imports, and whether it does so late: in a function, or for types alone."""
    package = path.relative_to(PACKAGE).parent.parts
    tree = ast.parse(path.read_text())
    late = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    late += [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    inside = {id(node) for one in late for node in ast.walk(one)}
    for node in ast.walk(tree):
        for one in _modules_of(node, package):
            yield one, id(node) in inside


def _modules_of(node: ast.AST, package: tuple[str, ...]) -> set[str]:
    """Modules of this package that an import names, relative or absolute; "" is the package itself."""
    if isinstance(node, ast.Import):
        names = [alias.name.partition(".") for alias in node.names]
        return {rest for first, _, rest in names if first == PACKAGE.name}
    if not isinstance(node, ast.ImportFrom):
        return set()
    if node.level:
        base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
    elif (node.module or "").split(".")[0] == PACKAGE.name:
        base = (node.module or "").split(".")[1:]
    else:
        return set()
    name = ".".join(part for part in base if part)
    names = [f"{name}.{alias.name}".lstrip(".") for alias in node.names]
    return {found if found in ORDER else name for found in names}


@pytest.mark.parametrize(
    "text",
    ["from ..model import file", "from ..model.file import load", "import qml_lightning.model.file",
     "from qml_lightning.model import file", "from qml_lightning.model.file import load"],
)  # fmt: skip
def test_an_import_is_seen_in_every_form(text, tmp_path):
    (node,) = ast.parse(text).body
    assert _modules_of(node, ("training",)) == {"model.file"}
    assert _modules_of(ast.parse("import qml_lightning").body[0], ()) == {""}
    assert _modules_of(ast.parse("import torch, qml_other.model").body[0], ()) == set()


def test_every_module_has_its_place_in_the_house():
    assert sorted(ORDER) == sorted(module_name(path) for path in MODULES)
    assert len(set(ORDER)) == len(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_imports_only_what_stands_before_it(path):
    name = module_name(path)
    for imported, late in imported_modules(path):
        if imported == "" or imported == name or (late and (name, imported) in LOOKS_AHEAD):
            continue  # "": a public name of the package
        assert ORDER.index(imported) < ORDER.index(name), f"{name} imports {imported}, which stands after it"


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_opens_with_one_sentence_and_has_at_most_400_lines(path):
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    assert docstring.split("\n")[0].endswith(".")
    assert len(text.splitlines()) <= 400


# A few files of tests are longer: they may not grow.
LONG_TESTS = {
    "training/test_choice.py": 440,
    "datasets/test_reading.py": 454,
    "exact/test_exact.py": 501,
    "cli/test_cli.py": 511,
    "helpers/native_fuzz_calls.py": 547,
}


@pytest.mark.parametrize("folder", ["benchmarks", "tests"])
def test_benchmarks_and_tests_have_at_most_400_lines_too(folder):
    lengths = {
        path.relative_to(ROOT / folder).as_posix(): len(path.read_text().splitlines())
        for path in (ROOT / folder).rglob("*.py")
    }
    most = LONG_TESTS if folder == "tests" else {}
    assert not {name: n for name, n in lengths.items() if n > most.get(name, 400)}


VAGUE = ("What ", "Of ", "Those ", "The same ", "Nothing, or ")
# The command line and the readers have a parameter for each option.
OPTIONS = ("cli", "datasets")
MOST_PARAMETERS = 8


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_docstring_opens_with_its_subject(path):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, documented)]
    openings = [(ast.get_docstring(node) or "").split("\n")[0] for node in nodes]
    assert not [opening for opening in openings if opening.startswith(VAGUE)]


@pytest.mark.parametrize(
    "path", [path for path in MODULES if module_name(path).split(".")[0] not in OPTIONS], ids=module_name
)
def test_a_function_has_at_most_eight_parameters(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names = [one.arg for one in given if one.arg not in ("self", "cls")]
            assert len(names) <= MOST_PARAMETERS, f"{node.name} takes {', '.join(names)}"


def test_importing_prints_nothing_and_loads_nothing_optional():
    code = "import qml_lightning, sys; print([m for m in ('matplotlib', 'optuna', 'triton') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""
