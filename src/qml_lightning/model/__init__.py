"""A trained potential and its parts: recipe, representation, axes, random features, weights."""
