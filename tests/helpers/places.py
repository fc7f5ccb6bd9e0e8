"""Folders that tests look into."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the repository
HELPERS = Path(__file__).resolve().parent
SHARED_DATA = ROOT.parent / "shared" / "data"  # public data sets, which a machine may lack
