"""Rival programs: one script each, and the environments in which they run."""
