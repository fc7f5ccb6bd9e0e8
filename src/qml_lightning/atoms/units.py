"""Units: eV and Å inside, anything else is converted at the door and never guessed."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError

# CODATA 2018, the values ASE uses under the same name
ENERGY_IN_EV = {
    "eV": 1.0,
    "meV": 1e-3,
    "kcal/mol": 0.04336410390059322,
    "kJ/mol": 0.010364269574711573,
    "Hartree": 27.211386024367243,
    "Rydberg": 13.605693012183622,
}
LENGTH_IN_ANGSTROM = {"Å": 1.0, "Bohr": 0.5291772105638411, "nm": 10.0}

_ALIASES = {
    "ev": "eV",
    "mev": "meV",
    "kcal/mol": "kcal/mol",
    "kcal": "kcal/mol",
    "kj/mol": "kJ/mol",
    "kj": "kJ/mol",
    "hartree": "Hartree",
    "ha": "Hartree",
    "rydberg": "Rydberg",
    "ry": "Rydberg",
    "å": "Å",
    "angstrom": "Å",
    "ang": "Å",
    "a": "Å",
    "bohr": "Bohr",
    "nm": "nm",
}


@dataclass(frozen=True)
class Units:
    """What the numbers of a file are in; forces are energy per length, stress is energy per length³.

    `force` is for files that mix: Hartree and Å, but forces in Hartree/Bohr.
    """

    energy: str
    length: str = "Å"
    force: str = ""  # such as Hartree/Bohr; empty: energy per length

    @property
    def energy_in_ev(self) -> float:
        return ENERGY_IN_EV[self.energy]

    @property
    def length_in_angstrom(self) -> float:
        return LENGTH_IN_ANGSTROM[self.length]

    @property
    def force_in_ev_per_angstrom(self) -> float:
        energy, _, length = (self.force or f"{self.energy}/{self.length}").rpartition("/")
        return ENERGY_IN_EV[energy] / LENGTH_IN_ANGSTROM[length]

    def __str__(self) -> str:
        return f"{self.energy}, {self.force or f'{self.energy}/{self.length}'} and {self.length}"

    @property
    def stress_in_ev_per_angstrom3(self) -> float:
        return self.energy_in_ev / self.length_in_angstrom**3


INTERNAL = Units("eV", "Å")


def _named(text: str, table: dict[str, float], kind: str) -> str:
    name = _ALIASES.get(text.strip().lower())
    if name is None or name not in table:
        raise InputError(f"Unknown {kind} unit {text!r}. Known are {', '.join(table)}.")
    return name


def energy_unit_named(text: str) -> str:
    """`kcal/mol`, `Hartree`, `eV` … from what a person writes."""
    return _named(text, ENERGY_IN_EV, "energy")


def length_unit_named(text: str) -> str:
    """`Å`, `Bohr`, `nm` from what a person writes."""
    return _named(text, LENGTH_IN_ANGSTROM, "length")


def force_unit_named(text: str) -> str:
    """`Hartree/Bohr` … from what a person writes: an energy, a slash, a length."""
    energy, slash, length = text.strip().rpartition("/")
    if not slash:
        raise InputError(f"Unknown force unit {text!r}. Write energy/length, such as Hartree/Bohr or kcal/mol/Å.")
    return f"{energy_unit_named(energy)}/{length_unit_named(length)}"


def units_named(energy: str, length: str = "Å", force: str = "") -> Units:
    """Units from what a person writes: `kcal/mol`, `Hartree`, `ev`; `Å`, `angstrom`, `bohr`; `Hartree/Bohr`."""
    return Units(energy_unit_named(energy), length_unit_named(length), force_unit_named(force) if force else "")
