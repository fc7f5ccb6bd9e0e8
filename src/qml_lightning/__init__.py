"""QML-Lightning: quantum-mechanical energies and forces, learnt in closed form."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import exact, recipes
    from .datasets import Dataset
    from .datasets import load as load_dataset
    from .fit import fit
    from .learning import learning_curve
    from .metrics import Metrics, evaluate
    from .modelfile import load_model as load
    from .potential import Potential, Prediction
    from .recipes import Recipe
    from .structures import Labels, Structures, structures_from_ase

    __version__: str

# Name → (module, name there). Read on first use: `qml-lightning --help` must not wait for torch.
_HOMES = {
    "Dataset": ("datasets", "Dataset"),
    "Labels": ("structures", "Labels"),
    "Metrics": ("metrics", "Metrics"),
    "Potential": ("potential", "Potential"),
    "Prediction": ("potential", "Prediction"),
    "Recipe": ("recipes", "Recipe"),
    "Structures": ("structures", "Structures"),
    "evaluate": ("metrics", "evaluate"),
    "fit": ("fit", "fit"),
    "learning_curve": ("learning", "learning_curve"),
    "load": ("modelfile", "load_model"),
    "load_dataset": ("datasets", "load"),
    "structures_from_ase": ("structures", "structures_from_ase"),
}
__all__ = [
    "Dataset",
    "Labels",
    "Metrics",
    "Potential",
    "Prediction",
    "Recipe",
    "Structures",
    "evaluate",
    "exact",
    "fit",
    "learning_curve",
    "load",
    "load_dataset",
    "recipes",
    "structures_from_ase",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("qml-lightning")
    elif name in ("exact", "recipes"):
        return import_module(f".{name}", __name__)
    elif name in _HOMES:
        module, there = _HOMES[name]
        value = getattr(import_module(f".{module}", __name__), there)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        # importing the module `fit` would put it in the place of the function of the same name
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
