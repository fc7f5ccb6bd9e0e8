"""Kernels compiled for a named GPU without one, with the registers and the memory that they take."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction, create_function_from_signature

from ...errors import InputError
from .launch import Launch

# Shared memory that one program can have, in bytes (CUDA programming guide, technical specifications).
SHARED_MEMORY = {80: 163 * 1024, 86: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024, 120: 99 * 1024}
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
    instructions: tuple[str, ...]  # names of machine instructions, in order


def compiled(launch: Launch, architecture: int) -> Compiled:
    """The kernel of a recorded launch, specialised for its arguments as a GPU of that architecture would have it."""
    kernel = launch.kernel
    if not isinstance(kernel, JITFunction):
        raise InputError("Kernels cannot be compiled while TRITON_INTERPRET=1 interprets them. Unset it.")
    target = GPUTarget("cuda", architecture, 32)
    backend = make_backend(target)
    given = {**launch.constants, "num_warps": launch.warps}
    bind = create_function_from_signature(kernel.signature, kernel.params, backend)
    options, signature, constants, attributes = kernel._pack_args(backend, given, *bind(*launch.arguments, **given))
    source = ASTSource(kernel, signature, constants, attributes)
    made = triton.compile(source, target=target, options=options.__dict__)
    usage, instructions = _inspected(made.asm["cubin"])
    return Compiled(
        kernel.__name__, architecture, usage["REG"], usage["STACK"] + usage["LOCAL"], made.metadata.shared,
        made.metadata.num_warps, instructions,
    )  # fmt: skip


def _inspected(binary: bytes) -> tuple[dict[str, int], tuple[str, ...]]:
    """Resources and instructions of a binary, read by the tools inside Triton."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        usage = _output("cuobjdump", "--dump-resource-usage", file.name)
        code = _output("nvdisasm", "-c", file.name)
    numbers = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", usage)}
    found = re.findall(r"^\s+(?:/\*[0-9a-f]+\*/\s+)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)\b", code, re.MULTILINE)
    return numbers, tuple(found)


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
