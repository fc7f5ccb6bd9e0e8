"""The problem of a fit: labelled structures, and reference energies that are subtracted before learning."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..atoms.dataset import Dataset
from ..atoms.neighbours import check_distances, element_indices
from ..atoms.structures import VOIGT as VOIGT
from ..atoms.structures import Labels, Structures, checked
from ..errors import InputError
from ..machine.compute import Compute
from ..model.baseline import Baseline, FoundBaseline, found_baseline, given_baseline


@dataclass(frozen=True)
class Learn:
    """Labels to learn from, and reference energies."""

    targets: Sequence[str] | None = None  # some of "energies", "forces", "stress"; None: all that there are
    reference_energies: Mapping[int, float] | None = None  # eV by atomic number; None: from least squares


@dataclass(frozen=True)
class Problem:
    """Labelled structures and their reference energies."""

    structures: Structures
    labels: Labels
    baseline: Baseline
    source: dict[str, Any] = field(default_factory=dict)  # where the structures came from
    groups: np.ndarray | None = None  # (structures,) name of the group of each, "" for none
    given: bool = False  # the reference energies are fixed: given, or those of free atoms; else from least squares

    @classmethod
    def of(
        cls,
        data: Dataset,
        learn: Learn | None = None,
        *,
        elements: tuple[int, ...] | None = None,
        compute: Compute | None = None,
    ) -> Problem:
        """The problem of learning from `data`. Structures and labels are checked here, and nowhere else on the way.

        `elements`: those of a basis that is given; by default those of the structures.
        """
        learn, compute = learn or Learn(), compute or Compute()
        structures, labels = usable_structures(data, elements), chosen_labels(data.labels, learn.targets)
        elements, given = elements or structures.elements, learn.reference_energies

        def find() -> FoundBaseline:
            if given is None:
                return found_baseline(structures, labels.energies, elements)
            return FoundBaseline(given_baseline(given, elements), True, "as given")

        found = compute.on_first(find)  # by the first rank: other processors may round differently
        source = {**data.source.as_dict(), "references": found.words}
        return cls(structures, labels, found.baseline, source, data.groups, found.fixed)

    @property
    def elements(self) -> tuple[int, ...]:
        return self.baseline.elements

    @cached_property
    def targets(self) -> dict[str, Tensor]:
        """Targets of the rows of each kind: energies past the baseline, forces, virials (six components, eV)."""
        structures, labels, targets = self.structures, self.labels, {}
        if labels.energies is not None:
            targets["energies"] = labels.energies - self.baseline.total(structures)
        if labels.forces is not None:
            targets["forces"] = labels.forces
        if labels.stress is not None:
            virial = labels.stress * structures.volumes[:, None, None]
            targets["stress"] = torch.stack([virial[:, a, b] for a, b in VOIGT], 1)
        return targets

    @cached_property
    def rows(self) -> dict[str, int]:
        """Number of rows of each kind. A target that is NaN makes none."""
        return {kind: int(y.isfinite().sum()) for kind, y in self.targets.items()}

    @property
    def n_rows(self) -> int:
        return sum(self.rows.values())

    @cached_property
    def structure_of_rows(self) -> Tensor:
        """Structure of each row of all labels, kind after kind, (rows,)."""
        n = torch.arange(len(self.structures))
        owners = dict.fromkeys(self.targets, n) | {"forces": n.repeat_interleave(self.structures.counts)}
        targets = {kind: y.reshape(len(owners[kind]), -1) for kind, y in self.targets.items()}
        return torch.cat([owners[kind][:, None].expand_as(y)[y.isfinite()] for kind, y in targets.items()])

    @cached_property
    def fingerprints(self) -> Tensor:
        """Fingerprint of each structure with its labels, (structures,) int64."""
        return fingerprints(self.structures, self.labels)

    def select(self, index: Tensor) -> Problem:
        """The problem of the structures at `index`, with the same reference energies."""
        labels = self.labels.select(index, self.structures.offsets)
        groups = None if self.groups is None else self.groups[index.numpy()]
        return replace(self, structures=self.structures.select(index), labels=labels, groups=groups)


def usable_structures(data: Dataset, elements: tuple[int, ...] | None = None) -> Structures:
    """Structures of `data`; an InputError if one cannot be used, or has an element that is not among `elements`."""
    structures = checked(data.structures, data.labels)
    check_distances(structures)
    element_indices(structures.numbers, elements or structures.elements)
    return structures


def chosen_labels(labels: Labels, targets: Sequence[str] | None) -> Labels:
    """Labels of the wanted kinds; an InputError if one of them is missing."""
    wanted = labels.kinds if targets is None else tuple(targets)
    missing = [kind for kind in wanted if kind not in labels.kinds]
    if missing or not wanted:
        have = ", ".join(labels.kinds) or "none"
        raise InputError(f"Wanted to train on {', '.join(wanted) or 'something'}; the labels that there are: {have}.")
    if "stress" in wanted and len(wanted) == 1:
        raise InputError("Stress alone does not determine a potential. Train on energies or forces as well.")
    return Labels(**{kind: getattr(labels, kind) for kind in wanted})


def fingerprints(structures: Structures, labels: Labels) -> Tensor:
    """64 bits that tell each structure with its labels from others, (structures,) int64."""
    parts = {"numbers": structures.numbers, "positions": structures.positions, "forces": labels.forces}
    per_atom = [np.ascontiguousarray(part.numpy()) for part in parts.values() if part is not None]
    whole = {"cells": structures.cells, "pbc": structures.periodic, "energy": labels.energies, "stress": labels.stress}
    per_structure = [np.ascontiguousarray(part.numpy()) for part in whole.values() if part is not None]
    # the kinds of labels count: a structure with fewer labels makes other equations
    kinds = ",".join(labels.kinds).encode()
    out = np.empty(len(structures), np.int64)
    for s, (first, last) in enumerate(pairwise(structures.offsets.tolist())):
        digest = hashlib.blake2b(kinds, digest_size=8)
        for values in per_atom:
            digest.update(values[first:last].tobytes())
        for values in per_structure:
            digest.update(values[s].tobytes())
        out[s] = np.frombuffer(digest.digest(), np.int64)[0]
    return torch.from_numpy(out)
