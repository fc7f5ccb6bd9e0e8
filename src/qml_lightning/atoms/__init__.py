"""Structures: units, positions and labels, data sets, pairs of atoms within a cutoff."""
