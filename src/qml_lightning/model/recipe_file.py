"""Recipes in files: JSON that a person can read and change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..machine.files import write_atomically
from .recipe import Recipe

FORMAT = "qml-lightning-recipe"


def save_recipe(recipe: Recipe, path: str | Path, *, overwrite: bool = False, **about: Any) -> None:
    """Write `recipe` and remarks for people (`about`) to `path`, atomically."""
    content = {"format": FORMAT, "recipe": recipe.as_dict(), **about}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(), overwrite=overwrite)


def load_recipe(path: str | Path) -> Recipe:
    """The recipe that `save_recipe` wrote, checked."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise KeyError(FORMAT)
        recipe = Recipe.from_dict(content["recipe"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        raise InputError(
            f"{path} is not a recipe that can be used ({type(problem).__name__}: {problem}). `qml-lightning tune` "
            "writes one."
        ) from problem
    recipe.check()
    return recipe


def field_of(recipe: Recipe, name: str) -> Any:
    """The value of a field, such as "ridge" or "features.sigma"; an InputError that lists them if there is none."""
    value: Any = recipe
    for part in name.split("."):
        if not is_dataclass(value) or part not in {f.name for f in fields(value)}:
            raise InputError(f"A recipe has no field {name!r}. It has {', '.join(_names(asdict(recipe)))}.")
        value = getattr(value, part)
    if is_dataclass(value):
        raise InputError(f"{name} is made of several fields: {', '.join(_names({name: asdict(recipe)[name]}))}.")
    return value


def with_fields(recipe: Recipe, values: Mapping[str, Any]) -> Recipe:
    """`recipe` with other values of fields, such as {"ridge": 1e-9, "features.sigma": 4.0}; not checked."""
    for name, value in values.items():
        field_of(recipe, name)
        outer, _, inner = name.partition(".")
        changed: Any
        if name == "representation.cutoff":
            changed = recipe.representation.within(value)  # other lengths follow it
        else:
            changed = replace(getattr(recipe, outer), **{inner: value}) if inner else value
        recipe = replace(recipe, **{outer: changed})
    return recipe


def _names(values: Mapping[str, Any], before: str = "") -> list[str]:
    names = []
    for name, value in values.items():
        names += _names(value, f"{name}.") if isinstance(value, dict) else [before + name]
    return names
