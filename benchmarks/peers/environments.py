"""Other programs, each in an environment of its own that is made on first use; failures are told, not hidden."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..harness.places import ROOT

HOME = ROOT / "build" / "peers"
SCRIPTS = ROOT / "benchmarks" / "peers"
TORCH = "torch==2.13.0"  # first and pinned: any other pulls gigabytes of CUDA
MEMORY = 1.3  # of the machine, for a peer: of addresses, not all of which are used


@dataclass(frozen=True)
class Peer:
    """Another program, and how to install it."""

    name: str
    package: str
    requirements: tuple[str, ...] = ()  # besides the package; none and no package to install: our own environment
    own: bool = True

    @property
    def python(self) -> Path:
        return HOME / self.name / "bin" / "python" if self.own else Path(sys.executable)

    @property
    def script(self) -> Path:
        return SCRIPTS / f"{self.name}_peer.py"


PEERS = {
    peer.name: peer
    for peer in (
        Peer("kernelforge", "kernelforge", own=False),
        Peer("sgdml", "sgdml", (TORCH, "numpy<2", "scipy")),
        Peer("quippy", "quippy-ase"),
        Peer("torchani", "torchani", (TORCH,)),
        Peer("mace", "mace-torch", (TORCH,)),
    )
}


class PeerFailed(RuntimeError):
    """A peer that does not install, or does not do what it is asked: the text says why."""


def ready(peer: Peer) -> str:
    """Its version, after its environment is made if there is none."""
    stamp = HOME / peer.name / ".installed"
    if peer.own and not stamp.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        pip = [peer.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        steps: list[list[Any]] = [[sys.executable, "-m", "venv", HOME / peer.name]]
        if peer.requirements:
            steps.append([*pip, *peer.requirements])
        steps.append([*pip, *peer.requirements, peer.package])
        for step in steps:
            _called(step, f"{peer.package} does not install", 1800)
        stamp.touch()
    code = f"from importlib.metadata import version; print(version({peer.package!r}))"
    return _called([peer.python, "-c", code], f"{peer.package} is not there", 120).strip()


def ask(name: str, task: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, seconds: float) -> dict[str, Any]:
    """The answer of a peer to a task about these arrays, with its version; PeerFailed after so many seconds."""
    peer = PEERS[name]
    version = ready(peer)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "data.npz"), **arrays)  # type: ignore[arg-type]
        Path(folder, "task.json").write_text(json.dumps({**task, "models": str(HOME / "models")}))
        (HOME / "models").mkdir(parents=True, exist_ok=True)
        _called([peer.python, peer.script, folder], f"{name} failed", seconds)
        answer = json.loads(Path(folder, "answer.json").read_text())
    return {**answer, "peer": f"{peer.package} {version}"}


def _in_memory() -> None:
    """Limit the memory of a peer, so that it fails alone if it needs more."""
    most = int(MEMORY * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _called(command: list[Any], what: str, seconds: float) -> str:
    """Output of a command; PeerFailed with the end of it if it fails or takes too long."""
    threads = str(torch.get_num_threads())
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONPATH": ""}
    if command[0] == Path(sys.executable):
        environment["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=_in_memory, start_new_session=True,
    )  # fmt: skip
    try:
        out, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise PeerFailed(f"{what}: not done after {seconds:.0f} s") from None
    finally:
        if process.poll() is None:  # with all that it started, or it would disturb what is measured next
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        last = (told or out).strip().rpartition("\n")[2]  # of a traceback: what went wrong
        raise PeerFailed(f"{what}: {last[-400:]}")
    return out
