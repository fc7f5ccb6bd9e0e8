"""Fits and predictions on a device, with a stand-in that raises where tensors of host and device are mixed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
CASES = (TESTS / "model" / "stand_in_cases.py", TESTS / "adapters" / "torchsim_device_cases.py")


def test_no_fit_and_no_prediction_on_a_device_mixes_its_tensors_with_those_of_the_host():
    # a process of its own: torch keeps the stand-in for good, and its own checks would then ask for more of it
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", *CASES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
