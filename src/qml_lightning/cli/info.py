"""`qml-lightning info`: the installation, or the content of a model file or an equations file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from ..errors import ModelError
from .options import Debug, Json
from .screen import facts, show, show_json, table, teaching
from .tables import choice_table, equations_facts, model_facts, of_file, symbol

if TYPE_CHECKING:
    from ..exact import ExactPotential
    from ..model.potential import Potential

HELP = teaching(
    """Describe this installation, a model, or a file of equations.

Without a file: versions, threads, memory, back-ends (and why one is not available), and recipes.
With a model: its elements, training data, recipe, and how it was trained. No code in the file is executed.

[bold]Examples[/bold]

  qml-lightning info
  qml-lightning info ethanol.safetensors
  qml-lightning info ethanol.safetensors --json
"""
)


def command(
    model: Annotated[
        Path | None, Argument(help="A model or equations file written by `train`.", metavar="MODEL", show_default=False)
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    if model is None:
        _installation(as_json)
    elif _holds_equations(model):
        _equations(model, as_json)
    else:
        _model(model, as_json)


def _holds_equations(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    from ..training.equations_file import FORMAT

    try:
        with safe_open(path, framework="pt") as file:
            return FORMAT in (file.metadata() or {})
    except (SafetensorError, OSError):
        return False  # the reader of model files will say what is wrong


def _equations(path: Path, as_json: bool) -> None:
    from ..machine.journal import recover
    from ..training.equations_file import read_equations_header

    recover(path)
    header = read_equations_header(path, checked=True)
    if as_json:
        show_json(header)
    else:
        with of_file(path):
            told = equations_facts(path.name, _with_checksum(header))
        show(told)


def _model(path: Path, as_json: bool) -> None:
    from ..model.file import read_header
    from .options import load_potential, load_properties

    header = read_header(path)
    if (properties := load_properties(path)) is not None:
        if as_json:
            show_json(header)
        else:
            show(facts(path.name, properties.facts()))
        return
    potential = load_potential(path)  # also checks the numbers: they may be damaged where the header is intact
    try:
        _show_model(path, header, potential, as_json)
    except (TypeError, ValueError, LookupError, AttributeError) as problem:
        raise ModelError(
            f"{path} is a qml-lightning model file with a part missing or altered ({problem})."
        ) from problem


def _close(potential: Potential | ExactPotential) -> str:
    """Distances at which atoms repel each other, in words."""
    if potential.repulsion is None:
        return "no repulsion"
    n, outer = len(potential.elements), potential.repulsion.outer
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    names = [f"{symbol(potential.elements[i])}–{symbol(potential.elements[j])}" for i, j in pairs]
    crowded = "" if potential.repulsion.crowding is None else ", and of atoms more crowded than in the data"
    below = ", ".join(f"{name} {outer[i, j]:.2f} Å" for name, (i, j) in zip(names, pairs))
    between = ""
    if (gaps := potential.repulsion.gaps) is not None:
        ends = {name: (float(gaps.low[p]), float(gaps.high[p])) for name, p in zip(names, pairs)}
        told = [f"{name} {low:.2f} to {high:.2f} Å" for name, (low, high) in ends.items() if high]
        between = "; within gaps of the data, " + ", ".join(told)
    return f"repulsion below {below}{between}{crowded}"


def _show_model(path: Path, header: dict[str, Any], potential: Potential | ExactPotential, as_json: bool) -> None:
    explained = {symbol(z): float(part) for z, part in zip(potential.elements, potential.projection.explained)}
    reference = {symbol(z): float(e) for z, e in zip(potential.elements, potential.baseline.energies)}
    if as_json:
        show_json({**header, "explained_variance": explained, "reference_energies": reference})
        return
    energies = ", ".join(f"{name} {energy:.4f} eV" for name, energy in reference.items())
    with of_file(path):
        found = str(header["provenance"].get("data", {}).get("references", ""))
        card = model_facts(path.name, _with_checksum(header), explained)
        trials = choice_table(header["provenance"].get("choice"))
    show(
        card,
        *trials,
        facts("Reference energies", {"atoms": energies, "found by": found, "close pairs": _close(potential)}),
    )


def _with_checksum(header: dict[str, Any]) -> dict[str, Any]:
    """The header with what the checksum says, in words. The file was read, so it is right where there is one."""
    none = "none: an older version wrote this file, and damage to its numbers cannot be seen"
    return {**header, "checksum": f"{header['checksum']}, verified" if "checksum" in header else none}


def _installation(as_json: bool) -> None:
    import platform
    from importlib.metadata import version

    import torch

    from ..machine.memory import GIB, available_memory
    from ..model.recipe import NAMED
    from ..model.representations import PRESETS

    state: dict[str, Any] = {
        "version": version("qml-lightning"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "memory_free_gib": round(available_memory() / GIB, 1),
        "devices": ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))],
        "backends": _backends(),
        "recipes": {name: recipe.as_dict() for name, recipe in NAMED.items()},
    }
    if as_json:
        show_json(state)
        return
    about = {
        "version": state["version"],
        "torch": f"{state['torch']}, Python {state['python']}",
        "threads": str(state["threads"]),
        "memory": f"{state['memory_free_gib']} GiB free",
        "devices": ", ".join(state["devices"]),
    }
    backends = [
        (row["name"], row["device"], row["precision"], "yes" if row["available"] else "no", row["why_not"] or "")
        for row in state["backends"]
    ]
    recipes = [
        (name, f"{r.features.n_features:,} {r.features.method.upper()}", f"{r.features.sigma:g}", f"{r.ridge:g}",
         str(r.rank), r.representation.describe())
        for name, r in NAMED.items()
    ]  # fmt: skip
    show(
        facts("QML-Lightning", about),
        table("Back-ends, the best first", ("name", "device", "precision", "available", "why not"), backends),
        table("Representations", ("name", "parameters"), [(name, one.describe()) for name, one in PRESETS.items()]),
        table("Recipes", ("name", "features", "σ", "ridge", "rank", "representation"), recipes, right=(1, 2, 3, 4)),
        "Public data sets by name: qml-lightning datasets",
    )


def _backends() -> list[dict[str, Any]]:
    """One row for each back-end, device and precision."""
    import torch

    from ..kernels import BACKENDS

    devices = [torch.device("cpu"), *([torch.device("cuda")] if torch.cuda.is_available() else [])]
    rows = []
    for backend in BACKENDS:
        for device in devices:
            for name, dtype in (("float64", torch.float64), ("float32", torch.float32)):
                reason = backend.why_not(device, dtype)
                rows.append(
                    {
                        "name": backend.name,
                        "device": device.type,
                        "precision": name,
                        "available": reason is None,
                        "why_not": reason,
                    }
                )
    return rows
