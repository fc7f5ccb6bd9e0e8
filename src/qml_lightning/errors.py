"""Errors that say what was wanted, what came, and what to do."""


class QMLError(Exception):
    """Anything this package refuses to do, with the reason and the remedy in its text."""


class InputError(QMLError, ValueError):
    """A file, a structure, a label or an option that cannot be used."""


class ModelError(QMLError):
    """A model file that is truncated, foreign, or newer than this package."""


class ResourceError(QMLError, MemoryError):
    """More memory or disk is needed than there is."""


class SolveError(QMLError, ArithmeticError):
    """The equations could not be solved as they stand."""
