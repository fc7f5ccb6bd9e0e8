"""Cases of the attack: sound files, one of them damaged by a seed, and the command that reads it."""

from __future__ import annotations

import hashlib
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import damage

from altered_files import alter

FAST = ["--features", "64", "--rank", "32", "--ridge", "1e-6", "--no-label-check", "--recipe", "default"]
DATA = "ethanol:train@0:12"
PROPERTIES = ["properties", "p.npz", "--property", "size", "--features", "64", "--rank", "32", "--recipe", "default"]
# Kind of file → how often it is attacked. "old": without a checksum, as earlier versions wrote it.
KINDS = {
    "model": 24, "old model": 8, "committee": 8, "old committee": 6, "properties": 6, "old properties": 4,
    "equations": 14, "old equations": 5, "checkpoint": 8, "recipe": 2,
    "data .extxyz": 11, "data .xyz": 4, "data .npz": 6,
}  # fmt: skip
# "committee": a model with members for uncertainties; "properties": a model of other labels than energies.
NAMES = {
    "model": "m.safetensors", "committee": "u.safetensors", "properties": "p.safetensors", "equations": "m.eq",
    "checkpoint": "c.checkpoint", "recipe": "r.json",
    "data .extxyz": "d.extxyz", "data .xyz": "d.xyz", "data .npz": "d.npz",
}  # fmt: skip
# File with a model → options of the prediction.
MODELS: dict[str, list[str]] = {"m.safetensors": [], "u.safetensors": ["--uncertainty"], "p.safetensors": []}
# Kinds whose damage must be refused or change nothing: a checksum covers every byte.
GUARDED = ("model", "committee", "properties", "equations", "checkpoint")
# Exit codes that the documentation gives to bad input.
EXPLAINED = (2, 3, 4, 5)


@dataclass(frozen=True)
class Case:
    """One damaged file."""

    kind: str
    number: int
    seed: int

    @classmethod
    def of(cls, seed: int, number: int) -> Case:
        kinds = random.Random(f"{seed} kind {number}").choices(list(KINDS), list(KINDS.values()))
        return cls(kinds[0], number, seed)

    def prepare(self, victims: Path, folder: Path) -> list[str]:
        """Put the sound files into `folder`, damage one, and return the command that reads it."""
        folder.mkdir(parents=True)
        for path in victims.iterdir():
            shutil.copy(path, folder)
        old = self.kind.startswith("old ")
        name = NAMES[self.kind.removeprefix("old ")]
        if old:
            alter(folder / name, lambda header: None, checksum="none")
        chance = random.Random(f"{self.seed} damage {self.number}")
        how = damage.TEXT if name.endswith(("xyz", ".json")) else damage.BYTES
        if old:
            how = damage.HEADERS  # damage to its numbers cannot be seen: only strange headers are of interest
        chance.choice(how)(folder / name, chance)
        return self._command(name, chance)

    def _command(self, name: str, chance: random.Random) -> list[str]:
        data = ["--energy-unit", "eV"] if name.startswith("d.") else []
        if self.kind.startswith("old ") and chance.random() < 0.4:
            return ["info", name]
        if name in MODELS:
            return ["predict", name, "in.extxyz", "-o", "out.extxyz", *MODELS[name]]
        if name == "m.eq":
            return ["update", "m.safetensors", "--equations", name, "-o", "out.safetensors"]
        if name == "c.checkpoint":
            return ["train", DATA, "-m", "out.safetensors", "--checkpoint", name, "--resume", *FAST]
        if name == "r.json":
            return ["train", DATA, "-m", "out.safetensors", "--recipe", name, "--no-label-check"]
        if chance.random() < 0.5:
            return ["predict", "m.safetensors", name, "-o", "out.extxyz", *data]
        return ["train", name, "-m", "out.safetensors", *data, *FAST]


@dataclass(frozen=True)
class Verdict:
    """How a case ended."""

    kind: str
    name: str
    outcome: str
    said: str = ""


def judge(case: Case, command: list[str], folder: Path, wanted: dict[str, str], code: int, said: str) -> Verdict:
    """The verdict on a command that ended with `code` and said that."""
    name = f"case {case.number} ({' '.join(command)})"
    if code in EXPLAINED and said.strip() and "This is a bug" not in said and "Traceback" not in said:
        left = [path.name for path in folder.iterdir() if path.name.startswith(("out.", "."))]
        return Verdict(case.kind, name, "lost" if left else "refused in words", f"left behind: {left}\n{said}")
    if code != 0:
        return Verdict(case.kind, name, "unexplained exit", f"exit code {code}: {said}")
    if case.kind in wanted:
        same = result_of(folder) == wanted[case.kind]
        return Verdict(case.kind, name, "unharmed" if same else "silent change", said)
    return Verdict(case.kind, name, "works, other numbers", said)


def result_of(folder: Path) -> str:
    """Digest of the numbers that a command wrote."""
    text, model = folder / "out.extxyz", folder / "out.safetensors"
    if text.exists():
        return hashlib.sha256(text.read_bytes()).hexdigest()
    from safetensors.torch import load_file

    tensors = load_file(model)
    return hashlib.sha256(b"".join(tensors[name].numpy().tobytes() for name in ("weights", "baseline"))).hexdigest()


def make_victims(folder: Path) -> Path:
    """Sound files of every kind, from small fits, made by the package itself in another process."""
    import subprocess
    import sys

    folder.mkdir(parents=True)
    subprocess.run(
        [sys.executable, str(Path(__file__).with_name("victims.py")), str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder
