"""Data sets: reading them, drawing from them, and the catalogue of public ones."""

from . import catalogue
from .dataset import Dataset, Source, concatenate
from .readers import from_ase, load
from .writers import write_extxyz

__all__ = ["Dataset", "Source", "catalogue", "concatenate", "from_ase", "load", "write_extxyz"]
