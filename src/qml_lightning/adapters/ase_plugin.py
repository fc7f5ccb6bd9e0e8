"""The row that `ase info --plugins` shows, found through the entry points `ase.plugins` of ASE 3.27 and later."""

from __future__ import annotations

from typing import Any

__ase_plugins__: set[Any] = set()
try:
    from ase._4.plugins.plugin import CalculatorPlugin
except ImportError:  # an experimental corner of ASE: where it has moved, `ase info` must go on without us
    pass
else:
    __ase_plugins__ = {
        CalculatorPlugin("qml-lightning", implementation="qml_lightning.adapters.ase.QMLLightning"),
    }
