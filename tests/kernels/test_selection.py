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


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that torch would see; give what sets its compute capability."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "hip", None)

    def of_capability(*numbers: int) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: numbers)

    of_capability(8, 6)
    return of_capability


def test_cuda_takes_triton(gpu):
    pytest.importorskip("triton", reason="Triton is not installed")
    for dtype in (torch.float32, torch.float64):
        assert kernels_for("cuda:1", dtype).NAME == "triton"
    assert reason("native", "cuda") is not None


def test_cuda_without_triton_takes_plain_torch_and_says_what_to_install(gpu, monkeypatch):
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    assert kernels_for("cuda", torch.float32).NAME == "reference"
    assert "qml-lightning[gpu]" in str(reason("triton", "cuda"))


@pytest.mark.parametrize(
    ("version", "serves"),
    [("2.3.1", False), ("3.3.1", False), ("3.3.1+git5e4", False), ("3.4.0", True), ("3.10.0", True), ("4.0.0", True)],
)
def test_a_triton_that_cannot_compile_the_kernels_is_told_and_plain_torch_taken(version, serves, gpu, monkeypatch):
    triton = pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setattr(triton, "__version__", version)
    name = "triton" if serves else "reference"
    assert name == kernels_for("cuda", torch.float32).NAME
    if not serves:
        wanted = f"they need Triton 3.4 or later, and {version} is installed. Use pip install"
        assert str(reason("triton", "cuda")).startswith(wanted)


@pytest.mark.parametrize(("capability", "serves"), [((6, 0), False), ((7, 0), False), ((7, 5), True), ((12, 0), True)])
def test_a_gpu_that_triton_no_longer_serves_takes_plain_torch_and_info_says_why(capability, serves, gpu):
    pytest.importorskip("triton", reason="Triton is not installed")
    from qml_lightning.cli.info import _backends

    gpu(*capability)
    name = "triton" if serves else "reference"
    assert name == kernels_for("cuda", torch.float64).NAME
    (row,) = (r for r in _backends() if (r["name"], r["device"], r["precision"]) == ("triton", "cuda", "float64"))
    told = f"Triton compiles for compute capability 7.5 and later, and this GPU has {capability[0]}.{capability[1]}."
    assert row["why_not"] == (None if serves else told)


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
