"""The recipe of a fit with its ridge, and the evidence if they were chosen from the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..linear.ridge import Ridge
from ..model.recipe import Recipe
from .choice.rules import refinement


@dataclass(frozen=True)
class Chosen:
    """A recipe that was given, or chosen from the data."""

    recipe: Recipe
    ridge: Ridge  # tells whether it was chosen, and the least value that a refinement may take
    evidence: dict[str, Any] | None = None  # trials and predicted errors, for people; None: the recipe was given

    @classmethod
    def given(cls, recipe: Recipe) -> Chosen:
        """A recipe that is used as it is."""
        return cls(recipe, Ridge(recipe.ridge))

    def header(self) -> dict[str, Any]:
        """Entries of the JSON header of a checkpoint or equations file."""
        return {"recipe": self.recipe.as_dict(), "choice": self.evidence, "least_ridge": self.ridge.least}

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Chosen:
        """The recipe of a file. Older files have the least ridge in their choice, the first ones not at all."""
        recipe, evidence = Recipe.from_dict(header["recipe"]), header.get("choice")
        least = header.get("least_ridge")
        if "least_ridge" not in header and evidence is not None and "ridge" in evidence["chosen"]:
            least = float(evidence.get("least_ridge", 0.0))
        return cls(recipe, Ridge(recipe.ridge, refinement(least)), evidence)
