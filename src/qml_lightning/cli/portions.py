"""Long steps of a command: prediction in portions with a progress bar, the label check, and fits that can resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, ModelError
from .screen import note, panel, progress

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ..atoms.structures import Structures
    from ..datasets import Dataset
    from ..model.metrics import Metrics
    from ..model.predictor import Prediction, Predictor
    from ..study.label_check import LabelReport

# Frames that a message names.
NAMED = 10
# Structures that a new model must predict before it is written.
FEW = 4
# Atoms in one portion: about a second of work.
PORTION = 2000


def predict_all(
    predictor: Predictor, structures: Structures, *, forces: bool, stress: bool, uncertainty: bool = False
) -> Prediction:
    """Prediction for all structures, with a progress bar."""
    from ..atoms.neighbours import check_distances, element_indices
    from ..atoms.structures import batches
    from ..model.predictor import Prediction

    # fail before the work, not midway; and name a structure by its number in the whole set, not in a portion
    element_indices(structures.numbers, predictor.basis.elements)
    check_distances(structures)
    parts: list[Prediction] = []
    wanted = {"forces": forces, "stress": stress, "uncertainty": uncertainty}
    with progress() as tell:
        tell("predicting", 0, len(structures))
        for index in batches(structures.counts, PORTION):
            parts.append(predictor.predict(structures.select(index), **wanted))
            tell("predicting", int(index[-1]) + 1, len(structures))
    whole = Prediction.joined(parts)
    _refuse_not_finite(whole, structures)
    return whole


def _refuse_not_finite(prediction: Prediction, structures: Structures) -> None:
    """Raise a ModelError that names the frames whose energy, forces, stress or uncertainty is not a finite number."""
    import torch

    of_structures = [prediction.energies, prediction.energy_uncertainty]
    if prediction.stress is not None:  # a structure without a volume has none
        of_structures.append(torch.where((structures.volumes > 0)[:, None, None], prediction.stress, 0.0))
    of_atoms = [prediction.forces, prediction.atom_energy_uncertainty, prediction.force_uncertainty]
    refuse_not_finite(structures, of_structures, of_atoms)


def refuse_not_finite(
    structures: Structures, of_structures: Iterable[Tensor | None], of_atoms: Iterable[Tensor | None] = ()
) -> None:
    """Raise a ModelError that names the frames with a number that is not finite."""
    import torch

    bad = torch.zeros(len(structures), dtype=torch.bool)
    for numbers in of_structures:
        if numbers is not None:
            bad |= ~numbers.reshape(len(bad), -1).isfinite().all(1)
    for numbers in of_atoms:
        if numbers is not None:
            bad[structures.structure_of_atom[~numbers.reshape(len(numbers), -1).isfinite().all(1)]] = True
    if frames := bad.nonzero()[:, 0].tolist():
        named = ", ".join(str(frame) for frame in frames[:NAMED]) + (" …" if len(frames) > NAMED else "")
        raise ModelError(
            f"{len(frames)} of {len(structures)} predictions are not finite: of frames {named} (counted from 0). The "
            "model is unusable, or these structures are far from all that it has learnt; nothing is written."
        )


def refuse_useless(predictor: Predictor, structures: Structures) -> None:
    """Raise a ModelError if a model that is about to be written gives no finite numbers for its first structures."""
    few = structures.select(range(min(FEW, len(structures))))
    _refuse_not_finite(predictor.predict(few), few)


def evaluate_all(predictor: Predictor, data: Dataset, *, for_report: bool = False) -> tuple[Metrics, Prediction, float]:
    """Errors on the labels of `data`, the predictions, and the seconds they took, with a progress bar.

    `for_report`: with uncertainties, if the model has a committee.
    """
    from ..model.metrics import compare

    labels, started = data.labels, time.perf_counter()
    prediction = predict_all(
        predictor,
        data.structures,
        forces=labels.forces is not None,
        stress=labels.stress is not None,
        uncertainty=for_report and predictor.potential.committee is not None,
    )
    seconds = time.perf_counter() - started
    return compare(data.structures, labels, prediction), prediction, seconds


def parts_of(
    dataset: Dataset, train_size: int | None, valid: str | None, seed: int, load: Callable[[str], Dataset]
) -> tuple[Dataset, Dataset | None]:
    """Structures to train on, and those to tell the errors on: held out by the seed, read from a file, or none."""
    part = held_part(valid)
    if part is None:
        held_out = None if valid is None else load(valid)
        return (dataset if train_size is None else dataset.subsample(train_size, seed)), held_out
    n = int(part) if part >= 1 else max(1, round(part * len(dataset)))
    return dataset.split((train_size or len(dataset) - n, n), seed)


def held_part(valid: str | None) -> float | None:
    """Part or number of structures to hold out; None if the text names data."""
    try:
        part = float(valid or "")
    except ValueError:
        return None
    if Path(str(valid)).exists():
        return None
    if not (0 < part < 1 or (part >= 1 and part == int(part))):
        raise InputError(f"--valid takes data, a part between 0 and 1 such as 0.1, or a whole number, got {valid}.")
    return part


def named_data(valid: str | None) -> list[str]:
    """Source of data that --valid names, if it names one."""
    return [valid] if valid and held_part(valid) is None else []


def refuse_two_kinds_of_energies(dataset: Dataset) -> None:
    """Raise an InputError if the energies are of two units or zeros: outliers cannot be told then."""
    from ..study.contradictions import split_energies

    if text := split_energies(dataset)[1]:
        raise _contradiction(dataset, text)


def _contradiction(dataset: Dataset, text: str) -> InputError:
    return InputError(
        f"The labels of {dataset.source.name} contradict each other.\n{text}\n"
        "Correct the data, or train anyway with --no-label-check."
    )


def check_labels(dataset: Dataset, device: torch.device) -> LabelReport | None:
    """Print a warning if labels do not seem to belong together; raise an InputError if that is certain.

    None if there is nothing to compare: the data set has labels of one kind only, and no structure twice.
    """
    from ..study.label_check import check_labels as check
    from ..study.stress_check import check_stress

    kinds = set(dataset.labels.kinds)
    found = check(dataset, device=device)
    if found.ok and not {"energies", "forces"} <= kinds and "stress" not in kinds:
        return None
    if not found.refuse and (stress := check_stress(dataset, device=device)).finding:
        found = replace(found, ok=False, refuse=stress.refuse, findings=(*found.findings, stress.finding))
    text = "\n".join(found.findings)
    if found.refuse:
        raise _contradiction(dataset, text)
    if not found.ok:
        panel("Warning", text, colour="yellow")
    return found


@contextmanager
def resumable(checkpoint: Path | None) -> Iterator[None]:
    """If the work fails and there is a checkpoint, print how to resume."""
    try:
        yield
    except InputError:
        raise  # the same command would fail again
    except BaseException:
        if checkpoint is not None and checkpoint.exists():
            note(f"The work up to the checkpoint {checkpoint} is saved. Give the same command again with --resume.")
        raise
