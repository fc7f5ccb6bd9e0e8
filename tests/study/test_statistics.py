"""Statistics of data before training: counted by hand, and what is wrong is named with its frame."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from ase.build import bulk
from ase.cell import Cell
from rich.console import Console

from qml_lightning.atoms.dataset import concatenate
from qml_lightning.cli import main
from qml_lightning.report.data_page import data_page, references_advice
from qml_lightning.report.drawing import histogram, ticks
from qml_lightning.study.statistics import statistics_of
from small_models import crystals, labelled, molecules


def test_numbers_are_those_of_the_data():
    data = crystals(8)
    found = statistics_of(data)
    assert found.structures == 8
    assert found.elements == {"Cu": 24, "Au": 8}
    assert found.compositions == {"AuCu3": 8}
    assert found.labels == {"energies": 8, "forces": 8, "stress": 8}
    assert found.periodic == {"crystals and liquids": 8}
    lengths = data.labels.forces.norm(dim=1)
    assert found.forces.mean == pytest.approx(float(lengths.mean()))
    assert found.largest_forces[0].value == pytest.approx(float(lengths.max()))
    atom = int(lengths.argmax())
    assert found.largest_forces[0].where.startswith(f"structure {atom // 4}, atom {atom % 4} (")
    # one atom of each structure, and no structure twice
    assert len({one.where.partition(",")[0] for one in found.largest_forces}) == len(found.largest_forces) == 5
    edges, angles = zip(*(Cell(cell).cellpar().reshape(2, 3) for cell in data.structures.cells.numpy()))
    assert found.edges.quantiles[4] == pytest.approx(np.max(edges))
    assert found.angles.mean == pytest.approx(np.mean(angles))
    assert found.volumes.mean == pytest.approx(float((data.structures.volumes / 4).mean()))


def test_the_shortest_distance_is_found_in_its_structure():
    data = molecules(5)
    positions = data.structures.positions.clone()
    positions[9 * 3 + 1] = positions[9 * 3] + torch.tensor([0.7, 0.0, 0.0])  # C–C of the fourth molecule
    data = replace(data, structures=replace(data.structures, positions=positions))
    shortest = statistics_of(data).shortest["C–C"]
    assert shortest.value == pytest.approx(0.7)
    assert shortest.where == "structure 3"


def test_reference_energies_are_suggested_as_an_option_only_where_single_values_have_a_meaning():
    of_one_composition = statistics_of(crystals(4))
    assert "add free atoms" in references_advice(of_one_composition)
    assert "To fix them" not in references_advice(of_one_composition)
    copper = labelled([bulk("Cu", a=a, cubic=True) for a in (3.5, 3.6, 3.7)])
    assert "To fix them: --reference-energies=Cu=" in references_advice(
        statistics_of(concatenate([crystals(4), copper]))
    )


def test_repeated_structures_with_other_labels_are_told():
    data = molecules(3)
    other = replace(data, labels=replace(data.labels, energies=data.labels.energies + 0.5))
    lines = statistics_of(concatenate([data, other])).repeated
    assert lines[0].startswith("3 structures repeat an earlier one")
    assert "differ by up to 0.5 eV" in lines[1]


def test_data_without_labels_has_statistics_too():
    data = molecules(3)
    found = statistics_of(replace(data, labels=type(data.labels)()))
    assert found.energies is found.forces is found.edges is found.angles is None
    assert found.references == {}
    assert "Forces" not in data_page(found)


def test_the_page_is_one_file_that_fetches_nothing(tmp_path):
    data = replace(crystals(6), groups=np.array(["<b>bulk</b>"] * 6))
    page = data_page(statistics_of(data))
    assert "<b>bulk" not in page
    assert "&lt;b&gt;bulk" in page
    assert "http" not in page
    assert page.count("<svg") == 4  # energies, forces, volumes, lattice vectors; sizes are all the same


def test_a_long_tail_is_cut_and_told():
    values = np.append(np.linspace(0, 1, 1000), [50.0])
    assert "5 of 1,001 values lie beyond the edges" in histogram(values, "x")
    assert histogram(np.ones(5), "x") == ""
    assert ticks(0.0, 1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_the_command_tells_the_same_in_text_json_and_html(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "ethanol:test@0:30", "-o", "data.html"]) == 0
    out = capsys.readouterr().out
    assert "C2H6O 30" in out
    assert "largest force" in out
    assert "<svg" in (tmp_path / "data.html").read_text()
    assert main(["data", "ethanol:test@0:30", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["labels"] == {"energies": 30, "forces": 30}
    assert "values" not in told["forces"]
    assert main(["data", "ethanol:test@0:3", "-o", "data.png"]) == 2


@pytest.mark.parametrize("width", [80, 120])
def test_no_column_of_the_tables_is_lost_in_a_narrow_terminal(width):
    from qml_lightning.cli.data import _tables

    console = Console(width=width, file=io.StringIO())
    console.print(*_tables(statistics_of(crystals(6)), width))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for name in ("energy (eV/atom)", "lattice vector (Å)", "largest"):
        assert any(name in line for line in lines)
    assert any("std. dev." in line for line in lines) == (width == 120)
