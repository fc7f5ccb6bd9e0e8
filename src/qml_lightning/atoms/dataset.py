"""Data sets: structures with their labels and their origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..machine.display import facts_html, one_line
from .structures import Index, Labels, Structures, label_shapes, offsets_from_counts
from .units import INTERNAL, Units


@dataclass(frozen=True)
class Source:
    """Origin of a data set, kept in model files."""

    name: str  # catalogue name, or the file name
    path: str  # in this process; files keep the name alone
    sha256: str  # of the file; of the arrays where there is none
    units: Units  # of the file; a Dataset is in eV and Å
    n_structures: int  # in this data set, after the split and every draw
    split: str = ""  # stored split, or slice such as @0:100
    citation: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)  # label → the key of the file it was read from
    notes: tuple[str, ...] = ()  # decisions of the reader that a person should know
    varies: tuple[str, ...] = ()  # charge, spin …: states that are not modelled and differ between the structures
    draws: tuple[str, ...] = ()  # subsample(100, seed=1) …
    parts: tuple[Source, ...] = ()  # of a concatenation
    baseline: str = ""  # cheaper method, a column or a calculator, that was subtracted from the labels; "": none

    def as_dict(self) -> dict[str, object]:
        """Dictionaries, lists, texts and numbers, for JSON. Only the last part of the path is kept, the file name.

        Models are passed on, and other people need not see the folders of whoever made them. The checksum tells which
        file it was.
        """
        return {
            **asdict(self),
            "path": PurePath(self.path).name,
            "keys": dict(self.keys),
            "notes": list(self.notes),
            "varies": list(self.varies),
            "draws": list(self.draws),
            "parts": [part.as_dict() for part in self.parts],
        }


@dataclass(frozen=True)
class Dataset:
    """Structures with their labels, in eV and Å, and their origin."""

    structures: Structures
    labels: Labels
    source: Source
    frames: np.ndarray | None = None  # (structures,) number of each in its file, from 0; None: there is no file
    groups: np.ndarray | None = None  # (structures,) name of the group of each (config_type), "" for none
    files: np.ndarray | None = None  # (structures,) name of the file of each; None: there is one file, or none
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)  # further numbers by name, (structures, …)
    baseline: Tensor | None = None  # (structures,) eV, energies of a cheaper method that are not in the labels any more

    def __len__(self) -> int:
        return len(self.structures)

    def __repr__(self) -> str:
        facts = self._facts()
        return one_line("Dataset", [facts["data"], f"{len(self):,} structures", facts["elements"], facts["labels"]])

    def _repr_html_(self) -> str:
        return facts_html("Dataset", self._facts())

    def _facts(self) -> dict[str, str]:
        counts, periodic = self.structures.counts, int(self.structures.periodic.any(1).sum())
        sizes = sorted({int(counts.min()), int(counts.max())}) if len(self) else []
        split = f":{self.source.split}" if self.source.split else ""
        names = [] if self.groups is None else sorted({str(name) for name in self.groups} - {""})
        return {
            "data": f"{self.source.name}{split}",
            "structures": f"{len(self):,}",
            "atoms": f"{self.structures.n_atoms:,}, {' to '.join(map(str, sizes))} in a structure",
            "elements": self.structures.symbols,
            "labels": " ".join(self.labels.kinds) or "no labels",
            "periodic": "" if periodic == 0 else "all" if periodic == len(self) else f"{periodic:,} structures",
            "groups": ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else ""),
            "drawn": ", ".join(self.source.draws),
            "citation": self.source.citation.split("\n")[0],
        }

    def name_of(self, structure: int) -> str:
        """Name of a structure for a person: `frame 12`, counted from 0 in its file, or `frame 12 of run.xyz`."""
        if self.frames is None:
            return f"structure {structure}"
        file = "" if self.files is None else f" of {self.files[structure]}"
        return f"frame {int(self.frames[structure])}{file}"

    def select(self, index: Index) -> Dataset:
        """Structures at `index` with their labels, in that order; a mask of booleans selects where it is true."""
        rows = np.asarray(index)
        if rows.dtype == bool and rows.shape == (len(self),):
            rows = rows.nonzero()[0]
        if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= len(self))):
            raise InputError(f"Wanted row numbers from 0 to {len(self) - 1}, got {index!r}.")
        return self._drawn(rows.astype(np.int64), f"select({len(rows)} rows)")

    def subsample(self, n: int, seed: int) -> Dataset:
        """`n` structures drawn without replacement; a smaller draw with the same seed is the start of a larger one."""
        self._check_enough(n)
        return self._drawn(self._permutation(seed)[:n], f"subsample({n}, seed={seed})")

    def split(self, sizes: tuple[int, int], seed: int) -> tuple[Dataset, Dataset]:
        """Two disjoint draws of the given sizes, such as (training, test).

        The second does not depend on the size of the first: a learning curve keeps its test set.
        """
        first, second = sizes
        self._check_enough(first, second)
        order, text = self._permutation(seed), f"split(({first}, {second}), seed={seed})"
        return self._drawn(order[:first], f"{text}[0]"), self._drawn(order[len(self) - second :], f"{text}[1]")

    def _permutation(self, seed: int) -> np.ndarray:
        if not 0 <= seed < 2**32:
            raise InputError(f"A seed is a number from 0 to 2^32 − 1, got {seed}.")
        # RandomState: its stream never changes, so a seed names the same structures with every future numpy
        return np.random.RandomState(seed).permutation(len(self))

    def _check_enough(self, *sizes: int) -> None:
        wanted = " + ".join(map(str, sizes))
        if min(sizes) < 1:
            raise InputError(f"Wanted {wanted} structures. Draw at least one each time.")
        if sum(sizes) > len(self):
            raise InputError(f"Wanted {wanted} structures, {self.source.name} has {len(self)}. Ask for fewer.")

    def _drawn(self, index: np.ndarray, how: str) -> Dataset:
        source = replace(self.source, n_structures=len(index), draws=(*self.source.draws, how))
        labels = self.labels.select(torch.from_numpy(index), self.structures.offsets)
        kept = {name: getattr(self, name) for name in ("frames", "groups", "files")}
        kept = {name: None if values is None else values[index] for name, values in kept.items()}
        columns = {name: values[index] for name, values in self.columns.items()}
        baseline = None if self.baseline is None else self.baseline[torch.from_numpy(index)]
        return Dataset(self.structures.select(index), labels, source, **kept, columns=columns, baseline=baseline)


def concatenate(datasets: Sequence[Dataset], name: str = "") -> Dataset:
    """All structures in one data set. A label that only some of them have is NaN for the others.

    `name`: of the whole; by default the names of the parts.
    """
    if not datasets:
        raise InputError("There is no data set to concatenate. Give at least one.")
    if len(datasets) == 1:
        return datasets[0]
    arrays = {
        name: torch.cat([getattr(data.structures, name) for data in datasets])
        for name in ("numbers", "positions", "cells", "periodic")
    }
    counts = torch.cat([data.structures.counts for data in datasets])
    sources = tuple(data.source for data in datasets)
    if len(baselines := {source.baseline for source in sources}) > 1:
        named = " and ".join(sorted(repr(name) for name in baselines))
        raise InputError(f"Different baselines were subtracted from the labels: {named}. Subtract the same from all.")
    energies = [data.baseline for data in datasets if data.baseline is not None]
    return Dataset(
        Structures(offsets=offsets_from_counts(counts), **arrays),
        Labels(*(_label_of_all(kind, datasets) for kind in ("energies", "forces", "stress"))),
        Source(
            name=name or " + ".join(source.name for source in sources),
            path="",
            sha256="",
            units=INTERNAL,
            n_structures=sum(map(len, datasets)),
            citation="\n".join(dict.fromkeys(source.citation for source in sources if source.citation)),
            varies=tuple(dict.fromkeys(state for source in sources for state in source.varies)),
            parts=sources,
            baseline=sources[0].baseline,
        ),
        frames=None
        if any(data.frames is None for data in datasets)
        else np.concatenate([data.frames for data in datasets if data.frames is not None]),
        groups=None
        if all(data.groups is None for data in datasets)
        else np.concatenate([np.full(len(data), "") if data.groups is None else data.groups for data in datasets]),
        files=np.concatenate(
            [np.full(len(data), data.source.name) if data.files is None else data.files for data in datasets]
        ),
        columns={
            name: np.concatenate([data.columns[name] for data in datasets])
            for name in datasets[0].columns
            if all(name in data.columns for data in datasets)
        },
        baseline=torch.cat(energies) if len(energies) == len(datasets) else None,
    )


def _label_of_all(kind: str, datasets: Sequence[Dataset]) -> Tensor | None:
    known = [getattr(data.labels, kind) for data in datasets]
    if all(values is None for values in known):
        return None
    shapes = [label_shapes(data.structures)[kind] for data in datasets]
    unknown = [torch.full(shape, torch.nan, dtype=torch.float64) for shape in shapes]
    return torch.cat([nan if values is None else values for values, nan in zip(known, unknown, strict=True)])
