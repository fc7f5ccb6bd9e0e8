"""Fields of settings: numbers of their kind, and finite ones."""

from __future__ import annotations

import math
from dataclasses import fields
from numbers import Integral, Real
from typing import Any

from ..errors import InputError

_KINDS: dict[str, tuple[type, str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a text"),
}


def check_positive(settings: Any, what: str, *names: str) -> None:
    """Raise an InputError if one of these fields of `what` is not above zero."""
    for name in names:
        if not getattr(settings, name) > 0:
            raise InputError(f"{what} needs {name} > 0, got {getattr(settings, name)}.")


def check_fields(settings: Any, **least: int) -> None:
    """Raise an InputError if a field is not of its kind, not finite, or smaller than its `least` value."""
    for field in fields(settings):
        value = getattr(settings, field.name)
        kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", "")
        if kind in _KINDS:
            wanted, words = _KINDS[kind]
            if not isinstance(value, wanted) or (isinstance(value, bool) and kind != "bool"):
                raise InputError(f"{field.name} is {words}, got {value!r:.100}.")
        if isinstance(value, Real) and not math.isfinite(value):
            raise InputError(f"{field.name} is a finite number, got {value}.")
        if field.name in least and value < least[field.name]:
            raise InputError(f"{field.name} must be {least[field.name]} or more, got {value}.")
