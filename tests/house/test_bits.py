"""The table of hashes (`make bits`) has all fits that the command makes."""

from __future__ import annotations

import ast
import json

from places import ROOT


def test_every_machine_of_the_table_has_a_hash_of_each_fit():
    tree = ast.parse((ROOT / "tests" / "bits.py").read_text(encoding="utf-8"))
    (fits,) = (
        node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "FITS"
    )
    assert isinstance(fits, ast.Dict)
    names = {ast.literal_eval(key) for key in fits.keys if key is not None}
    table = json.loads((ROOT / "tests" / "data" / "bits.json").read_text(encoding="utf-8"))
    assert table
    assert all(hashes.keys() == names for hashes in table.values())
