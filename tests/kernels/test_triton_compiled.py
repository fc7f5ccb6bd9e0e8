"""The kernels in Triton compiled for GPUs that are not here, as a GPU would have them compiled on first use."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from few_and_all import few_and_all
from places import HELPERS_FOUND

pytest.importorskip("triton", reason="Triton is not installed")

# In a process of its own: here Triton interprets its kernels.
PROGRAM = """
import json, sys
from gpu_launches import launches
from qml_lightning.kernels.triton.compile_ahead import compiled, distinct, within_limits

found = []
for launch in distinct(launches(sys.argv[2])):
    one = compiled(launch, int(sys.argv[1]))
    found.append({"name": one.name, "registers": one.registers, "instructions": len(one.instructions),
                  "reasons": list(within_limits(one))})
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("architecture", "which"),
    few_and_all(
        [(86, "quick")],
        [
            (architecture, which)
            for architecture in (80, 86, 90, 100, 120)
            for which in ("features", "pairs", "environments")
        ],
    ),
)
def test_kernels_fit_into_a_gpu_without_spilling(architecture, which, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": HELPERS_FOUND, "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(architecture), which], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert len(found) >= 3
    for one in found:
        assert not one["reasons"], one
        assert 0 < one["registers"] <= 255
        assert one["instructions"] > 20


def test_interpreted_kernels_are_not_compiled():
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("nothing is interpreted here")
    from gpu_launches import launches
    from qml_lightning.errors import InputError
    from qml_lightning.kernels.triton.compile_ahead import compiled

    with pytest.raises(InputError, match="Unset it"):
        compiled(launches("quick")[0], 86)


# Numbers that are split into halves, in the intermediate code: how the remainder of each is made.
SPLITS = """
import re
import triton
from feature_inputs import Inputs, feature_map, widened
import torch
from qml_lightning.kernels.triton import ahead, pairs
from qml_lightning.kernels.triton.launch import recorded

made, compile = [], triton.compile
triton.compile = lambda *given, **options: made.append(compile(*given, **options)) or made[-1]
f = feature_map(2, 16, True, torch.float32)
inputs = widened(Inputs.drawn(f, 37))
with recorded() as launches:
    pairs.energy_and_slope(f, inputs.x, inputs.weights)
ahead.compiled(launches[0], 86)
found = re.findall(r"^\\s*([a-z][\\w.]*)\\s+(%\\w+),\\s*(.*);", made[0].asm["ptx"], re.MULTILINE)
halves = {out for operation, out, given in found if operation == "and.b32" and given.endswith("-4096")}
halves |= {out for operation, out, given in found if operation == "mov.b32" and given in halves}
halves |= {out for operation, out, given in found if operation == "neg.f32" and given in halves}
print(len(halves), *{op for op, _, given in found if op.endswith("f32") and given.split(", ")[-1] in halves
                     and op.split(".")[0] in ("sub", "add", "fma")})
"""


def test_the_remainder_of_a_half_is_a_difference_and_not_fused_with_the_product_before_it(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": HELPERS_FOUND, "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SPLITS], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    n_halves, *made_by = done.stdout.split()
    assert int(n_halves) >= 6
    assert [name.split(".")[0] for name in made_by] == ["sub"]


def test_the_number_of_features_is_no_part_of_the_code_of_a_kernel():
    import torch

    from feature_inputs import Inputs, fast, feature_map
    from qml_lightning.kernels import triton
    from qml_lightning.kernels.triton.launch import flat, recorded

    codes = []
    for n_blocks in (16, 32):
        f = feature_map(2, 16, True, torch.float32, n_blocks=n_blocks)
        with recorded() as launches:
            fast(triton, f, Inputs.drawn(f, 5))
        codes.append(
            [(one.kernel.__name__, one.constants, [a.value for a in flat(one.arguments) if hasattr(a, "value")])
             for one in launches]
        )  # fmt: skip
    assert codes[0] == codes[1]
    assert all(constants for _, _, constants in codes[0])
