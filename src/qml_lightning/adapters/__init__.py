"""Potentials inside the programs of others."""
