"""Figures and summaries of fits, learning curves and searches."""
