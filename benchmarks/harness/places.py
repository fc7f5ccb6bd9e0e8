"""Folders and files that the benchmarks read and write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = ROOT / "benchmarks" / "figures"
TRIED = ROOT / "build" / "benchmarks"  # results and pictures of quick runs
# The first folder of the variable that the package itself reads, or the one beside the repository.
SHARED_DATA = Path(os.environ.get("QML_LIGHTNING_DATA", "").partition(os.pathsep)[0] or ROOT.parent / "shared" / "data")
# Figures of the paper and of other programs, with their sources.
PUBLISHED: dict[str, Any] = json.loads((ROOT / "benchmarks" / "published.json").read_text(encoding="utf-8"))
# How tables for readers name the paper.
CITED, SHORT = "Browning et al. 2022", "Browning et al."
