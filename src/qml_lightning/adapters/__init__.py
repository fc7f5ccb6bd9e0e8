"""Potentials as plug-ins of other simulation programs."""
