"""The card of a model: data, recipe, plan and provenance in words, from the header of its file."""

from __future__ import annotations

from typing import Any

from ..machine.display import threads_words
from ..machine.memory import GIB

# Kind of label in the record of a choice → quantity of model/metrics.
QUANTITIES = {"energies": "energy", "forces": "forces", "stress": "stress"}
# Mark of what was taken, in tables, and the word for it.
ARROW, CHOSEN = "▸", "chosen"
# Files that are named, of data from many.
PARTS = 4


def symbol(number: int) -> str:
    """Chemical symbol of an atomic number: 6 is C."""
    from ase.data import chemical_symbols

    return str(chemical_symbols[number])


def model_card(header: dict[str, Any], explained: dict[str, float] | None = None) -> dict[str, str]:
    """Data, recipe and provenance of a model by name, in words, from the header of its file.

    `explained`: for each element, the part of the squared norm that the projection keeps.
    """
    from ..model.representations import representation_from_dict

    recipe, provenance, data = header["recipe"], header["provenance"], header["provenance"].get("data", {})
    versions = provenance.get("versions", {})
    rows = provenance.get("targets", {})
    weights = {kind: recipe[f"{kind}_weight"] for kind in ("energy", "force", "stress")}
    lost = ", ".join(f"{max(0.0, 1.0 - part):.1g} of {name}" for name, part in (explained or {}).items())
    return {
        "elements": ", ".join(symbol(z) for z in header["elements"]),
        "data": data_words(data),
        "structures": f"{provenance.get('structures', 0):,} with {provenance.get('atoms', 0):,} atoms",
        "equations": ", ".join(f"{n:,} {kind}" for kind, n in rows.items()),
        **_method(recipe, provenance.get("solution", {}).get("ridges", [])),
        "representation": representation_from_dict(recipe["representation"]).describe(),
        "projection": _axes(recipe) + (f"; unexplained variance {lost}" if lost and recipe["rank"] else ""),
        "references": str(data.get("references", "")),
        "weights": ", ".join(f"{kind} {weight:g}" for kind, weight in weights.items()),
        "chosen": chosen_words(provenance.get("choice")),
        "solver": _solver(provenance.get("solution", {})),
        "seed": str(recipe["seed"]),
        "trained": f"in {seconds_words(provenance.get('seconds', 0.0))} with {provenance.get('kernels', '?')} kernels, "
        f"{recipe.get('precision', 'float64')}, {threads_words(provenance.get('threads', '?'))} "
        f"on {provenance.get('device', '?')}",
        "predictions": _predictions(header.get("prediction")),
        "committee": _committee(header.get("committee")),
        "versions": ", ".join(f"{name} {text}" for name, text in versions.items()),
        "checksum": str(header.get("checksum", "")),
        "citation": str(data.get("citation", "")),
    }


def _method(recipe: dict[str, Any], ridges: list[dict[str, float]]) -> dict[str, str]:
    """Features and ridge of a recipe; of an exact one, kernels and ridge or threshold."""
    if "features" not in recipe:
        of_oqml = recipe["method"] == "oqml"
        limit = {"threshold": f"{recipe['threshold']:g}"} if of_oqml else {"ridge": f"{recipe['ridge']:g}"}
        return {"kernels": f"{recipe['method'].upper()}, Gaussian, σ = {recipe['sigma']:g}", **limit}
    from ..model.features import FeatureSettings

    words = FeatureSettings(**recipe["features"]).describe()
    compared = f", the best of {len(ridges)} on held-out structures" if len(ridges) > 1 else ""
    return {"features": words, "ridge": f"{recipe['ridge']:g}{compared}"}


def _committee(about: dict[str, Any] | None) -> str:
    """Members of a committee, and the smallest uncertainties that they give, unless these are zero."""
    if about is None:
        return ""
    noise, units = about["calibrations"], {"energies": "meV per √atom", "forces": "meV/Å"}
    smallest = {kind: noise[kind]["noise"] for kind in units}
    if of_elements := about.get("of_elements"):  # of forces
        smallest["forces"] = min(one["noise"] for one in of_elements.values())
    least = [f"{1000 * smallest[kind]:.2g} {unit} ({kind})" for kind, unit in units.items() if smallest[kind] > 0]
    at_least = f"; the smallest uncertainties are {' and '.join(least)}" if least else ""
    return f"{about['members']} members, for uncertainties{at_least}"


def _predictions(prediction: dict[str, Any] | None) -> str:
    """Precision of predictions, and the random error of energies that float32 would leave."""
    if prediction is None:
        return ""
    noise = f"{prediction['energy_noise'] * 1e3:.1g} meV per √atom"
    if prediction["precision"] == "float64":
        return f"in float64; energies in float32 would have a random error of {noise}"
    return f"in {prediction['precision']}; random error of energies {noise}"


CHOSEN_NAMES = {"sigma": "σ", "energy_weight": "energy weight", "class_spread": "bonds apart"}


def chosen_words(choice: dict[str, Any] | None) -> str:
    """Fields that were chosen from the data, and the errors to expect."""
    if choice is None:
        return ""
    from ..model.metrics import with_unit

    names = ", ".join(CHOSEN_NAMES.get(name, name) for name in choice["chosen"])
    spread = choice.get("uncertainties", {})  # older files have none
    expected = ", ".join(
        with_unit(QUANTITIES[kind], error, spread.get(kind)) for kind, error in choice["predicted"].items()
    )
    return f"{names}, in {seconds_words(choice['seconds'])}; expected errors {expected}"


def _axes(recipe: dict[str, Any]) -> str:
    """Axes of the projection, and whether they tell bonding classes apart."""
    if recipe["rank"] is None:
        return "none"
    apart = recipe.get("class_spread", 0.0)  # older files have none
    return f"{recipe['rank']} axes" + (f", bonds apart by {apart:g}" if apart else "")


def data_words(source: dict[str, Any]) -> str:
    draws = f" ({', '.join(source['draws'])})" if source.get("draws") else ""
    if parts := source.get("parts"):
        more = f" and {len(parts) - PARTS} more" if len(parts) > PARTS else ""
        return "; ".join(data_words(part) for part in parts[:PARTS]) + more + draws
    split = f":{source['split']}" if source.get("split") else ""
    return f"{source.get('name', '')}{split}{draws}"


def _solver(solution: dict[str, Any]) -> str:
    disk = solution.get("out_of_core")
    if disk is not None:
        gib = {name: f"{disk[name] / GIB:.1f} GiB" for name in ("disk_bytes", "bytes_read", "bytes_written")}
        moved = f"{gib['bytes_read']} read, {gib['bytes_written']} written"
        return f"disk: {gib['disk_bytes']} of scratch files, {moved}"
    summed = ", compensated float32 products" if solution.get("accumulation") == "compensated" else ""
    if "ranks" in solution:
        return f"direct{summed}, equations by {solution['ranks']['size']} ranks"
    if solution.get("solver") != "iterative":
        return str(solution.get("solver", "")) + summed
    paired = ", sums in pairs of float32" if summed else ""
    return f"iterative{paired}, {len(solution.get('history', []))} steps: {solution.get('converged', '')}"


def seconds_words(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def best_trials(choice: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Trials of the last size of a choice, each setting with its best ridge, by `settings_of`."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for trial in [*choice["trials"], choice["best"]]:
        if trial["size"] == choice["best"]["size"] and (
            trial == choice["best"] or trial["score"] <= best.get(settings_of(trial), trial)["score"]
        ):
            best[settings_of(trial)] = trial
    return dict(sorted(best.items()))


def settings_of(trial: dict[str, Any]) -> tuple[Any, ...]:
    """Settings of a trial besides the ridge."""
    apart = trial.get("class_spread", 0.0)  # older files have none
    return trial["representation"], trial["rank"], apart, trial["sigma"], trial["energy_weight"]


def verdict(trial: dict[str, Any], choice: dict[str, Any]) -> str:
    """`chosen`, or the reason why a trial that is better was not."""
    if trial == choice["best"]:
        return CHOSEN
    best, least = choice["best"], choice.get("least_gain", 0.0)
    if (gain := best["score"] - trial["score"]) <= 0:
        return ""
    if trial["sigma"] != best["sigma"]:
        least = choice.get("least_gain_of_width", least)
    if trial["representation"] != best["representation"]:
        least += choice.get("more_for", {}).get(trial["representation"], 0.0)
    return f"better by {gain:.1%}: may be chance (below {least:.0%})" if gain < least else "ridge too small for the fit"
