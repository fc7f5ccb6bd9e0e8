"""Learning curves as numbers: slopes, what they predict, and whether more data or more features would help."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from ..model.metrics import WORDS, Error, Metrics, milli, with_unit
from ..model.recipe import Recipe

# A gain of less than this part of the error is none; gains whose ratio is above the other one are alike.
NO_GAIN, ALIKE = 0.03, 0.8
Along = Literal["structures", "features"]


@dataclass(frozen=True)
class Entry:
    """The errors of one model."""

    n_features: int
    structures: int
    seed: int
    ridge: float
    metrics: Metrics

    def error(self, quantity: str) -> Error:
        found = getattr(self.metrics, quantity)
        assert isinstance(found, Error)
        return found


@dataclass(frozen=True)
class Trend:
    """How an error goes with the number of structures or features: error ∝ number^slope."""

    quantity: str
    along: Along
    fixed: int  # how many there are of the other one
    slope: float  # least squares of the logarithms, over all numbers
    last_decade: float  # over those within a factor of ten of the largest
    end: float  # between the last two
    error: float  # mean absolute error at the largest, in eV and Å
    doubled: float  # what the slope at the end predicts for twice as many

    @property
    def gain(self) -> float:
        """Part of the error that twice as many would take away."""
        return 1.0 - self.doubled / self.error


def trend_of(quantity: str, along: Along, fixed: int, numbers: Sequence[int], errors: Sequence[float]) -> Trend:
    """The trend of errors at two or more numbers, which ascend."""
    x, y = np.log(np.asarray(numbers, float)), np.log(np.asarray(errors, float))

    def slope(points: slice | np.ndarray) -> float:
        return float(np.polyfit(x[points], y[points], 1)[0])

    end = slope(slice(-2, None))
    decade = x >= x[-1] - np.log(10) - 1e-9
    last_decade = slope(decade) if decade.sum() > 1 else end
    return Trend(
        quantity, along, fixed, slope(slice(None)), last_decade, end, float(errors[-1]), float(errors[-1]) * 2**end
    )


@dataclass(frozen=True)
class LearningCurve:
    """Errors of models with more and more structures and features, on structures that none of them has seen."""

    quantities: tuple[str, ...]  # attributes of Metrics: energy, energy_per_atom, forces, stress
    entries: tuple[Entry, ...]
    recipe: Recipe
    data: dict[str, Any]  # where the structures came from that were learnt
    test: dict[str, Any]  # and those that were not

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted({entry.structures for entry in self.entries}))

    @property
    def features(self) -> tuple[int, ...]:
        return tuple(sorted({entry.n_features for entry in self.entries}))

    def errors(self, quantity: str, n_features: int, structures: int) -> list[float]:
        """Mean absolute errors in eV and Å, one for each seed."""
        return [
            entry.error(quantity).mae
            for entry in self.entries
            if (entry.n_features, entry.structures) == (n_features, structures)
        ]

    def trends(self, along: Along) -> list[Trend]:
        """Of each quantity along structures, for each number of features; or the other way round."""
        numbers, others = (self.sizes, self.features) if along == "structures" else (self.features, self.sizes)
        if len(numbers) < 2:
            return []
        return [
            trend_of(quantity, along, fixed, numbers, [self._mean(quantity, along, n, fixed) for n in numbers])
            for quantity in self.quantities
            for fixed in others
        ]

    def _mean(self, quantity: str, along: Along, number: int, fixed: int) -> float:
        n_features, structures = (fixed, number) if along == "structures" else (number, fixed)
        return statistics.fmean(self.errors(quantity, n_features, structures))

    def trend(self, along: Along) -> Trend | None:
        """Of the forces, or what there is, with the most of the other one; None if there is one number only."""
        quantity = "forces" if "forces" in self.quantities else self.quantities[0]
        fixed = self.features[-1] if along == "structures" else self.sizes[-1]
        return next((t for t in self.trends(along) if (t.quantity, t.fixed) == (quantity, fixed)), None)

    def advice(self) -> str:
        """Whether more data or more features would help, in a sentence."""
        asked = {"data": self.trend("structures"), "features": self.trend("features")}
        known = {what: trend for what, trend in asked.items() if trend is not None}
        if not known:
            return "One size and one number of features do not tell what would help: give several of either."
        one = next(iter(known.values()))
        doubled = ", ".join(f"twice the {what} about {milli(t.doubled)}" for what, t in known.items())
        unknown = "".join(f" (what more {what} would do was not measured)" for what in asked if what not in known)
        return (
            f"With {self.sizes[-1]:,} structures and {self.features[-1]:,} features the {WORDS[one.quantity]} error is "
            f"{with_unit(one.quantity, one.error)}, {doubled}: {_verdict(known)}{unknown}."
        )

    def rows(self) -> list[dict[str, Any]]:
        """A flat row for each model, errors in eV and Å."""
        return [
            {"features": entry.n_features, "structures": entry.structures, "seed": entry.seed, "ridge": entry.ridge}
            | {
                f"{quantity}_{kind}": getattr(entry.error(quantity), kind)
                for quantity in self.quantities
                for kind in ("mae", "rmse")
            }
            for entry in self.entries
        ]

    def as_dict(self) -> dict[str, Any]:
        """For JSON: errors in eV and Å."""
        return {
            "models": self.rows(),
            "trends": [asdict(trend) for trend in (*self.trends("structures"), *self.trends("features"))],
            "advice": self.advice(),
            "recipe": self.recipe.as_dict(),
            "data": self.data,
            "test": self.test,
        }


def _verdict(known: dict[str, Trend]) -> str:
    gains = {what: trend.gain for what, trend in known.items()}
    best, least = max(gains, key=lambda what: gains[what]), min(gains.values())
    if gains[best] < NO_GAIN:
        return (
            f"neither more {' nor more '.join(gains)} would help" if len(gains) > 1 else f"more {best} would not help"
        )
    if len(gains) == 1 or least < NO_GAIN:
        return f"more {best} would help" + ("" if len(gains) == 1 else ", and they alone")
    return "both would help, about as much" if least > ALIKE * gains[best] else f"more {best} would help more"
