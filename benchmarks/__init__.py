"""Measurements of accuracy and speed: `python -m benchmarks --list` names them all."""
