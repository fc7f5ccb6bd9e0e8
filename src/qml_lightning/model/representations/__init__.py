"""Representations of atomic environments, one file for each kind."""
