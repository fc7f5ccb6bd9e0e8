"""Which kernels serve a device: those in Triton on CUDA, native ones on the CPU, plain torch elsewhere."""

from __future__ import annotations

import pytest
import torch

from qml_lightning import kernels
from qml_lightning.errors import InputError
from qml_lightning.kernels import BACKENDS, kernels_for


def reason(name: str, device: str) -> str | None:
    """Why a back-end does not serve a device."""
    (backend,) = (one for one in BACKENDS if one.name == name)
    return backend.why_not(torch.device(device), torch.float32)


def test_cuda_takes_triton(monkeypatch):
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", None)
    for dtype in (torch.float32, torch.float64):
        assert kernels_for("cuda:1", dtype).NAME == "triton"
    assert reason("native", "cuda") is not None


def test_cuda_without_triton_takes_plain_torch_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    assert kernels_for("cuda", torch.float32).NAME == "reference"
    assert "qml-lightning[gpu]" in str(reason("triton", "cuda"))


def test_rocm_takes_plain_torch(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert kernels_for("cuda", torch.float32).NAME == "reference"
    assert reason("triton", "cuda") == "they are compiled and tested for CUDA devices."


def test_xpu_takes_plain_torch():
    assert kernels_for("xpu", torch.float64).NAME == "reference"
    with pytest.raises(InputError, match="compiled and tested for CUDA"):
        kernels_for("xpu", torch.float32, "triton")


def test_mps_is_refused_as_it_has_no_float64():
    with pytest.raises(InputError, match=r"on mps: sums are float64, which MPS does not have\. Use the CPU"):
        kernels_for("mps", torch.float32)


def test_a_device_that_is_not_there_is_told_in_one_sentence():
    from qml_lightning.cli.options import MachineOptions

    if torch.backends.mps.is_available():
        pytest.skip("it is there")
    with pytest.raises(
        InputError, match=r"^The device 'mps' cannot be used \([^.]*(\.\w[^.]*)*\)\. Use --device cpu\.$"
    ):
        MachineOptions(device="mps").prepare()


def test_the_cpu_never_takes_triton_unless_it_is_named():
    assert kernels_for("cpu", torch.float32).NAME in ("native", "reference")
