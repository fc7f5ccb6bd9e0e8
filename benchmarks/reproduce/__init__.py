"""The tables and figures of the paper, one module each."""

from __future__ import annotations

from .bpa import BPA
from .rmd17 import RMD17

BENCHMARKS = (RMD17, BPA)
