"""Molecular dynamics with a trained potential: ensembles, restart files, trajectories, checks of a model."""
