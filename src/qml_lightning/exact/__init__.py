"""OQML and GPR: the published methods with explicit Gaussian kernels between atomic environments."""

from .potential import ExactPotential
from .recipe import GPR, OQML, ExactRecipe

__all__ = ["GPR", "OQML", "ExactPotential", "ExactRecipe"]
