"""Automatic choice of a recipe by trials on a part of the training data."""
