"""Arrays of a file that are read, and those that are not, are told in a plain line, unless they may matter."""

from __future__ import annotations

from qml_lightning.datasets.usage import is_plain, usage_note


def test_only_arrays_that_look_like_labels_deserve_a_warning():
    plain = usage_note({"energies": "energy"}, ["tags", "magmoms", "move_mask"])[0]
    assert plain == "read energy; not read: magmoms, move_mask, tags"
    assert is_plain(plain)
    for found in ("energy (file)", "dft_forces", "virial"):
        told = usage_note({"energies": "energy"}, ["a", "tags", found])[0]
        assert f"not read: {found}, a" in told
        assert not is_plain(told)
    assert not is_plain("3 of 4 frames have no energy (first: 2)")
    assert not is_plain(usage_note({}, ["tags"])[0])
