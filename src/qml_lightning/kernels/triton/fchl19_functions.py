"""Two- and three-body functions of FCHL19 inside a kernel, with their derivatives by the first neighbour."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import triton
from triton import language as tl

from ..contract import FCHL19Arguments
from .angles import sine_and_cosine
from .geometry import cross3, dot3, plus, scaled
from .launch import constant, padded

_ROOT_TWO_PI = tl.constexpr(math.sqrt(2 * math.pi))


class FCHL19(NamedTuple):
    """The representation as a kernel takes it: all of it is part of its code."""

    ELEMENTS: Any
    SIZE: Any
    N2: Any  # radial functions of two bodies, of three bodies, and angular functions
    N3: Any
    N_ANGULAR: Any
    WIDTH2: Any  # padded to powers of two
    WIDTH3: Any
    SERIES: Any  # cos nθ instead of cos θ and sin θ
    CUTOFF: Any
    WAVE: Any  # π / cutoff
    POWER: Any
    ETA2: Any
    ETA3: Any
    DECAY2: Any
    DECAY3: Any
    WEIGHT3: Any
    STEP2: Any  # of the grids
    STEP3: Any
    BENT: Any  # sines below this are taken as zero


def arguments(p: FCHL19Arguments, eps: float) -> FCHL19:
    """`p` as a kernel takes it; `eps` of its precision."""
    fields = (
        p.n_elements, p.size, p.n_radial2, p.n_radial3, p.n_angular, padded(p.n_radial2), padded(p.n_radial3),
        p.angular == "series", p.cutoff, math.pi / p.cutoff, p.cutoff_power, p.eta2, p.eta3, p.decay2, p.decay3,
        p.weight3, p.cutoff / max(p.n_radial2, 1), p.cutoff / max(p.n_radial3, 1), 4.0 * eps,
    )  # fmt: skip
    return FCHL19(*(constant(one) for one in fields))


@triton.jit
def cutoff_at(p, r):
    """Cutoff function and its slope; zeros outside."""
    sine, cosine = sine_and_cosine(r * p.WAVE)
    value, slope = 0.5 * (cosine + 1.0), sine * (-0.5 * p.WAVE)
    if p.POWER == 2:
        slope = 2.0 * value * slope
        value = value * value
    inside = (r < p.CUTOFF).to(r.dtype)
    return value * inside, slope * inside


@triton.jit
def log1p(x):
    """ln(1 + x) for x ≥ 0: what 1 + x loses is put back by a ratio."""
    w = 1.0 + x
    exact = w - 1.0
    return tl.where(exact > 0.0, tl.log(w) * (x / tl.where(exact > 0.0, exact, 1.0)), x)


@triton.jit
def two_body(p, r):
    """Log-normal functions of distances and their slopes, (distances, WIDTH2)."""
    column = tl.arange(0, p.WIDTH2)
    grid = ((column + 1).to(r.dtype) * p.STEP2)[None, :]
    fc, fc_slope = cutoff_at(p, r)
    ratio = (1.0 / (r * r)) * p.ETA2
    variance = log1p(ratio)
    d_variance = -2.0 * ratio / ((1.0 + ratio) * r)
    log_r = tl.log(r)
    apart = tl.log(grid) - (log_r - 0.5 * variance)[:, None]
    d_apart = (0.5 * d_variance - 1.0 / r)[:, None]
    inverse = (1.0 / variance)[:, None]
    density = tl.exp(-0.5 * apart * apart * inverse) / (grid * (tl.sqrt(variance) * _ROOT_TWO_PI)[:, None])
    damping = tl.exp(log_r * -p.DECAY2)
    by_variance = 0.5 * inverse * (apart * apart * inverse - 1.0) * d_variance[:, None]
    factor = (damping * fc)[:, None]
    d_factor = (damping * (fc_slope - fc * p.DECAY2 / r))[:, None]
    return density * factor, density * (d_factor + factor * (by_variance - apart * d_apart * inverse))


@triton.jit
def radial3(p, half_sum, ACROSS: tl.constexpr = False):
    """Gaussians of ½ (r₁ + r₂) and their slopes, (triples, WIDTH3), or (WIDTH3, triples) with ACROSS."""
    grid = (tl.arange(0, p.WIDTH3) + 1).to(half_sum.dtype) * p.STEP3
    apart = half_sum[None, :] - grid[:, None] if ACROSS else half_sum[:, None] - grid[None, :]
    value = tl.exp(apart * apart * -p.ETA3)
    return value, apart * value * (-2.0 * p.ETA3)


@triton.jit
def angular_functions(p, cosine, sine):
    """Angular functions, and their derivatives by cosine and by sine: three tuples."""
    one, none = cosine * 0.0 + 1.0, cosine * 0.0
    if p.SERIES:
        values, slopes, nothing = (one, cosine), (none, one), (none, none)
        for n in tl.static_range(2, p.N_ANGULAR):
            new = 2.0 * cosine * values[n - 1] - values[n - 2]
            new_slope = 2.0 * (values[n - 1] + cosine * slopes[n - 1]) - slopes[n - 2]
            values, slopes, nothing = values + (new,), slopes + (new_slope,), nothing + (none,)
        return values, slopes, nothing
    else:
        return (cosine, sine), (one, none), (none, one)


@triton.jit
def triple(p, v, r, u, w, keep):
    """Weight of the triples of a neighbour v (length r, direction u) with neighbours w, cosine and sine at the centre.

    Each comes with its gradient by v. Where `keep` is false the weight is zero.
    """
    length = tl.sqrt(dot3(w, w))
    other = scaled(w, 1.0 / length)
    between = plus(w, scaled(v, -1.0))
    far = tl.sqrt(dot3(between, between))
    far = tl.where(keep, far, 1.0)
    across = scaled(between, 1.0 / far)
    cosine, at_v, at_w = dot3(u, other), -dot3(u, across), dot3(other, across)
    d_cosine = scaled(plus(other, scaled(u, -cosine)), 1.0 / r)
    d_at_v = plus(scaled(plus(u, scaled(across, at_v)), 1.0 / far), scaled(plus(across, scaled(u, at_v)), -1.0 / r))
    d_at_w = scaled(plus(other, scaled(across, -at_w)), -1.0 / far)
    sine, d_sine = sine_at(p, v, r, u, w, length)
    fc, fc_slope = cutoff_at(p, r)
    fc_other, _ = cutoff_at(p, length)
    damped = fc_other * p.WEIGHT3 * tl.exp(tl.log(r * length * far) * -p.DECAY3) * keep.to(r.dtype)
    axilrod = 1.0 + 3.0 * cosine * at_v * at_w
    weight = damped * fc * axilrod
    d_axilrod = plus(
        scaled(d_cosine, 3.0 * at_v * at_w), scaled(plus(scaled(d_at_v, at_w), scaled(d_at_w, at_v)), 3.0 * cosine)
    )
    d_weight = plus(
        plus(scaled(u, damped * axilrod * (fc_slope - fc * p.DECAY3 / r)), scaled(across, weight / far * p.DECAY3)),
        scaled(d_axilrod, damped * fc),
    )
    return (weight, cosine, sine, 0.5 * (r + length)), (d_weight, d_cosine, d_sine)


@triton.jit
def sine_at(p, v, r, u, w, length):
    """Sine of the angle between v and w, and its gradient by v: zero for collinear atoms, where there is none."""
    normal = cross3(v, w)
    area = tl.sqrt(dot3(normal, normal))
    bent = area > r * length * p.BENT
    sine = tl.where(bent, area, 0.0) / (r * length)
    turned = scaled(cross3(w, normal), bent.to(area.dtype) / (tl.where(bent, area, 1.0) * r * length))
    return sine, plus(turned, scaled(u, -sine / r))
