"""Gaussian kernels between environments, in units of sigma; their derivatives are summed up as they are formed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .groups import Group

# Numbers in the largest array of a tile of the covariance: it is written and read once, and best stays in the cache.
TILE_NUMBERS = 400_000
# Structures whose columns of the covariance are formed together: wide enough for matrix products.
TILE_STRUCTURES = 16
# Numbers of kernels and derivatives that are in memory at once, for a few rows and many environments.
STRIP_NUMBERS = 4_000_000


def gaussians(x: Tensor, y: Tensor) -> Tensor:
    """Gaussians exp(−½ |x − y|²) of all pairs, (n, m)."""
    exponent = x @ y.T
    exponent -= 0.5 * x.square().sum(1)[:, None]
    exponent -= 0.5 * y.square().sum(1)
    return exponent.clamp_(max=0.0).exp_()


def covariance(groups: Sequence[Group], tell: Callable[[int, int], None]) -> Tensor:
    """Covariance of all rows with all rows: the tiles on and below the diagonal. Tiles above it are not filled.

    For environments x and y, Δ = x − y, the Gaussian k, and tangents t of x and u of y, the covariances are: k between
    two energies, k (u·Δ) and −k (t·Δ) between an energy and a derivative, k (t·u − (t·Δ)(u·Δ)) between derivatives.
    """
    n = groups[-1].rows(0, len(groups[-1])).stop
    out = torch.empty(n, n, dtype=torch.float64, device=groups[0].targets.device)
    done, of = 0, sum(len(group) for group in groups)
    for c, columns in enumerate(groups):
        for first in range(0, len(columns), TILE_STRUCTURES):
            column = _Columns(columns, first, min(first + TILE_STRUCTURES, len(columns)))
            for rows in groups[c:]:
                step = _height(rows, column)
                for top in range(first if rows is columns else 0, len(rows), step):
                    column.fill(rows, top, min(top + step, len(rows)), out)
            done += column.n
            tell(done, of)
    return out


def _height(rows: Group, column: _Columns) -> int:
    """Number of structures in a tile, such that its largest array is small."""
    numbers = max(x.shape[1] * x.shape[2] for x in rows.values) * max(1, column.group.n_tangents)
    return max(1, TILE_NUMBERS // max(1, numbers))


class _Columns:
    """Columns of the covariance that belong to a run of structures of one group."""

    def __init__(self, group: Group, first: int, last: int) -> None:
        self.group = group
        self.n = last - first
        self.place = group.rows(first, last)
        self.values = [x[first:last] for x in group.values]
        self.tangents = [t[first:last] for t in group.tangents]
        # for each structure (its atoms, columns · tangent rows), as products over its atoms need it
        self.turned = [t.permute(0, 2, 3, 1).flatten(2) for t in self.tangents]
        self.along = [_along(t, x) for t, x in zip(self.tangents, self.values, strict=True)]

    def fill(self, rows: Group, first: int, last: int, out: Tensor) -> None:
        """Fill the tile of these columns and the structures from `first` to `last` of `rows`."""
        n, m = last - first, self.n
        tile = (
            out[rows.rows(first, last), self.place]
            .unflatten(0, (n, rows.n_rows))
            .unflatten(2, (m, self.group.n_rows))
            .zero_()
        )
        left, right = rows.energy, self.group.energy
        p, q = int(left is not None), int(right is not None)
        for e, values in enumerate(rows.values):
            if values.shape[1] == 0 or self.values[e].shape[1] == 0:
                continue
            x, y = values[first:last], self.values[e]
            t, u = rows.tangents[e][first:last], self.tangents[e]
            k = gaussians(x.flatten(0, 1), y.flatten(0, 1)).view(n, x.shape[1], m, y.shape[1])
            if left is not None and right is not None:
                tile[:, 0, :, 0] += left * right * k.sum((1, 3))
            if rows.n_tangents:  # t·Δ, (rows, tangents, atoms, columns, atoms)
                t_delta = _along(t, x)[..., None, None] - _products(t, y)
                t_delta *= k[:, None]
                if right is not None:
                    tile[:, p:, :, 0] -= right * t_delta.sum((2, 4))
            if self.group.n_tangents:  # u·Δ, (columns, tangents, atoms, rows, atoms)
                u_delta = _products(u, x) - self.along[e][..., None, None]
                if left is not None:
                    tile[:, 0, :, q:] += left * torch.einsum("iajb,jubia->iju", k, u_delta)
            if rows.n_tangents and self.group.n_tangents:
                block = torch.matmul(  # Σ over pairs of atoms of k (t·Δ)(u·Δ), (columns, rows, tangents, tangents)
                    t_delta.permute(3, 0, 1, 2, 4).flatten(3), u_delta.permute(0, 3, 4, 2, 1).flatten(2, 3)
                ).neg_()
                self._add_products(k, t, e, block)
                tile[:, p:, :, q:] += block.permute(1, 2, 0, 3)

    def _add_products(self, k: Tensor, t: Tensor, e: int, block: Tensor) -> None:
        """Add Σ k t·u over pairs of atoms to `block`: first over the atoms of the column, then over those of the row.

        A pair of structures then costs atoms · tangents² products of vectors instead of atoms² · tangents². Each column
        has a contiguous part of `block`: torch computes its products as one batch, and otherwise one by one.
        """
        n, _, m, _ = k.shape
        flat = t.flatten(2)
        for j in range(m):
            mixed = k[:, :, j].flatten(0, 1) @ self.turned[e][j]
            block[j].baddbmm_(flat, mixed.view(n, flat.shape[2], -1))


def _along(tangents: Tensor, values: Tensor) -> Tensor:
    """Product of each tangent with its own environment, (structures, tangent rows, atoms)."""
    return (tangents * values[:, None]).sum(3)


def _products(tangents: Tensor, values: Tensor) -> Tensor:
    """Product of each tangent with each environment of `values`.

    Shape (structures, tangent rows, atoms, structures of `values`, their atoms).
    """
    flat = tangents.flatten(0, 2) @ values.flatten(0, 1).T
    return flat.view(*tangents.shape[:3], *values.shape[:2])


def operator_rows(groups: Sequence[Group], bases: Sequence[Tensor], tell: Callable[[int, int], None]) -> Tensor:
    """Rows of OQML, (rows, environments): one weight for each environment y in `bases`, element after element.

    The row of an energy is Σ k over the atoms of the structure, that of a derivative along a tangent t of x is
    −k t·(x − y).
    """
    n_rows = groups[-1].rows(0, len(groups[-1])).stop
    out = torch.zeros(n_rows, sum(len(y) for y in bases), dtype=torch.float64, device=groups[0].targets.device)
    done, of = 0, sum(len(group) for group in groups)
    for group in groups:
        widest = max(x.shape[1] * len(y) for x, y in zip(group.values, bases, strict=True)) * max(1, group.n_tangents)
        step = max(1, STRIP_NUMBERS // widest)
        for first in range(0, len(group), step):
            last = min(first + step, len(group))
            strip = out[group.rows(first, last)].unflatten(0, (last - first, group.n_rows))
            column = 0
            for e, basis in enumerate(bases):
                part = strip[:, :, column : column + len(basis)]
                column += len(basis)
                x, t, y = group.values[e][first:last], group.tangents[e][first:last], basis[:, group.columns[e]]
                k = gaussians(x.flatten(0, 1), y).view(*x.shape[:2], len(y))
                if group.energy is not None:
                    part[:, 0] = group.energy * k.sum(1)
                if group.n_tangents:
                    delta = _products(t, y[None])[..., 0, :] - _along(t, x)[..., None]
                    part[:, int(group.energy is not None) :] = torch.einsum("sna,stna->sta", k, delta)
            done += last - first
            tell(done, of)
    return out


def energy_and_slope(
    x: Tensor, environments: Tensor, weights: Tensor, directions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Energies Σ_j k(x, y_j) (w_j + v_j·(x − y_j)) of environments x, (n,) float64, and their gradients, (n, columns).

    `weights` are w, `directions` v; None: all v are zero.
    """
    energy = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    slope = torch.zeros_like(x)
    step = max(1, STRIP_NUMBERS // max(1, len(x)))
    for first in range(0, len(environments), step):
        run = slice(first, first + step)
        y, factor = environments[run], weights[run].expand(len(x), -1)
        k = gaussians(x, y)
        if directions is not None:
            v = directions[run]
            factor = x @ v.T + (factor - (v * y).sum(1))
            slope += k @ v
        factor = k * factor
        total = factor.sum(1)
        energy += total.double()
        slope += factor @ y - total[:, None] * x
    return energy, slope
