"""The command line of the runner."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import torch

from .benchmark import CELL, Benchmark, Options, entries, key_of, succeeded
from .places import ROOT, TRIED
from .runner import chosen, draw, run


def main(rooms: Mapping[str, Sequence[Benchmark]], text: str | None, arguments: Sequence[str] | None = None) -> None:
    """Run, list or draw the benchmarks that are named; without a name, tell which there are."""
    given = _parser(rooms, text).parse_args(arguments)
    default_threads = torch.get_num_threads()
    benchmarks = _named(rooms, given.names)
    for benchmark in benchmarks:
        options = Options(given.quick, given.recipe or benchmark.recipe)
        torch.set_num_threads(given.threads or benchmark.threads or default_threads)
        if given.list:
            _list(benchmark, options, given.only)
        elif given.draw:
            draw(benchmark, options)
            _show(benchmark, options)
        elif given.names:
            run(benchmark, options, only=given.only, again=given.again)
            _show(benchmark, options)
        else:
            cells = {key_of(cell) for cell in benchmark.cells(options)}
            there = len(cells & _there(benchmark, options))
            print(f"{benchmark.name:18} {there:3} of {len(cells):3} cells  {benchmark.title}")


def _parser(rooms: Mapping[str, Sequence[Benchmark]], text: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*rooms, *(benchmark.name for room in rooms.values() for benchmark in room)]
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help=f"small sizes, into {TRIED.relative_to(ROOT)}")
    parser.add_argument(
        "--only",
        nargs="+",
        action="append",
        default=[],
        metavar="WORD",
        help="only cells with one of these words, such as ethanol or seed=1; given several times, all must hold",
    )
    parser.add_argument("--recipe", help="default, auto, paper or angular-pair (default: that of the benchmark)")
    parser.add_argument("--again", action="store_true", help="measure cells that are there already, too")
    parser.add_argument("--draw", action="store_true", help="measure nothing: tables and pictures of the results")
    parser.add_argument("--list", action="store_true", help="list the cells, and which of them are there")
    parser.add_argument("--threads", type=int, help="of torch (default: those of the benchmark, or of the machine)")
    return parser


def _named(rooms: Mapping[str, Sequence[Benchmark]], names: Sequence[str]) -> list[Benchmark]:
    """Benchmarks by their names or those of their rooms; all if there are no names."""
    every = [benchmark for room in rooms.values() for benchmark in room]
    wanted = [b for name in names for b in rooms.get(name, [b for b in every if b.name == name])]
    return wanted or every


def _there(benchmark: Benchmark, options: Options) -> set[str]:
    return {key_of(entry[CELL]) for entry in succeeded(entries(benchmark.name, options.results))}


def _list(benchmark: Benchmark, options: Options, only: Sequence[Sequence[str]]) -> None:
    there = _there(benchmark, options)
    for cell in chosen(benchmark.cells(options), only):
        print(f"{benchmark.name}: {key_of(cell)}{' (there)' if key_of(cell) in there else ''}")


def _show(benchmark: Benchmark, options: Options) -> None:
    told = entries(benchmark.name, options.results)
    if told:
        print(f"\n{benchmark.title}\n{benchmark.text}\n\n{benchmark.tables(told)}\n")
