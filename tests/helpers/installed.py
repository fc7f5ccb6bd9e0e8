"""Packages that are installed."""

from __future__ import annotations

import importlib.util


def there(*modules: str) -> bool:
    try:
        return all(importlib.util.find_spec(name) is not None for name in modules)
    except ModuleNotFoundError:  # the package of a module
        return False


METATOMIC = there("metatomic.torch", "metatomic_ase")
