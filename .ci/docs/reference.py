"""The reference of the public names, in Markdown: advice first, then signatures, docstrings and fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

FIRST = (
    "load_dataset", "fit", "evaluate", "load", "learning_curve", "fit_properties", "past_calculator",
    "structures_from_ase",
)  # fmt: skip
FIELD = re.compile(r"^    (\w+): ([^=#\n]+?)(?: = [^#\n]+)?(?:  # (.*))?$", re.MULTILINE)

ADVICE = """# Reference

Start with these five names; the rest is for when you need it.

| you want | use |
|---|---|
| read structures with energies and forces | `load_dataset(path)` |
| train | `fit(data)`; single settings by name, `fit(data, n_features=16384)` |
| know the errors | `evaluate(potential, data)`; to look at them, `qml-lightning report` |
| predict, or run dynamics | `potential.predict(structures)`, `potential.calculator()` for ASE |
| keep it | `potential.save(path)`, `load(path)` |

Structures of ASE (`Atoms`, or a list of them) can be given wherever structures are wanted. Numbers are in eV and Å. An
error of this package says what was wanted, what came, and what to do (`qml_lightning.errors`).
"""


def reference() -> str:
    """Markdown of all public names: signature, docstring, and the fields and methods of classes."""
    import qml_lightning

    parts = [ADVICE, "## Functions"]
    parts += [_function(name, getattr(qml_lightning, name)) for name in FIRST]
    parts += ["## Keywords of `fit`", _settings(), "## Classes"]
    public = {name: getattr(qml_lightning, name) for name in qml_lightning.__all__}
    parts += [_class(name, value) for name, value in public.items() if inspect.isclass(value)]
    parts += ["## Recipes", _recipes(qml_lightning.recipes), "## Commands", _commands()]
    return "\n\n".join(parts) + "\n"


def _table(columns: list[str], rows: list[tuple[str, ...]]) -> str:
    # an upright stroke would end the cell; inside code it cannot be escaped
    lines = [columns, ["---"] * len(columns), *([cell.replace("|", "or") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _signature(value: Callable[..., Any]) -> str:
    signature = inspect.signature(value)
    kept = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    plain = [one.replace(annotation=inspect.Parameter.empty, default=_short(one.default)) for one in kept]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


class _Default:
    """Default value that is too long for a line."""

    def __repr__(self) -> str:
        return "…"


def _short(default: Any) -> Any:
    return default if default is inspect.Parameter.empty or len(repr(default)) < 40 else _Default()


def _function(name: str, value: Callable[..., Any]) -> str:
    """Name, call and docstring; its lines on parameters as a list."""
    text = inspect.getdoc(value) or ""
    opening = r"(?:`\w+`(?:, |:| …:|$))"
    text = re.sub(rf"\n(?={opening})", "\n\n", text)
    text = re.sub(rf"^(?={opening})", "* ", text, flags=re.MULTILINE)
    return f"### `{name}`\n\n```text\nqml_lightning.{name}{_signature(value)}\n```\n\n{text}"


def _class(name: str, value: type) -> str:
    text = inspect.getdoc(value) or ""
    found, known = FIELD.findall(inspect.getsource(value)), getattr(value, "__annotations__", {})
    fields = [(f"`{a}`", f"`{b}`", c) for a, b, c in found if a in known]  # the others are lines of docstrings
    methods = []
    for one, method in inspect.getmembers(value, lambda m: inspect.isfunction(m) or inspect.ismethod(m)):
        if not one.startswith("_") and (says := inspect.getdoc(method)):
            methods.append(f"* `{one}{_signature(method)}`: {says.splitlines()[0]}")
    return "\n\n".join(
        [f"### `{name}`", text, _table(["field", "type", ""], fields) if fields else "", "\n".join(methods)]
    )


def _settings() -> str:
    """Tables of the settings of a recipe, with their defaults, and of the other keywords."""
    from qml_lightning import recipes
    from qml_lightning.api import FitOptions
    from qml_lightning.model.recipe import CHOOSABLE, RecipeChanges

    def default(name: str) -> str:
        recipe = recipes.DEFAULT
        value = getattr(recipe, name, getattr(recipe.features, name, None))
        if name in CHOOSABLE or name == "cutoff":
            return "chosen"
        return "automatic" if name == "solver" else f"`{value}`"

    settings = [(f"`{a}`", default(a), c) for a, _, c in FIELD.findall(inspect.getsource(RecipeChanges))]
    others = [(f"`{a}`", c) for a, _, c in FIELD.findall(inspect.getsource(FitOptions))]
    text = "Settings that are *chosen* are found from the data by small trial fits; one that you give is used as it is."
    return "\n\n".join(
        [text, _table(["setting", "default", "meaning"], settings), "All else that can be given:",
         _table(["keyword", "meaning"], others)]
    )  # fmt: skip


def _recipes(recipes: Any) -> str:
    rows = [
        (f"`{name}`", one.representation.describe(), one.features.describe(), f"{one.ridge:g}")
        for name, one in recipes.NAMED.items()
    ]
    text = "`AUTOMATIC` starts from `default`, and chooses from the data what is not given."
    return f"{text}\n\n{_table(['name', 'representation', 'features', 'ridge'], rows)}"


def _commands() -> str:
    from qml_lightning import cli

    rows = [
        (f"`qml-lightning {one.name}`", str(one.help or "").strip().splitlines()[0].rstrip("."))
        for one in cli.app.registered_commands
    ]
    return f"`qml-lightning COMMAND --help` explains the options.\n\n{_table(['command', 'what it does'], rows)}"
