"""Equations files: the equations of a fit with their basis, to add to, to solve again, or to resume from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..linear.normal_equations import Gram, Part, Rows, append, lower_tiles
from ..machine.journal import recover
from ..machine.memory import Memory
from ..machine.tensors import open_tensors, write_tensors
from ..model.baseline import References
from ..model.basis import Basis
from ..model.file import basis_tensors, read_baseline, read_basis, read_repulsion, read_tensor, repulsion_tensors
from .chosen_recipe import Chosen
from .costs import equations_memory
from .equations import Equations

FORMAT = "qml-lightning-equations"
# Raised when an older package could no longer read the file. 2: representations have a kind.
FORMAT_VERSION = 2


@dataclass(frozen=True)
class Position:
    """Progress of a fit that is not finished: the equations hold all rows of the first `done` structures."""

    done: int
    of: int
    share: str = ""  # of a fit by several ranks: whose structures these are, such as "rank 1 of 2"


def save_equations(
    equations: Equations, path: str | Path, *, overwrite: bool = False, position: Position | None = None
) -> None:
    """Write `equations` to `path`, atomically. Of a Gram matrix only the lower triangle, a tile at a time."""
    write_tensors(path, FORMAT, header_of(equations, position), _tensors(equations), overwrite=overwrite)


def header_of(equations: Equations, position: Position | None = None) -> dict[str, Any]:
    """JSON header of an equations file."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "elements": list(equations.elements),
        "given_reference_energies": equations.given,
        "structures": len(equations.structures),
        "atoms": equations.atoms,
        "data": equations.data,
        **replace(equations.chosen, recipe=equations.recipe).header(),
        "n_weights": equations.n_weights,
        "parts": {kind: _form(part) for kind, part in equations.parts.items()},
        "position": None if position is None else asdict(position),
    }


def _form(part: Part) -> dict[str, Any]:
    common = {"n": part.n, "n_targets": part.n_targets}
    if isinstance(part, Rows):
        return {"form": "rows", **common, "capacity": part.capacity}
    return {"form": "gram", **common, "waiting": part.waiting.n}


def _tensors(equations: Equations) -> dict[str, Tensor]:
    tensors = {
        "origin": equations.references.origin.energies,
        "references": equations.references.sums,
        "structures": equations.structures,
        **({} if equations.geometries is None else {"geometries": equations.geometries}),
        **basis_tensors(equations.basis),
        **repulsion_tensors(equations.bounds),
    }
    for kind, part in equations.parts.items():
        rows = part if isinstance(part, Rows) else part.waiting
        if rows.n:
            tensors[f"{kind}.rows"], tensors[f"{kind}.targets"] = rows.filled()
        if isinstance(part, Gram):
            tensors[f"{kind}.moment"], tensors[f"{kind}.square"] = part.moment, part.square
            tensors |= {f"{kind}.gram.{first}": tile for first, _, tile in lower_tiles(part.gram)}
    return tensors


def read_equations_header(path: str | Path, *, checked: bool = False) -> dict[str, Any]:
    """JSON header of an equations file, checked to be ours and of a known version; `checked`: with its checksum."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "equations", checked=checked) as (header, _):
        return header


def read_equations_basis(path: str | Path) -> Basis:
    """Basis of an equations file, without its equations."""
    with open_tensors(path, FORMAT, FORMAT_VERSION, "equations", checked=False) as (header, file):
        return read_basis(header, file)


def load_equations(path: str | Path, *, device: torch.device | str = "cpu") -> Equations:
    """The equations that `save_equations` wrote, complete."""
    equations, position = load_state(path, device=device)
    if position is not None:
        raise InputError(
            f"{path} is the checkpoint of a fit that came to {position.done} of {position.of} structures. "
            "Finish it with train --resume, and keep its equations with --equations."
        )
    return equations


def load_state(path: str | Path, *, device: torch.device | str = "cpu") -> tuple[Equations, Position | None]:
    """Equations of a file, and the position of a checkpoint. An update that was cut short is finished first."""
    recover(path)
    with open_tensors(path, FORMAT, FORMAT_VERSION, "equations") as (header, file):
        n, forms = header["n_weights"], header["parts"]
        _check_counts({name: header[name] for name in ("n_weights", "structures", "atoms")})
        for form in forms.values():
            _check_counts({name: count for name, count in form.items() if name != "form"})
        Memory().require(
            sum(equations_memory(n + 1 if form["form"] == "gram" else form["capacity"], n) for form in forms.values()),
            f"Reading equations for {n} weights",
            "Close other programs, or use a machine with more memory.",
        )
        basis = read_basis(header, file)
        k = 1 + len(basis.elements)
        if n != basis.n_weights:
            raise KeyError(f"equations for {n} weights")
        position = header["position"]
        equations = Equations(
            basis,
            {kind: _read_part(file, kind, form, n, device) for kind, form in forms.items()},
            References(read_baseline(file, basis.elements, "origin"), read_tensor(file, "references", (k, k))),
            header["given_reference_energies"],
            read_tensor(file, "structures", (header["structures"],)),
            header["atoms"],
            header["data"],
            Chosen.from_header(header),
            read_repulsion(file, basis.elements, basis.recipe.representation.cutoff),
            _geometries(file, header["structures"]),
        )
        return equations, None if position is None else Position(**position)


def _geometries(file: Any, n: int) -> Tensor | None:
    """Fingerprints of the structures without their labels; None in files of older versions."""
    return read_tensor(file, "geometries", (n,)) if "geometries" in file.keys() else None  # noqa: SIM118


def _check_counts(counts: Mapping[str, Any]) -> None:
    """Raise a KeyError unless all are whole numbers and not negative."""
    for name, count in counts.items():
        if type(count) is not int or count < 0:
            raise KeyError(f"{name} that is a number, found {count!r:.100}")


def _read_part(file: Any, kind: str, form: dict[str, Any], n: int, device: torch.device | str) -> Part:
    n_targets = form["n_targets"]
    part: Part
    if form["form"] == "rows":
        part = Rows(n, form["capacity"], device, n_targets)
        waiting, rows = form["n"], part
    else:
        part = Gram(n, device, n_targets, form["n"])
        waiting, rows = form["waiting"], part.waiting
        part.moment = read_tensor(file, f"{kind}.moment", (n, n_targets)).to(device)
        part.square = read_tensor(file, f"{kind}.square", (n_targets, n_targets)).to(device)
        opening = f"{kind}.gram."
        firsts = sorted(int(name.removeprefix(opening)) for name in file.keys() if name.startswith(opening))  # noqa: SIM118
        if firsts[:1] != [0]:
            raise KeyError(f"{opening}0")
        for first, last in pairwise([*firsts, n]):
            part.gram[first:last, :last] = read_tensor(file, f"{kind}.gram.{first}", (last - first, last))
    if waiting:
        append(
            rows,
            read_tensor(file, f"{kind}.rows", (waiting, n)).to(device),
            read_tensor(file, f"{kind}.targets", (waiting, n_targets)).to(device),
        )
    return part
