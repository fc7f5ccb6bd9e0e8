"""MACE: a network of the size of MACE-OFF small with random weights (the trained ones are a download), float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from peer import best_of, main, per_atom

CUTOFF, CHANNELS = 5.0, "96x0e"
MOST_ATOMS = 420  # at once


def predict(task: dict[str, Any], data: dict[str, np.ndarray]) -> dict[str, Any]:
    torch.serialization.add_safe_globals([slice])  # in a file of constants that e3nn 0.4.4 loads, and torch refuses
    from e3nn import o3
    from mace import data as mace_data
    from mace import modules
    from mace.tools import AtomicNumberTable, torch_geometric

    torch.set_num_threads(task["threads"])
    torch.set_default_dtype(torch.float32)
    numbers = data["numbers"].astype(int)
    elements = sorted(set(numbers.tolist()))
    model = modules.ScaleShiftMACE(
        r_max=CUTOFF, num_bessel=8, num_polynomial_cutoff=5, max_ell=3,
        interaction_cls=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
        interaction_cls_first=modules.interaction_classes["RealAgnosticResidualInteractionBlock"],
        num_interactions=2, num_elements=len(elements), hidden_irreps=o3.Irreps(CHANNELS),
        MLP_irreps=o3.Irreps("16x0e"),
        atomic_energies=np.zeros(len(elements)), avg_num_neighbors=15.0, atomic_numbers=elements, correlation=3,
        gate=torch.nn.functional.silu, atomic_inter_scale=1.0, atomic_inter_shift=0.0,
    )  # fmt: skip
    table = AtomicNumberTable(elements)
    cell = data.get("cell")
    options: dict[str, Any] = {} if cell is None else {"cell": cell, "pbc": (True, True, True)}

    def batches() -> Any:
        graphs = [
            mace_data.AtomicData.from_config(
                mace_data.Configuration(
                    atomic_numbers=numbers, positions=frame, properties={}, property_weights={}, **options
                ),
                z_table=table,
                cutoff=CUTOFF,
            )
            for frame in data["positions"].astype(float)
        ]
        size = max(1, MOST_ATOMS // len(numbers))
        return torch_geometric.dataloader.DataLoader(graphs, batch_size=size, shuffle=False, drop_last=False)

    def run() -> None:
        for batch in batches():
            model(batch.to_dict(), compute_force=True)

    return {**per_atom(best_of(run, 2), data), "options": f"{CHANNELS}, two layers, 5 Å, random weights, float32"}


if __name__ == "__main__":
    main(predict=predict)
