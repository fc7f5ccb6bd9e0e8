"""Convert the result files of the stand-alone scripts into those of the runner, once: nothing is measured.

    python benchmarks/convert_results.py

Every figure, and the date, command, commit, machine and versions behind it, go into the entry of its cell. Files of one
script with several sizes become one file.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
ENERGY, FORCE = "energy_mae_mev", "force_mae_mev_per_angstrom"
OLD_ERRORS = {"energy_mev": ENERGY, "forces_mev_per_angstrom": FORCE, "energy": ENERGY, "forces": FORCE}

Record = dict[str, Any]


def read(name: str) -> Record:
    record: Record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return record


def run_of(record: Record, **other: Any) -> Record:
    """Circumstances of an entry from those of its old file."""
    run = {name: record[name] for name in ("date", "command", "commit", "dirty")}
    run |= {"cpu": record["machine"]["cpu"], "threads": record["threads"], "load_average": record["load_average"][0]}
    return {**run, "load_averages": record["load_average"], **other}


def errors(found: Record) -> Record:
    """Errors under the names that all benchmarks share."""
    return {OLD_ERRORS.get(name, name): value for name, value in found.items()}


def write(name: str, entries: list[Record], *records: Record) -> None:
    """Write the new file, headed by the newest of the old records; remove the old files."""
    newest = max(records, key=lambda record: record["date"])
    for entry in entries:  # entries that came from another machine or other versions say so
        for key in ("machine", "versions"):
            source = entry["run"].pop("_" + key, newest[key])
            if source != newest[key]:
                entry["run"][key] = source
    head = {key: value for key, value in newest.items() if key not in ("headline", "results", "benchmark")}
    for record in records:
        (FOLDER / f"{record['benchmark']}.json").unlink(missing_ok=True)
    text = json.dumps({"benchmark": name, **head, "results": entries}, indent=2, ensure_ascii=False)
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def entry(cell: Record, figures: Record, record: Record, **run: Any) -> Record:
    about = {"_machine": record["machine"], "_versions": record["versions"]}
    return {"cell": cell, **figures, "run": {**run_of(record, **run), **about}}


def ablation() -> None:
    record = read("ablation")
    results = record["results"]
    sizes = {"n_features": results["n_features"], "n_train": results["learnt"], "n_valid": results["tried"]}
    ridges = {"small_mols": [1e-6, 1e-5, 1e-4]}
    entries = []
    for old in results["runs"]:
        cell = {name: old.pop(name) for name in ("molecule", "seed", "group", "name")}
        tried = ridges.get(cell["molecule"], results["ridges"])
        entries.append(entry(cell, {**errors(old), **sizes, "ridges": tried}, record))
    write("ablation", entries, record)


def accuracy() -> None:
    records = [read(f"accuracy_{name}") for name in ("ethanol", "inp", "silicon", "water")]
    entries = []
    for record in records:
        results = record["results"]
        main = results["main"]
        kernels = main.pop("kernels")
        figures = {"source": results["data"], **main}
        figures |= {name: results[name] for name in ("know_nothing", "bars", "bars_met") if name in results}
        cell = {"data": record["benchmark"].removeprefix("accuracy_"),
                "n_features": main["recipe"]["features"]["n_features"]}  # fmt: skip
        entries.append(entry(cell, figures, record, kernels=kernels))
    write("accuracy", entries, *records)


def choice() -> None:
    """The grid and the default recipe were kept from earlier runs: git tells which."""
    record = read("choice_4096_250")
    path = "benchmarks/results/choice_4096_250.json"
    git = lambda *words: subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout  # noqa: E731
    commits = git("log", "--format=%H", "--", path).split()
    history = [json.loads(git("show", f"{commit}:{path}")) for commit in commits]
    entries = []
    for name, found in record["results"].items():
        cell = {"data": name, "n_train": 250, "n_features": 4096}
        figures = {
            **errors(found["errors"]),
            **{key: found[key] for key in ("chosen", "predicted", "seconds", "choice")},
        }
        entries.append(entry({**cell, "stage": "choice"}, figures, record, commit=found["measured_at"]))
        # the last run that measured them, and did not take them over
        measured = next(
            old for old in history if name in old["command"].split() and "--keep-grid" not in old["command"]
        )
        assert measured["results"][name]["grid"] == found["grid"]
        assert measured["results"][name]["default"] == found["default"]
        at = measured["results"][name]["measured_at"]
        entries.append(entry({**cell, "stage": "default"}, errors(found["default"]), measured, commit=at))
        grid = [errors(point) for point in found["grid"]]
        entries.append(entry({**cell, "stage": "grid"}, {"grid": grid}, measured, commit=at))
    write("choice", entries, record)


def distributed() -> None:
    record = read("distributed_ethanol_4096")
    runs = record["results"]["runs"]
    cell = {"molecule": "ethanol", "n_train": 600, "n_features": record["results"]["features"]}
    entries = [
        entry({**cell, "ranks": ranks}, runs[name], record) for ranks, name in ((2, "2 ranks"), (1, "one process"))
    ]
    write("distributed", entries, record)


def exact() -> None:
    record = read("exact_ethanol_300")
    results = record["results"]
    entries = []
    for method, figures in results["methods"].items():
        more = {"kernelforge": results["kernelforge"]} if method == "GPR, angular pair" else {}
        cell = {"molecule": results["molecule"], "n_train": results["structures"], "method": method}
        entries.append(entry(cell, {**figures, **more}, record))
    write("exact", entries, record)


def feature_maps() -> None:
    record = read("feature_maps")
    entries = []
    for result in record["results"]:
        case = result["case"]
        for seed in range(case["seeds"]):
            for method in ("sorf", "rff", "orf"):
                cell = {"molecule": case["molecule"], "n_train": case["structures"], "n_features": case["n_features"],
                        "method": method, "seed": seed}  # fmt: skip
                entries.append(entry(cell, errors(result["runs"][method][seed]), record))
    write("feature_maps", entries, record)


def gram_precision() -> None:
    record = read("gram_precision_ethanol_4096")
    results = record["results"]
    cell = {"molecule": results["molecule"], "n_train": results["structures"],
            "n_features": results["recipe"]["features"]["n_features"]}  # fmt: skip
    entries = []
    for mode, found in results["modes"].items():
        mae = {ridge: None if one is None else errors(one) for ridge, one in found["mae"].items()}
        entries.append(entry({**cell, "mode": mode}, {"recipe": results["recipe"], **found, "mae": mae}, record))
    entries.append(entry({**cell, "mode": "rates"}, {"gflops": results["rates_gflops"]}, record))
    for one in entries:
        one |= {"note": results["note"], "run": one.pop("run")}
    write("gram_precision", entries, record)


def iterative() -> None:
    records = [read(f"iterative_aspirin_{n}") for n in (32768, 131072)]
    entries = []
    for record in records:
        found = dict(record["results"])
        cell = {"molecule": found.pop("molecule"), "n_train": found.pop("structures"),
                "n_features": found["recipe"]["features"]["n_features"], "solver": "iterative"}  # fmt: skip
        entries.append(entry(cell, found, record))
    write("iterative", entries, *records)


def monte_carlo() -> None:
    compared = read("monte_carlo")
    names = ("forces-series", "energies-pair", "energies-series", "forces-pair")
    records = [read(f"monte_carlo_{name}") for name in names]
    entries = []
    for name, record in zip(names, records, strict=True):
        results = record["results"]
        history = results["history"]
        about = {"start": results["search"]} | {key: results[key] for key in ("data", "variance", "chance", "ridges")}
        assert history[0]["point"] == results["first"]
        for last in range(50, len(history), 50):
            portion = history[0 if last == 50 else last - 49 : last + 1]
            best = min(history[: last + 1], key=lambda trial: trial["loss"])["point"]
            entries.append(entry({"search": name, "trials": last}, {**about, "best": best, "history": portion}, record))
        assert best == results["best"]
        assert sum(len(one["history"]) for one in entries if one["cell"]["search"] == name) == len(history)
    write("monte_carlo", entries, *records)
    entries = []
    for name, cases in compared["results"].items():
        for data, of in cases.items():
            case = of["case"]
            about = {key: case[key] for key in ("sizes", "n_features", "ridges", "seeds")}
            for which in ("first", "best"):
                found = errors(of[which])
                found["parameters"] = found.pop("point")
                entries.append(entry({"search": name, "data": data, "point": which}, {**found, **about}, compared))
    compared["benchmark"] = "monte_carlo_errors"  # its old file was replaced above
    write("monte_carlo_errors", entries, compared)


def out_of_core() -> None:
    record = read("out_of_core_ethanol_32768")
    found = dict(record["results"])
    cell = {"molecule": "ethanol", "n_train": found.pop("structures"), "n_features": 32768, "memory": "4GiB"}
    write("out_of_core", [entry(cell, found, record)], record)


def precision() -> None:
    record = read("precision")
    results = record["results"]
    entries = []
    for name, found in results["fits"].items():
        figures = {"n_train": results["structures"], "n_features": results["n_features"],
                   "fit_seconds": found.pop("seconds"), "errors": found}  # fmt: skip
        entries.append(entry({"stage": "fit", "precision": name}, figures, record))
    for name, found in results["predictions"].items():
        entries.append(entry({"stage": "prediction", "precision": name}, found, record))
    write("precision", entries, record)


def prediction() -> None:
    record = read("prediction")
    results = record["results"]
    new = lambda name: name.replace("water of 12 000 atoms", "water")  # noqa: E731
    batches = {new(name): one["µs per atom"] for name, one in results.items()
               if isinstance(one, dict) and "µs per atom" in one}  # fmt: skip
    one = {name.removeprefix("one aspirin, "): {kind[:-4]: time for kind, time in times.items()}
           for name, times in results.items() if name.startswith("one aspirin, ")}  # fmt: skip
    keys = {"atoms": "atoms", "µs per atom": "us_per_atom", "KiB per atom": "kib_per_atom",
            "of it the list": "list_kib_per_atom"}  # fmt: skip
    boxes = [{keys[key]: value for key, value in box.items()} for box in results["growing boxes of water, skin 0.5 Å"]]
    figures: dict[str, Record] = {
        "batches": {"cosine_us_per_atom": results["torch.cos, µs per atom"], "us_per_atom": batches,
                    "times_cosine": {new(name): results[name]["times torch.cos"] for name in results
                                     if new(name) in batches}},
        "one aspirin": {"milliseconds": one},
        "growing boxes": {"boxes": boxes, "skin": 0.5},
    }  # fmt: skip
    entries = [entry({"what": what, "n_features": 16384}, found, record) for what, found in figures.items()]
    write("prediction", entries, record)


def ranks() -> None:
    record = read("ranks")
    entries = [
        entry({"data": name, "rank": found["rank"]}, {k: v for k, v in found.items() if k != "rank"}, record)
        for name, there in record["results"].items()
        for found in there
    ]
    write("ranks", entries, record)


def representation() -> None:
    record = read("representation")
    entries = []
    for name, time in record["results"]["us_per_atom"].items():
        program, _, kind = name.partition(", ")
        figures = {"us_per_atom": time, "molecules": record["results"]["molecules"][program]}
        entries.append(entry({"program": program, "precision": kind or "float64"}, figures, record))
    write("representation", entries, record)


def ridges() -> None:
    record = read("ridges")
    entries = []
    for name, found in record["results"].items():
        for point in found["points"]:
            cell = {"data": name, "n_train": point["structures"], "n_features": point["features"]}
            both = dict(zip((ENERGY, FORCE), point["errors"], strict=False))
            figures = {"log10_ridge": point["log10_ridge"], **both, "sigma": found["sigma"], "power": found["power"]}
            entries.append(entry(cell, figures, record))
    write("ridges", entries, record)


def rivals() -> None:
    record = read("rivals")
    results = record["results"]
    peer = {"kernelforge": {"peer": f"kernelforge {results['kernelforge']}"}}
    at_once = {"qml-lightning": 500, "kernelforge": 5}
    entries = [
        entry({"program": program, "n_features": results["n_features"]},
              {"us_per_atom": time, "molecules": at_once[program], **peer.get(program, {})}, record)
        for program, time in results["us_per_atom"].items()
    ]  # fmt: skip
    write("rivals", entries, record)


def training() -> None:
    records = [read(f"training_{name}") for name in ("aspirin_8192", "aspirin_16384", "ethanol_16384")]
    entries = []
    for record in records:
        found = dict(record["results"])
        cell = {"molecule": found.pop("molecule"), "n_train": found.pop("structures"),
                "n_features": found["recipe"]["features"]["n_features"]}  # fmt: skip
        entries.append(entry(cell, found, record))
    write("training", entries, *records)


def paper() -> None:
    """Result files that have cells already: headlines are made from the entries now."""
    for path in FOLDER.glob("*.json"):
        record = read(path.stem)
        if record.pop("headline", None) is not None and "cell" in record["results"][0]:
            path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for convert in (
        ablation, accuracy, choice, distributed, exact, feature_maps, gram_precision, iterative, monte_carlo,
        out_of_core, precision, prediction, ranks, representation, ridges, rivals, training, paper,
    ):  # fmt: skip
        convert()
