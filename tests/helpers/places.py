"""Folders that tests look into."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the repository
HELPERS = Path(__file__).resolve().parent
HELPERS_FOUND = os.pathsep.join(filter(None, (str(HELPERS), os.environ.get("PYTHONPATH"))))  # for other processes
SHARED_DATA = ROOT.parent / "shared" / "data"  # public data sets, which a machine may lack
