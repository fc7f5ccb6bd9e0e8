"""Solvers of a fit, behind one interface: direct, on disk, iterative."""
