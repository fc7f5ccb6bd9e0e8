"""Units of energy and length: eV and Å inside the package; others are converted by the readers, never guessed."""

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
GPA = 0.006241509125883258  # eV/Å³
STRESS_IN_EV_PER_ANGSTROM3 = {
    "eV/Å³": 1.0,
    "GPa": GPA,
    "kbar": 0.1 * GPA,
    "bar": 1e-4 * GPA,
    "MPa": 1e-3 * GPA,
    "Pa": 1e-9 * GPA,
    "Hartree/Bohr³": ENERGY_IN_EV["Hartree"] / LENGTH_IN_ANGSTROM["Bohr"] ** 3,
    "Rydberg/Bohr³": ENERGY_IN_EV["Rydberg"] / LENGTH_IN_ANGSTROM["Bohr"] ** 3,
}

# Short names that people write, beside the names above in any case.
_SHORT = {
    "kcal": "kcal/mol", "kj": "kJ/mol", "ha": "Hartree", "ry": "Rydberg", "angstrom": "Å", "ang": "Å", "a": "Å",
}  # fmt: skip
_ALIASES = {name.lower(): name for name in (*ENERGY_IN_EV, *LENGTH_IN_ANGSTROM)} | _SHORT


@dataclass(frozen=True)
class Units:
    """Units of the numbers in a file; forces are energy per length, stress is energy per length³.

    `force` and `stress` are for files that mix units: Hartree and Å with Hartree/Bohr, or eV and Å with kbar.
    """

    energy: str
    length: str = "Å"
    force: str = ""  # such as Hartree/Bohr; empty: energy per length
    stress: str = ""  # such as kbar, or -kbar where compression is positive; empty: energy per length³

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
        force, stress = self.force or f"{self.energy}/{self.length}", f", {self.stress}" if self.stress else ""
        return f"{self.energy}, {force}{stress} and {self.length}"

    @property
    def stress_in_ev_per_angstrom3(self) -> float:
        if self.stress:
            sign = -1.0 if self.stress.startswith("-") else 1.0
            return sign * STRESS_IN_EV_PER_ANGSTROM3[self.stress.removeprefix("-")]
        return self.energy_in_ev / self.length_in_angstrom**3


INTERNAL = Units("eV", "Å")


def _named(text: str, table: dict[str, float], kind: str) -> str:
    name = _ALIASES.get(text.strip().lower())
    if name is None or name not in table:
        raise InputError(f"Unknown {kind} unit {text!r}. Known are {', '.join(table)}.")
    return name


def energy_unit_named(text: str) -> str:
    """Name of the energy unit that a person wrote, such as `kcal/mol`, `Hartree`, `eV`."""
    return _named(text, ENERGY_IN_EV, "energy")


def length_unit_named(text: str) -> str:
    """Name of the length unit that a person wrote: `Å`, `Bohr`, `nm`."""
    return _named(text, LENGTH_IN_ANGSTROM, "length")


def force_unit_named(text: str) -> str:
    """Name of the force unit that a person wrote as energy/length, such as `Hartree/Bohr`."""
    energy, slash, length = text.strip().rpartition("/")
    if not slash:
        raise InputError(f"Unknown force unit {text!r}. Write energy/length, such as Hartree/Bohr or kcal/mol/Å.")
    return f"{energy_unit_named(energy)}/{length_unit_named(length)}"


def stress_unit_named(text: str) -> str:
    """Name of the stress unit that a person wrote, such as `kbar`, `GPa`, `eV/A^3`; a minus sign in front is kept."""
    sign = "-" if text.strip().startswith("-") else ""
    plain = text.strip().removeprefix("-").lower().replace("^", "").replace("**", "").replace("³", "3")
    for long, short in (("angstrom", "å"), ("ang", "å"), ("a3", "å3"), ("ha/", "hartree/"), ("ry/", "rydberg/")):
        plain = plain.replace(long, short)
    known = {name.lower().replace("³", "3"): name for name in STRESS_IN_EV_PER_ANGSTROM3} | {"kb": "kbar"}
    if plain not in known:
        raise InputError(
            f"Unknown stress unit {text!r}. Known are {', '.join(STRESS_IN_EV_PER_ANGSTROM3)}; where compression is "
            "positive, write a minus sign in front, such as -kbar."
        )
    return sign + known[plain]
