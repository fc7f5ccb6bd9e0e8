"""The row of `ase info --plugins`, which ASE 3.27 and later finds through the entry points `ase.plugins`."""

from __future__ import annotations

from typing import Any

__ase_plugins__: set[Any] = set()
try:
    from ase._4.plugins.plugin import CalculatorPlugin
except ImportError:  # this part of ASE is experimental: if it has moved, `ase info` must still work
    pass
else:
    __ase_plugins__ = {
        CalculatorPlugin("qml-lightning", implementation="qml_lightning.adapters.ase.QMLLightning"),
    }
