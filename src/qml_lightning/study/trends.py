"""Learning curves as numbers: errors, slopes, and advice on whether more data or more features would help."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from ..model.metrics import WORDS, Error, Metrics, shown, with_unit
from ..model.recipe import Recipe

# A gain below this part of the error counts as none; two gains are alike if their ratio is above the second figure.
NO_GAIN, ALIKE = 0.03, 0.8
Along = Literal["structures", "features"]
OTHER: dict[Along, Along] = {"structures": "features", "features": "structures"}


@dataclass(frozen=True)
class Entry:
    """Errors of one model."""

    features: int
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
    """Power law of an error in the number of structures or features: error ∝ number^slope."""

    quantity: str
    along: Along
    fixed: int  # the other number
    slope: float  # least squares of the logarithms, over all numbers
    last_decade: float  # over the numbers within a factor of ten of the largest
    end: float  # between the last two
    error: float  # mean absolute error at the largest number, in eV and Å
    doubled: float  # error that the slope at the end predicts for twice the largest number

    @property
    def gain(self) -> float:
        """Part of the error that twice the number would remove."""
        return 1.0 - self.doubled / self.error


def trend_of(quantity: str, along: Along, fixed: int, numbers: Sequence[int], errors: Sequence[float]) -> Trend:
    """Trend of the errors at two or more ascending numbers."""
    x, y = np.log(np.asarray(numbers, float)), np.log(np.asarray(errors, float))

    def slope(points: slice | np.ndarray) -> float:
        return float(np.polyfit(x[points], y[points], 1)[0])

    end, last = slope(slice(-2, None)), float(errors[-1])
    decade = x >= x[-1] - np.log(10) - 1e-9
    last_decade = slope(decade) if decade.sum() > 1 else end
    return Trend(quantity, along, fixed, slope(slice(None)), last_decade, end, last, last * 2**end)


@dataclass(frozen=True)
class LearningCurve:
    """Errors of models with more and more structures and features, on structures that none of them has seen."""

    quantities: tuple[str, ...]  # attributes of Metrics: energy, energy_per_atom, forces, stress
    entries: tuple[Entry, ...]
    recipe: Recipe
    data: dict[str, Any]  # origin of the training structures
    test: dict[str, Any]  # origin of the test structures

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.numbers("structures")

    @property
    def features(self) -> tuple[int, ...]:
        return self.numbers("features")

    def numbers(self, along: Along) -> tuple[int, ...]:
        """Numbers of structures or features that were measured, ascending."""
        return tuple(sorted({getattr(entry, along) for entry in self.entries}))

    def errors(self, quantity: str, features: int, structures: int) -> list[float]:
        """Mean absolute errors in eV and Å, one for each seed."""
        entries = [one for one in self.entries if (one.features, one.structures) == (features, structures)]
        return [entry.error(quantity).mae for entry in entries]

    def trends(self, along: Along) -> list[Trend]:
        """Trend of each quantity along one number, for each value of the other; empty if there is one number only."""
        numbers, other = self.numbers(along), OTHER[along]
        if len(numbers) < 2:
            return []
        trends = []
        for quantity in self.quantities:
            for fixed in self.numbers(other):
                runs = [self.errors(quantity, **{along: n, other: fixed}) for n in numbers]
                trends.append(trend_of(quantity, along, fixed, numbers, [statistics.fmean(run) for run in runs]))
        return trends

    def trend(self, along: Along) -> Trend | None:
        """Trend of the forces (or of the first quantity) at the largest value of the other number, if there is one."""
        quantity = "forces" if "forces" in self.quantities else self.quantities[0]
        return next((one for one in reversed(self.trends(along)) if one.quantity == quantity), None)

    def advice(self) -> str:
        """Sentence that says whether more data or more features would help."""
        asked = {"data": self.trend("structures"), "features": self.trend("features")}
        known = {what: trend for what, trend in asked.items() if trend is not None}
        if not known:
            return "One size and one number of features do not tell what would help: give several of either."
        one = next(iter(known.values()))
        doubled = ", ".join(
            f"twice the {what} about {shown(trend.quantity, trend.doubled)}" for what, trend in known.items()
        )
        unknown = "".join(f" (what more {what} would do was not measured)" for what in asked if what not in known)
        return (
            f"With {self.sizes[-1]:,} structures and {self.features[-1]:,} features the {WORDS[one.quantity]} error is "
            f"{with_unit(one.quantity, one.error)}, {doubled}: {_verdict(known)}{unknown}."
        )

    def rows(self) -> list[dict[str, Any]]:
        """Flat row for each model, errors in eV and Å."""
        rows = []
        for entry in self.entries:
            row = {name: getattr(entry, name) for name in ("features", "structures", "seed", "ridge")}
            for quantity in self.quantities:
                error = entry.error(quantity)
                row |= {f"{quantity}_mae": error.mae, f"{quantity}_rmse": error.rmse}
            rows.append(row)
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Content for JSON; errors in eV and Å."""
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
        none = f"neither more {' nor more '.join(gains)} would help"
        return none if len(gains) > 1 else f"more {best} would not help"
    if len(gains) == 1:
        return f"more {best} would help"
    if least < NO_GAIN:
        return f"more {best} would help, and they alone"
    return "both would help, about as much" if least > ALIKE * gains[best] else f"more {best} would help more"
