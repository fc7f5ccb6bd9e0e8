"""OQML and GPR: the published full-kernel methods, with explicit Gaussian kernels between atomic environments."""

from .potential import ExactPotential
from .recipe import GPR, OQML, ExactRecipe
from .training import exact_potential

__all__ = ["GPR", "OQML", "ExactPotential", "ExactRecipe", "exact_potential"]
