"""Data sets: readers, writers, and the catalogue of public sets."""

from ..atoms.dataset import Dataset, Source, concatenate
from . import catalogue
from .catalogue import download
from .readers import from_ase
from .several import load
from .writers import write_extxyz, write_predictions

__all__ = [
    "Dataset",
    "Source",
    "catalogue",
    "concatenate",
    "download",
    "from_ase",
    "load",
    "write_extxyz",
    "write_predictions",
]
