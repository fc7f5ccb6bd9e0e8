"""Rows of some structures for the small fit that finds outliers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...linear.normal_equations import Rows
from ...model.baseline import Baseline
from ...model.basis import ReadyBasis
from ...model.features import FeatureSettings
from ...model.recipe import Recipe
from ...model.representations import SMALL
from ..problem import Problem
from ..rows import Pass, row_factors, write_rows

# Small: it takes seconds, and is good enough to tell a wrong label from a right one.
RECIPE = Recipe(
    SMALL,
    rank=64,
    features=FeatureSettings(n_features=1024, paired=True),
    energy_weight=1.0,
    projection_samples=500,
    precision="float32",
)
# Weight of the energies in a second fit. With a weight of 1 the energies of silicon have residuals of 1.2 eV, with this
# one 0.14 eV; but one energy then weighs so much that the energies of few structures cannot be told from noise.
SECOND_ENERGY_WEIGHT = 30.0
COMPOSITION = 100.0  # scale of the columns for reference energies: the ridge does not hold them


@dataclass(frozen=True)
class Sample:
    """Rows of some structures."""

    rows: Tensor  # (rows, columns): features, and the composition for energies
    targets: Tensor  # (rows,)
    kind: Tensor  # (rows,) number of the kind of label
    owner: Tensor  # (rows,) number of the structure among these
    energies: int | None = None  # number of the kind that energies are
    energy_weight: float = RECIPE.energy_weight

    @classmethod
    def of(cls, problem: Problem, basis: ReadyBasis, index: Tensor) -> Sample:
        part = problem.select(index)
        places = {kind: Rows(basis.n_weights, n, basis.device) for kind, n in part.rows.items()}
        for _ in write_rows(basis, part, RECIPE, places.__getitem__, Pass(weighted=True)):
            pass
        kind = torch.cat([torch.full((place.n,), number) for number, place in enumerate(places.values())])
        owner, counts = part.structure_of_rows, part.structures.counts.double()
        composition = torch.zeros(len(owner), len(part.elements), dtype=torch.float64)
        if "energies" in places:
            energy = kind == list(places).index("energies")
            per_atom = Baseline.composition(part.structures, part.elements) * counts[:, None] ** -RECIPE.size_exponent
            composition[energy] = COMPOSITION * per_atom[owner[energy]]
        rows = torch.cat([place.filled()[0] for place in places.values()]).cpu()
        targets = torch.cat([place.filled()[1][:, 0] for place in places.values()]).cpu()
        energies = list(places).index("energies") if "energies" in places else None
        return cls(torch.cat([rows, composition], 1), targets, kind, owner, energies)

    def with_energy_weight(self, weight: float) -> Sample:
        """A copy with another weight of the energies."""
        factor = torch.ones_like(self.targets)
        if self.energies is not None:
            factor[self.kind == self.energies] = weight / self.energy_weight
        rows, targets = self.rows * factor[:, None], self.targets * factor
        return replace(self, rows=rows, targets=targets, energy_weight=weight)

    @property
    def groups(self) -> list[Tensor]:
        order = self.owner.argsort(stable=True)
        return list(order.split(torch.bincount(self.owner).tolist()))


def targets_of(problem: Problem) -> Tensor:
    """Targets of all rows, kind after kind."""
    counts, out = problem.structures.counts, []
    for kind, target in problem.targets.items():
        y = target.flatten()
        out.append((y * row_factors(kind, y, counts, RECIPE))[y.isfinite()])
    return torch.cat(out)
