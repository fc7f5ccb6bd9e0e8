"""Summaries of a trained potential for people to look at."""
