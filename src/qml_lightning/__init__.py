"""QML-Lightning: quantum-mechanical energies and forces, learnt in closed form."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import datasets, exact
    from .adapters.delta import past_calculator
    from .api import evaluate, fit, fit_properties, load
    from .atoms.dataset import Dataset
    from .atoms.structures import Labels, Structures, structures_from_ase
    from .datasets import load as load_dataset
    from .model import recipe as recipes
    from .model.metrics import Metrics
    from .model.potential import Potential
    from .model.predictor import Prediction
    from .model.properties import PropertyModel
    from .model.recipe import Recipe
    from .study.learning_curve import learning_curve

    __version__: str

# Name → (module, name there). Read on first use: `qml-lightning --help` must not wait for torch.
_HOMES = {
    "Dataset": ("atoms.dataset", "Dataset"),
    "Labels": ("atoms.structures", "Labels"),
    "Metrics": ("model.metrics", "Metrics"),
    "Potential": ("model.potential", "Potential"),
    "Prediction": ("model.predictor", "Prediction"),
    "PropertyModel": ("model.properties", "PropertyModel"),
    "Recipe": ("model.recipe", "Recipe"),
    "Structures": ("atoms.structures", "Structures"),
    "evaluate": ("api", "evaluate"),
    "fit": ("api", "fit"),
    "fit_properties": ("api", "fit_properties"),
    "learning_curve": ("study.learning_curve", "learning_curve"),
    "load": ("api", "load"),
    "load_dataset": ("datasets", "load"),
    "past_calculator": ("adapters.delta", "past_calculator"),
    "structures_from_ase": ("atoms.structures", "structures_from_ase"),
}
# Public name → module.
_MODULES = {"datasets": "datasets", "exact": "exact", "recipes": "model.recipe"}
__all__ = [
    "Dataset",
    "Labels",
    "Metrics",
    "Potential",
    "Prediction",
    "PropertyModel",
    "Recipe",
    "Structures",
    "datasets",
    "evaluate",
    "exact",
    "fit",
    "fit_properties",
    "learning_curve",
    "load",
    "load_dataset",
    "past_calculator",
    "recipes",
    "structures_from_ase",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("qml-lightning")
    elif name in _MODULES:
        value = import_module(f".{_MODULES[name]}", __name__)
    elif name in _HOMES:
        module, there = _HOMES[name]
        value = getattr(import_module(f".{module}", __name__), there)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
