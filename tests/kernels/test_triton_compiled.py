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
