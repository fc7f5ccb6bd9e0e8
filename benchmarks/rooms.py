"""Every benchmark, room by room."""

from __future__ import annotations

from . import paper, speed, studies

ROOMS = {"paper": paper.BENCHMARKS, "studies": studies.BENCHMARKS, "speed": speed.BENCHMARKS}
BENCHMARKS = tuple(benchmark for room in ROOMS.values() for benchmark in room)
