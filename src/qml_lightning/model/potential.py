"""A trained potential: energies, forces and stress of any structure of its elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ..atoms.structures import Structures
from ..errors import InputError
from ..kernels import PredictorModel, WholePath
from ..machine.compute import Compute
from ..machine.display import facts_html, one_line, threads_words
from .baseline import Baseline
from .basis import Basis, ReadyBasis
from .batch_environments import LocalModel
from .committee import Committee
from .features import columns_of
from .predictor import Prediction, Predictor
from .projection import Projection
from .provenance import Provenance
from .recipe import Precision, Recipe
from .repulsion import Repulsion

if TYPE_CHECKING:
    from ase import Atoms
    from ase.calculators.calculator import Calculator
    from ase.calculators.mixing import SumCalculator

    from ..adapters.ase import QMLLightning
    from .module import PotentialModule

# Float32 serves prediction while its random error of energies is below this, in eV per √atom. With more, energies
# cannot be differentiated numerically, and line searches fail (benchmarks, study energy_noise).
NOISE_ALLOWED = 4e-5


class Model(Protocol):
    """Interface of every trained model, whatever its atomic energies are made of."""

    elements: tuple[int, ...]
    projection: Projection
    baseline: Baseline
    provenance: Provenance
    trained_on: Tensor | None
    repulsion: Repulsion | None = None
    committee: Committee | None = None

    def on(
        self,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
        kernels: str | None = None,
        *,
        skin: float = 0.0,
    ) -> Predictor:
        """This potential made ready on a device, in a precision, with the back-end of that name or the best one.

        With a skin (Å) it lists pairs that much beyond the cutoff, and keeps them while the same atoms move a little.
        """
        if not skin >= 0:
            raise InputError(f"The skin of a neighbour list is a length in Å and not negative, got {skin}.")
        basis = self._ready_basis(Compute(device, kernels), precision)
        return Predictor(self, basis, skin, self._local(basis), self._members(basis), self._whole_path(basis, skin))

    def _ready_basis(self, compute: Compute, precision: Precision | None) -> ReadyBasis:
        """Representation, axes and feature maps (if there are any) on a device."""

    def _local(self, basis: ReadyBasis) -> LocalModel:
        """Atomic energies in that basis."""

    def _members(self, basis: ReadyBasis) -> list[LocalModel]:
        """Deviations of atomic energies by each member of the committee."""
        return []

    def _whole_path(self, basis: ReadyBasis, skin: float) -> WholePath | None:
        """Prediction in one call, for kernels that have it."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        """Fields to copy and to pickle, without the predictor: it holds memory of the native library."""
        return {name: value for name, value in self.__dict__.items() if name != "_ready"}

    @cached_property
    def _ready(self) -> Predictor:
        return self.on()

    def predict(
        self,
        structures: Structures | Atoms | Sequence[Atoms],
        *,
        forces: bool = True,
        stress: bool | None = None,
        uncertainty: bool = False,
    ) -> Prediction:
        """Energies, and forces and stress if wanted (stress: by default if there is a periodic structure).

        `uncertainty`: standard deviations of energies, atomic energies and forces as well, from the committee.
        """
        return self._ready.predict(structures, forces=forces, stress=stress, uncertainty=uncertainty)

    def __repr__(self) -> str:
        facts = self.facts()
        return one_line(type(self).__name__, [facts["elements"], facts["method"], facts["training"]])

    def _repr_html_(self) -> str:
        return facts_html(type(self).__name__, self.facts())

    def facts(self) -> dict[str, str]:
        """Method and origin in words, by name."""
        from ase.data import chemical_symbols

        made = self.provenance
        name = str(made.data.get("name", ""))
        return {
            "elements": " ".join(chemical_symbols[z] for z in self.elements),
            **self._method(),
            "corrects": self.corrects,
            "training": f"{made.structures:,} structures" + (f" of {name}" if name else ""),
            "equations": ", ".join(f"{n:,} {kind}" for kind, n in made.targets.items()),
            "time": "" if made.seconds is None else f"{made.seconds:.1f} s on {threads_words(made.threads)}",
            "versions": ", ".join(f"{name} {text}" for name, text in made.versions.items()),
            "citation": str(made.data.get("citation", "")).split("\n")[0],
        }

    def _method(self) -> dict[str, str]:
        """Method of the model in words (`method`), and its settings by name."""

    @property
    def corrects(self) -> str:
        """Name of the cheaper method to whose energies predictions are to be added; empty for whole energies."""
        return str(self.provenance.data.get("baseline", ""))

    def refuse_correction(self) -> None:
        """Raise an InputError if predictions are mere corrections to another method."""
        if self.corrects:
            raise InputError(
                f"The model is a correction to {self.corrects}, and no potential by itself. In Python, "
                "potential.calculator(baseline=…) adds it to an ASE calculator of that method."
            )

    def calculator(self, *, baseline: Calculator | None = None, **options: Any) -> QMLLightning | SumCalculator:
        """This potential as an ASE calculator; the options are device, precision, kernels, skin and uncertainty.

        `baseline`: the calculator that it corrects, of which the sum is computed.
        """
        from ..adapters.ase import QMLLightning
        from ..adapters.delta import corrected

        if baseline is not None:
            return corrected(self, baseline, **options)
        return QMLLightning(self, **options)

    def module(
        self, device: torch.device | str = "cpu", precision: Precision | None = None, kernels: str | None = None
    ) -> PotentialModule:
        """This potential as a torch module that autograd differentiates."""
        from .module import PotentialModule

        return PotentialModule(self.on(device, precision, kernels))

    def save(self, path: str, *, overwrite: bool = False) -> None:
        """Write the model as safetensors with a JSON header, atomically."""
        from ..api import save

        save(self, path, overwrite=overwrite)

    @staticmethod
    def load(path: str) -> Model:
        """Read a model that `save` wrote; nothing in it is executed."""
        from ..api import load

        return load(path)


@dataclass(frozen=True, repr=False)
class Potential(Model):
    """Basis, weights and reference energies: what was drawn and what was learnt."""

    basis: Basis
    weights: Tensor  # (n_weights,) float64
    baseline: Baseline
    provenance: Provenance = field(default_factory=Provenance)
    trained_on: Tensor | None = None  # (structures,) int64, `geometry_fingerprints` of the training structures
    repulsion: Repulsion | None = None  # of pairs closer than any in the training data
    committee: Committee | None = None  # weights that tell how uncertain a prediction is

    @property
    def elements(self) -> tuple[int, ...]:  # type: ignore[override]  # frozen: nobody sets it
        return self.basis.elements

    @property
    def recipe(self) -> Recipe:
        return self.basis.recipe

    @property
    def projection(self) -> Projection:  # type: ignore[override]
        return self.basis.projection

    def environments(self, structures: Structures | Atoms | Sequence[Atoms]) -> Tensor:
        """Projected environment of each atom, (atoms, rank) float64: a fingerprint of its surroundings."""
        return self._ready.environments(structures)

    def features(self, structures: Structures | Atoms | Sequence[Atoms]) -> Tensor:
        """Random features summed over the atoms of each structure, (structures, weights) float64.

        `potential.features(x) @ potential.weights` is the energy past the reference energies.
        """
        return self._ready.features(structures)

    def _method(self) -> dict[str, str]:
        facts = self.recipe.facts()
        kept = {name: facts[name] for name in ("representation", "projection", "ridge", "weights")}
        return {"method": facts["features"], **kept}

    @property
    def energy_noise(self) -> float:
        """Random error of energies computed in float32, in eV per √atom.

        Each feature is rounded by half a unit in the last place and multiplied with its weight. Other steps add about
        as much.
        """
        of_elements = [
            feature_map.amplitude
            * float(self.weights[columns_of(self.basis.maps, e, self.recipe.features.blocks)].norm())
            for e, feature_map in enumerate(self.basis.maps)
        ]
        return 0.5 * torch.finfo(torch.float32).eps * max(of_elements)

    @property
    def prediction_precision(self) -> Precision:
        """Precision of predictions by default: that of the recipe, unless its rounding would make energies rough."""
        return "float64" if self.energy_noise > NOISE_ALLOWED else self.recipe.precision

    def _ready_basis(self, compute: Compute, precision: Precision | None) -> ReadyBasis:
        recipe = replace(self.recipe, precision=precision or self.prediction_precision)
        recipe.check()
        return self.basis.with_recipe(recipe).ready(compute)

    def _local(self, basis: ReadyBasis) -> LocalModel:
        weights = basis.like(self.weights)
        return lambda e, rho: basis.kernels.energy_and_slope(basis.maps[e], rho, weights[basis.columns(e)])

    def _members(self, basis: ReadyBasis) -> list[LocalModel]:
        if self.committee is None:
            return []
        few = basis.part(0, self.committee.n_features)

        def member(weights: Tensor) -> LocalModel:
            return lambda e, rho: few.kernels.energy_and_slope(few.maps[e], rho, weights[few.columns(e)])

        return [member(weights) for weights in basis.like(self.committee.deviations)]

    def _for_whole_path(self) -> tuple[Tensor, int, Tensor, Tensor] | None:
        """The committee as `PredictorModel` has it."""
        if (committee := self.committee) is None:
            return None
        of_all = committee.deviations.view(len(committee), -1, committee.n_features)
        of_all = of_all.expand(-1, len(self.elements), -1).contiguous()
        of_forces = committee.calibration_of_forces(self.elements)
        return of_all, committee.force_members, committee.calibration_of_energies(), of_forces

    def _whole_path(self, basis: ReadyBasis, skin: float) -> WholePath | None:
        if basis.kernels.predictor is None:
            return None
        repulsion = self.repulsion
        crowding, gaps = (None, None) if repulsion is None else (repulsion.crowding, repulsion.gaps)
        model = PredictorModel(
            self.recipe.representation.arguments(len(self.elements), self.basis.drawn),
            self.projection.matrices.contiguous(),
            self.basis.maps,
            [self.weights[basis.columns(e)] for e in range(len(basis.elements))],
            self.baseline.energies,
            None if repulsion is None else (self.elements, repulsion.outer, repulsion.inner),
            None if gaps is None else (gaps.low, gaps.high),
            None if crowding is None else (crowding.reach, crowding.onset, crowding.full, crowding.strength),
            self._for_whole_path(),
        )
        return basis.kernels.predictor(model, basis.projections.dtype, skin)
