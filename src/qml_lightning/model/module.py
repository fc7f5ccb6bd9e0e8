"""A potential as a differentiable torch module: positions in, energies out, gradients by autograd."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from ..atoms.structures import Structures, checked, in_reach, offsets_from_counts
from ..errors import InputError
from ..machine.row_sums import add_sorted_rows
from ..machine.transfers import on_host, sent

if TYPE_CHECKING:
    from .predictor import Predictor

# Operators take tensors and numbers, so a predictor goes by its number.
_PREDICTORS: WeakValueDictionary[int, Predictor] = WeakValueDictionary()
_numbers = itertools.count()


class PotentialModule(torch.nn.Module):
    """Energies of a batch of structures as a function of positions and cells, with first derivatives.

    Energies are float64 in eV. torch.compile takes it without a graph break.
    """

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.elements, self.cutoff = predictor.basis.elements, predictor.cutoff
        self._hold(predictor)

    def _hold(self, predictor: Predictor) -> None:
        self._predictor, self._number = predictor, next(_numbers)
        _PREDICTORS[self._number] = predictor

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._hold(self._predictor)  # a copy has a number of its own

    def forward(
        self,
        positions: Tensor,
        numbers: Tensor,
        cells: Tensor | None = None,
        batch: Tensor | None = None,
        periodic: Tensor | None = None,
    ) -> Tensor:
        """Energies in eV, (structures,) float64.

        positions (atoms, 3) in Å, numbers (atoms,): atomic numbers. cells (structures, 3, 3): rows are lattice vectors.
        batch (atoms,): structure of each atom, ascending; None: all atoms are one structure. periodic (structures, 3):
        None: every direction if cells are given, else none.
        """
        if positions.dim() != 2 or positions.shape[1] != 3 or numbers.shape != positions.shape[:1]:
            raise InputError(
                "Wanted positions of shape (atoms, 3) and one atomic number for each, "
                f"got {tuple(positions.shape)} and {tuple(numbers.shape)}."
            )
        if batch is None:
            batch = torch.zeros_like(numbers, dtype=torch.int64)
        elif cells is None:
            raise InputError("A batch needs cells, (structures, 3, 3): zeros for molecules.")
        elif batch.shape != numbers.shape:
            raise InputError(
                f"Wanted the structure of each atom as batch, {tuple(numbers.shape)}, got {tuple(batch.shape)}."
            )
        if cells is not None and (cells.dim() != 3 or cells.shape[1:] != (3, 3)):
            raise InputError(f"Wanted cells of shape (structures, 3, 3), got {tuple(cells.shape)}.")
        if periodic is None:
            n = 1 if cells is None else cells.shape[0]
            periodic = torch.full((n, 3), cells is not None, dtype=torch.bool, device=positions.device)
        if cells is None:
            cells = positions.new_zeros(1, 3, 3)
        if periodic.shape != cells.shape[:2]:
            raise InputError(
                f"Wanted periodic directions of shape {tuple(cells.shape[:2])}, got {tuple(periodic.shape)}."
            )
        energies: Tensor = _energies(positions, cells, numbers, batch, periodic, self._number)[0]
        return energies


@torch.library.custom_op("qml_lightning::energies", mutates_args=())
def _energies(
    positions: Tensor, cells: Tensor, numbers: Tensor, batch: Tensor, periodic: Tensor, predictor: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Energies, and their gradients by positions and by cells."""
    return with_gradients(_PREDICTORS[predictor], positions, cells, numbers, batch, periodic)


def with_gradients(
    predictor: Predictor, positions: Tensor, cells: Tensor, numbers: Tensor, batch: Tensor, periodic: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Energies, and their gradients by positions and by cells, where these are.

    Positions stay on the device of the predictor, and so does all that follows from them. The host needs to know the
    rest, and waits for it once; inputs may be on different devices.
    """
    there = positions.double().to(predictor.basis.device).contiguous()
    rest = [sent(one, there.device) for one in (numbers, batch, cells, periodic)]
    known = on_host((*rest, in_reach(there).all()))
    structures = _structures(there, *known)
    found = predictor.predict_there(structures, forces=True, stress=structures.has_volume)
    assert found.forces is not None
    gradient = -found.forces
    by_cell = torch.zeros(len(structures), 3, 3, dtype=torch.float64, device=there.device)
    if found.stress is not None:
        by_cell = _by_cell(structures, gradient, found.stress)
    return found.energies.to(positions.device), gradient.to(positions), by_cell.to(cells)


def _structures(
    there: Tensor, numbers: Tensor, batch: Tensor, cells: Tensor, periodic: Tensor, in_range: Tensor
) -> Structures:
    """Structures with their positions `there`; an InputError that says what is wrong with them."""
    n, owner = len(cells), batch.long()
    if len(owner) and (bool((owner.diff() < 0).any()) or int(owner[0]) < 0 or int(owner[-1]) >= n):
        raise InputError(f"batch must ascend within 0 … {n - 1}: the atoms of a structure stand together.")
    fine = bool(in_range)
    return checked(
        Structures(
            numbers.long(),
            there if fine else there.cpu(),
            offsets_from_counts(torch.bincount(owner, minlength=n)),
            cells,
            periodic.bool(),
        ),
        in_range=fine,
    )


def _by_cell(structures: Structures, gradient: Tensor, stress: Tensor) -> Tensor:
    """Gradient by the lattice vectors at fixed positions, (structures, 3, 3).

    A strain moves both: virial = cellᵀ · gradient by cell + Σ position ⊗ gradient by position.
    """
    owner, volumes = (sent(one, gradient.device) for one in (structures.structure_of_atom, structures.volumes))
    moved = add_sorted_rows(torch.zeros_like(stress), owner, structures.positions[:, :, None] * gradient[:, None, :])
    rest = torch.where(volumes.isfinite()[:, None, None], stress * volumes[:, None, None] - moved, 0.0)
    # cells are on the host: a device would make it wait for their inverses
    inverse = torch.linalg.pinv(structures.cells.transpose(1, 2)) * structures.periodic[:, :, None]
    by_cell: Tensor = sent(inverse, gradient.device) @ rest
    return by_cell


@_energies.register_fake
def _(positions: Tensor, cells: Tensor, numbers: Tensor, batch: Tensor, periodic: Tensor, predictor: int) -> Any:
    energies = positions.new_empty(cells.shape[0], dtype=torch.float64)
    return energies, torch.empty_like(positions), torch.empty_like(cells)


@torch.library.custom_op("qml_lightning::gradient_once", mutates_args=())
def _once(gradient: Tensor) -> Tensor:
    """Copy of a gradient whose own derivative is refused: the kernels do not have it, and zero would be wrong."""
    return gradient.clone()


@_once.register_fake
def _(gradient: Tensor) -> Tensor:
    return torch.empty_like(gradient)


def _refused(context: Any, grad: Tensor) -> Tensor:
    raise InputError(
        "The kernels give first derivatives of the energy, and a second one was asked for (create_graph). "
        "For Hessians take differences of forces."
    )


def _kept(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.save_for_backward(inputs[3], *output[1:])


def _backward(context: Any, energies: Tensor, gradient: Tensor, by_cell: Tensor) -> tuple[Tensor | None, ...]:
    batch, positions_slope, cells_slope = context.saved_tensors
    by_position = _once(positions_slope) * energies[batch.to(energies.device)][:, None].to(positions_slope)
    return by_position, _once(cells_slope) * energies[:, None, None].to(cells_slope), None, None, None, None


_once.register_autograd(_refused)
_energies.register_autograd(_backward, setup_context=_kept)
