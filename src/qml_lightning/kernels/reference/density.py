"""Invariants of the neighbour density in plain torch."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..contract import DensityArguments
from ..harmonics import coupling, harmonics, of_degree, paths
from .pullback import pullback

# Numbers in one array of derivatives: it bounds the memory, not the result.
NUMBERS = 16_000_000


def environments(p: DensityArguments, n_atoms: int, segments: Tensor, vectors: Tensor) -> Tensor:
    """Pair functions and invariants of every centre, (atoms, size)."""
    chunks = [_values(p, part) for part in _Centres.chunks(p, n_atoms, segments, vectors)]
    return torch.cat(chunks) if chunks else vectors.new_zeros(0, p.size)


def environments_pullback(
    p: DensityArguments, n_atoms: int, segments: Tensor, vectors: Tensor, cotangent: Tensor
) -> Tensor:
    """Gradient by automatic differentiation, (pairs, 3)."""
    runs = _Centres.chunks(p, n_atoms, segments, vectors)
    return pullback(lambda run: _values(p, run), runs, vectors, cotangent)


def environments_jacobian(
    p: DensityArguments,
    n_atoms: int,
    segments: Tensor,
    vectors: Tensor,
    centre_element: Tensor,
    projections: Tensor,
) -> Tensor:
    """Derivative of the projected environment of the centre by each pair vector, (pairs, 3, rank).

    The chain rule backwards: projection → invariants → moments → density, then the density of each pair.
    """
    out = []
    rank = projections.shape[2]
    for part in _Centres.chunks(p, n_atoms, segments, vectors, width=p.n_channels * rank):
        by_pair, by_density = [], []
        for along in torch.eye(3).to(vectors):
            move = along.expand_as(part.vectors).contiguous()
            slopes = torch.func.jvp(lambda v: (_pair_functions(p, v), _densities(p, v)), (part.vectors,), (move,))[1]
            by_pair.append(slopes[0])
            by_density.append(slopes[1].flatten(1))
        own = projections[centre_element[part.first : part.last]]  # (atoms, size, rank)
        of_pairs = own[:, : p.pair_size].unflatten(1, (p.n_elements, p.n_pair))
        of_density = _density_cotangents(p, part, own[:, p.pair_size :])
        each = part.centre, part.element
        out.append(
            torch.einsum("pan,pnr->par", torch.stack(by_pair, 1), of_pairs[each])
            + torch.einsum("pan,pnr->par", torch.stack(by_density, 1), of_density[each])
        )
    return torch.cat(out) if out else vectors.new_zeros(0, 3, rank)


class _Centres:
    """The pairs of a run of centres."""

    def __init__(self, p: DensityArguments, segments: Tensor, vectors: Tensor, first: int, last: int) -> None:
        bounds = segments[first * p.n_elements : last * p.n_elements + 1]
        self.first, self.last = first, last
        self.vectors = vectors[int(bounds[0]) : int(bounds[-1])]
        each = torch.arange((last - first) * p.n_elements, device=vectors.device)
        self.segment = torch.repeat_interleave(each, bounds.diff())  # (pairs,) centre and element of the neighbour
        self.centre, self.element = self.segment // p.n_elements, self.segment % p.n_elements

    @classmethod
    def chunks(
        cls, p: DensityArguments, n_atoms: int, segments: Tensor, vectors: Tensor, width: int = 1
    ) -> Iterator[_Centres]:
        """Runs of centres whose densities and moments, `width` times each, fit into memory."""
        most = segments[:: p.n_elements].diff().max() if n_atoms else 0
        wide = p.n_harmonics * max(width, p.n_elements * p.n_radial, p.n_channels, int(most) * p.n_radial)
        step = max(1, NUMBERS // wide)
        for first in range(0, n_atoms, step):
            yield cls(p, segments, vectors, first, min(first + step, n_atoms))


def _tabulated(table: Tensor, cutoff: float, r: Tensor) -> Tensor:
    """Polynomials of the interval that holds each r, (pairs, functions); 0 from the cutoff on."""
    along = r * (len(table) / cutoff)
    interval = along.detach().long().clamp(max=len(table) - 1)
    x, rows = (along - interval)[:, None], table[interval]
    value = rows[:, 5]
    for power in (4, 3, 2, 1, 0):
        value = value * x + rows[:, power]
    return torch.where((r < cutoff)[:, None], value, torch.zeros_like(value))


def _pair_functions(p: DensityArguments, vectors: Tensor) -> Tensor:
    """Radial functions of pairs, (pairs, n_pair)."""
    return _tabulated(p.pair_table, p.pair_cutoff, vectors.norm(dim=1))


def _densities(p: DensityArguments, vectors: Tensor) -> Tensor:
    """Density of each neighbour alone, (pairs, n_radial, harmonics)."""
    r = vectors.norm(dim=1)
    angular = harmonics(vectors / r[:, None], p.l_max)
    return _tabulated(p.radial_table, p.density_cutoff, r)[:, :, None] * angular[:, None, :]


def _moments(p: DensityArguments, part: _Centres) -> Tensor:
    """Moments of all channels, (atoms, harmonics, channels)."""
    n, each = part.last - part.first, _densities(p, part.vectors)
    density = each.new_zeros(n * p.n_elements, *each.shape[1:]).index_add(0, part.segment, each)
    return torch.einsum("aznh,znk->ahk", density.unflatten(0, (n, p.n_elements)), p.mixing)


def _invariants(p: DensityArguments, moments: Tensor) -> Tensor:
    """Sums of products of two and of three moments, (atoms, invariants, channels)."""
    found = [moments[:, of_degree(degree)].square().sum(1) for degree in range(p.l_max + 1)]
    if p.n_invariants > len(found):
        for path in paths(p.l_max):
            one, two, three = (moments[:, of_degree(degree)] for degree in path)
            found.append(torch.einsum("abc,zak,zbk,zck->zk", coupling(*path).to(moments), one, two, three))
    return torch.stack(found, 1) * p.weights[:, None]


def _values(p: DensityArguments, part: _Centres) -> Tensor:
    n, each = part.last - part.first, _pair_functions(p, part.vectors)
    pairs = each.new_zeros(n * p.n_elements, p.n_pair).index_add(0, part.segment, each)
    return torch.cat([pairs.view(n, -1), _invariants(p, _moments(p, part)).flatten(1)], 1)


def _density_cotangents(p: DensityArguments, part: _Centres, projection: Tensor) -> Tensor:
    """Derivative of the projected invariants by the density, (atoms, elements, n_radial · harmonics, rank)."""
    with torch.enable_grad():
        moments = _moments(p, part).detach().requires_grad_()
        found = _invariants(p, moments)
        slopes = [torch.autograd.grad(found[:, i].sum(), moments, retain_graph=True)[0] for i in range(p.n_invariants)]
    rows = projection.unflatten(1, (p.n_invariants, p.n_channels))
    by_moment = torch.einsum("aihk,aikr->ahkr", torch.stack(slopes, 1), rows)
    return torch.einsum("znk,ahkr->aznhr", p.mixing, by_moment).flatten(2, 3)
