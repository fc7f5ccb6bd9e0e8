"""Kinds of damage to the labels or the coordinates of one frame of a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from qml_lightning import Dataset

from ..harness.internals import ENERGY_IN_EV

KCAL = 1.0 / ENERGY_IN_EV["kcal/mol"]


@dataclass
class Frame:
    """One frame of a data set, another one to take labels from, and a source of chance."""

    numbers: Tensor
    positions: Tensor
    cell: Tensor
    energy: Tensor  # ()
    forces: Tensor
    stress: Tensor | None
    other: Frame | None
    random: np.random.RandomState

    def two_atoms(self) -> list[int]:
        return [int(atom) for atom in self.random.permutation(len(self.numbers))[:2]]

    def unlike(self) -> list[int]:
        """Two atoms of different elements; any two if there is one element."""
        first = self.two_atoms()[0]
        others = (self.numbers != self.numbers[first]).nonzero()[:, 0].tolist() or self.two_atoms()
        return [first, int(self.random.choice([atom for atom in others if atom != first]))]

    def from_other(self) -> Frame:
        assert self.other is not None
        return self.other


Damage = Callable[[Frame], object]


def _pair_force(size: float) -> Damage:
    def damage(frame: Frame) -> None:
        one, other = frame.two_atoms()
        direction = torch.from_numpy(frame.random.randn(3))
        push = size * direction / direction.norm()
        frame.forces[one] += push
        frame.forces[other] -= push

    return damage


def _force_of_one(change: Callable[[Tensor], object]) -> Damage:
    """Damage to the force on the atom that has the largest one: on an atom at rest a wrong sign means nothing."""
    return lambda frame: change(frame.forces[int(frame.forces.norm(dim=1).argmax())])


def _flip_component(force: Tensor) -> None:
    force[int(force.abs().argmax())] *= -1.0


def _all_forces(factor: float) -> Damage:
    return lambda frame: frame.forces.mul_(factor)


def _swap_forces(frame: Frame) -> None:
    order = frame.forces.norm(dim=1).argsort(descending=True)[:2]
    frame.forces[order] = frame.forces[order.flip(0)]


def _noise(size: float) -> Damage:
    return lambda frame: frame.forces.add_(size * torch.from_numpy(frame.random.randn(*frame.forces.shape)))


def _energy(shift: float) -> Damage:
    return lambda frame: frame.energy.add_(shift)


def _energy_of_other(frame: Frame) -> None:
    frame.energy.copy_(frame.from_other().energy)


def _displace(size: float) -> Damage:
    def damage(frame: Frame) -> None:
        direction = torch.from_numpy(frame.random.randn(3))
        frame.positions[frame.two_atoms()[0]] += size * direction / direction.norm()

    return damage


def _swap_positions(frame: Frame) -> None:
    atoms = frame.unlike()
    frame.positions[atoms] = frame.positions[atoms[::-1]]


def _exchange_elements(frame: Frame) -> None:
    atoms = frame.unlike()
    frame.numbers[atoms] = frame.numbers[atoms[::-1]]


def _other_coordinates(frame: Frame) -> None:
    frame.positions.copy_(frame.from_other().positions)


def _other_units(frame: Frame) -> None:
    frame.energy.mul_(KCAL)
    frame.forces.mul_(KCAL)


def _stress(factor: float) -> Damage:
    def damage(frame: Frame) -> None:
        assert frame.stress is not None
        frame.stress.mul_(factor)

    return damage


def _scaled_cell(frame: Frame) -> None:
    frame.cell.mul_(1.02)
    frame.positions.mul_(1.02)


def _without_reference(frame: Frame) -> None:
    frame.energy.sub_(13.6)


KINDS: dict[str, Damage] = {
    **{f"±{size:g} eV/Å on two atoms": _pair_force(size) for size in (5.0, 10.0, 20.0, 50.0, 100.0, 500.0)},
    "largest force component with the wrong sign": _force_of_one(_flip_component),
    "largest force set to zero": _force_of_one(lambda force: force.zero_()),
    "one force of 1e6 eV/Å": _force_of_one(lambda force: force.fill_(1e6)),
    "forces × 1.1": _all_forces(1.1),
    "forces × 0.5": _all_forces(0.5),
    "forces × −1": _all_forces(-1.0),
    "forces × 0": _all_forces(0.0),
    "forces of two atoms swapped": _swap_forces,
    "noise of 0.3 eV/Å on all forces": _noise(0.3),
    "energy + 1 eV": _energy(1.0),
    "energy + 5 eV": _energy(5.0),
    "energy + 50 eV": _energy(50.0),
    "energy + 1e6 eV": _energy(1e6),
    "energy of another frame": _energy_of_other,
    "energy without the reference of one atom": _without_reference,
    "one atom displaced by 0.3 Å": _displace(0.3),
    "two atoms swapped in position": _swap_positions,
    "two elements exchanged": _exchange_elements,
    "coordinates of another frame": _other_coordinates,
    "kcal/mol instead of eV": _other_units,
}
OF_SEVERAL_ELEMENTS = ("two elements exchanged",)  # nothing happens to one element
# For crystals.
PERIODIC: dict[str, Damage] = {"cell and coordinates × 1.02": _scaled_cell}
# Damage to the structure itself; all other kinds change labels alone.
TO_STRUCTURES = (
    "one atom displaced by 0.3 Å", "two atoms swapped in position", "two elements exchanged",
    "coordinates of another frame", *PERIODIC,
)  # fmt: skip
WITH_STRESS: dict[str, Damage] = {"stress × −1": _stress(-1.0), "stress in kbar": _stress(1602.1766)}


def damaged(data: Dataset, number: int, name: str) -> Dataset:
    """The data set with one frame damaged; another frame with the same atoms lends its labels."""
    structures, labels = data.structures, data.labels
    change = {**KINDS, **PERIODIC, **WITH_STRESS}[name]
    random = np.random.RandomState(number)
    parts = {"numbers": structures.numbers, "positions": structures.positions, "cells": structures.cells}
    parts |= {"energies": labels.energies, "forces": labels.forces}
    copies = {key: value.clone() for key, value in parts.items() if value is not None}
    stress = None if labels.stress is None else labels.stress.clone()

    def frame(at: int, other: Frame | None) -> Frame:
        atoms = slice(int(structures.offsets[at]), int(structures.offsets[at + 1]))
        return Frame(
            copies["numbers"][atoms], copies["positions"][atoms], copies["cells"][at], copies["energies"][at],
            copies["forces"][atoms], None if stress is None else stress[at], other, random,
        )  # fmt: skip

    alike = [at for at in range(len(data)) if at != number and _same_atoms(data, at, number)]
    change(frame(number, frame(int(random.choice(alike)), None) if alike else None))
    return replace(
        data,
        structures=replace(structures, numbers=copies["numbers"], positions=copies["positions"], cells=copies["cells"]),
        labels=replace(labels, energies=copies["energies"], forces=copies["forces"], stress=stress),
    )


def _same_atoms(data: Dataset, one: int, other: int) -> bool:
    offsets, numbers = data.structures.offsets, data.structures.numbers
    first, second = (numbers[offsets[at] : offsets[at + 1]] for at in (one, other))
    return torch.equal(first, second)
