"""Kernels compiled for a named GPU without one, with the registers and the memory that they take."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from ...errors import InputError
from .launch import Launch
from .launch import options as asked

# Shared memory that one program can have, in bytes (CUDA programming guide, technical specifications).
SHARED_MEMORY = {80: 163 * 1024, 86: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024, 120: 99 * 1024}
# Machine instructions of each kind of unit; conversions go through those of float64 as well. All others: "integer".
UNITS = {
    "float64": frozenset(("DADD", "DMUL", "DFMA", "DSETP", "F2F", "I2F", "F2I")),
    "float32": frozenset(("FADD", "FMUL", "FFMA", "FADD2", "FMUL2", "FFMA2")),
    "special": frozenset(("MUFU", "FRND")),
    "memory": frozenset(("LDG", "STG", "LDS", "STS", "LDSM", "LDL", "STL", "SHFL", "ATOMG", "RED")),
}
OPERATIONS = {"FFMA": 2, "DFMA": 2, "FFMA2": 4, "FADD2": 2, "FMUL2": 2, "FADD": 1, "FMUL": 1, "DADD": 1, "DMUL": 1}
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@dataclass(frozen=True)
class Compiled:
    """One kernel as machine code for one architecture."""

    name: str
    architecture: int  # 86: compute capability 8.6
    registers: int  # of a thread
    stack: int  # bytes of a thread outside registers: spilled numbers and local arrays
    shared: int  # bytes of a program
    warps: int
    instructions: tuple[tuple[str, int], ...]  # name of each machine instruction, and the loops that it is inside of

    def by_depth(self, weights: Mapping[str, int] | None = None) -> list[int]:
        """Number of instructions outside of loops, in one loop, in two, …; or the sum of the weights of their names."""
        counts = [0] * (1 + max(depth for _, depth in self.instructions))
        for name, depth in self.instructions:
            counts[depth] += 1 if weights is None else weights.get(name, 0)
        return counts

    def by_unit(self) -> dict[str, list[int]]:
        """`by_depth` of each kind of unit."""
        counts = {unit: self.by_depth(dict.fromkeys(names, 1)) for unit, names in UNITS.items()}
        rest = [n - sum(some) for n, *some in zip(self.by_depth(), *counts.values(), strict=True)]
        return {**counts, "integer": rest}


def compiled(launch: Launch, architecture: int) -> Compiled:
    """The kernel of a recorded launch, specialised for its arguments as a GPU of that architecture would have it."""
    kernel = launch.kernel
    if not isinstance(kernel, JITFunction):
        raise InputError("Kernels cannot be compiled while TRITON_INTERPRET=1 interprets them. Unset it.")
    target = GPUTarget("cuda", architecture, 32)
    backend = make_backend(target)
    given = {**launch.constants, **asked(launch.warps)}
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    options, signature, constants, attributes = kernel._pack_args(backend, given, *bind(*launch.arguments, **given))
    source = ASTSource(kernel, signature, constants, attributes)
    made = triton.compile(source, target=target, options=options.__dict__)
    usage, instructions = _inspected(made.asm["cubin"])
    return Compiled(
        kernel.__name__, architecture, usage["REG"], usage["STACK"] + usage["LOCAL"], made.metadata.shared,
        made.metadata.num_warps, instructions,
    )  # fmt: skip


def _inspected(binary: bytes) -> tuple[dict[str, int], tuple[tuple[str, int], ...]]:
    """Resources and instructions of a binary, read by the tools inside Triton."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        usage = _output("cuobjdump", "--dump-resource-usage", file.name)
        code = _output("nvdisasm", "-c", file.name)
    numbers = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    return numbers, _instructions(code)


def _instructions(code: str) -> tuple[tuple[str, int], ...]:
    """Names of instructions and how many loops each is inside of: a loop is a jump back to a label."""
    names: list[str] = []
    labels: dict[str, int] = {}
    jumps: list[tuple[int, str]] = []
    for line in code.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(names)
        elif found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)\S*(.*)", line):
            if (found[1] == "BRA") and (target := re.search(r"\.L_x_\d+", found[2])):
                jumps.append((len(names), target[0]))
            names.append(found[1])
    # the last jump of a kernel, to itself, is never reached
    loops = [(labels[target], at) for at, target in jumps if labels.get(target, at) < at]
    return tuple((name, sum(begin <= i <= end for begin, end in loops)) for i, name in enumerate(names))


def _output(tool: str, *arguments: str) -> str:
    return subprocess.run([TOOLS / tool, *arguments], capture_output=True, text=True, check=True).stdout


def within_limits(one: Compiled) -> Sequence[str]:
    """Reasons why a kernel does not fit, in words; none if it does."""
    reasons = []
    if one.stack:
        reasons.append(f"{one.stack} bytes of a thread are outside its registers")
    if one.shared > (most := SHARED_MEMORY[one.architecture]):
        reasons.append(f"{one.shared} bytes of shared memory, and {most} is the limit")
    return reasons


def distinct(launches: Sequence[Launch]) -> list[Launch]:
    """Launches that give different machine code."""
    kept: dict[Any, Launch] = {}
    for one in launches:
        types = tuple(str(getattr(argument, "dtype", argument)) for argument in one.arguments)
        kept.setdefault((one.kernel.__name__, types, str(one.constants)), one)
    return list(kept.values())
