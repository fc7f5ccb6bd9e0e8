"""Files of commit df681ca, made with its package: `git archive df681ca src | tar x -C OLD`, PYTHONPATH=OLD/src."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import qml_lightning as q
from qml_lightning import design, normal

HERE = Path(__file__).parent


class Stop(Exception):
    """Raised by a progress that has seen enough."""


def stopping(stage, step):
    """Progress that stops a fit in a stage of its work, at a step."""

    def watch(what, done, *_):
        if what == stage and done >= step:
            raise Stop

    return watch


design.BATCH_ATOMS, normal.BUFFER_BYTES = 45, 8 * 32 * 135  # five structures at once, and then their product
data = q.load_dataset("ethanol:train@0:20")
paper = q.recipes.PAPER
small = {"n_radial2": 4, "n_radial3": 4}
recipe = replace(
    paper,
    rank=16,
    ridge=1e-3,
    representation=replace(paper.representation, **small),
    features=replace(paper.features, n_features=32),
    solver=replace(paper.solver, method="direct", preconditioner_features=16, held_out=0.0, tolerance=1e-9),
)
model = q.fit(data, recipe, kernels="reference", equations=HERE / "fit.equations", overwrite=True)
model.save(HERE / "model.safetensors", overwrite=True)
for solver, name, stop in (
    ("direct", "fit.checkpoint", stopping("equations", 15)),
    ("iterative", "fit.restart", stopping("iterations", 6)),
):
    settings = replace(recipe, solver=replace(recipe.solver, method=solver))
    (HERE / name).unlink(missing_ok=True)
    with suppress(Stop):
        q.fit(
            data,
            settings,
            basis=model,
            kernels="reference",
            checkpoint=HERE / name,
            checkpoint_seconds=0.0,
            progress=stop,
        )
