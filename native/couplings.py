"""Writes native/src/density/couplings.hpp: the terms of all invariants of three moments, from kernels/harmonics.

python native/couplings.py > native/src/density/couplings.hpp
"""

from __future__ import annotations

from qml_lightning.kernels.harmonics import MOST_DEGREE, paths, terms_of

HEAD = """// Terms of the invariants of three moments, written by native/couplings.py.
#pragma once

namespace qml {
namespace density {

// factor * M[a] M[b] M[c], a part of the invariant of one path of degrees
struct Coupling {
  int path, a, b, c;
  double factor;
};
"""


def header() -> str:
    """Text of the header."""
    rows, ends, counts = [], [], []
    every = paths(MOST_DEGREE)
    for number, path in enumerate(every):
        rows += [f"    {{{number}, {a}, {b}, {c}, {factor!r}}}," for a, b, c, factor in terms_of(path)]
        if number + 1 == len(every) or every[number + 1][2] > path[2]:  # the last path of a degree
            ends.append(len(rows))
            counts.append(number + 1)
    return "\n".join([
        HEAD,
        "// Numbers of paths and of terms up to each degree.",
        f"constexpr int path_count[] = {{{', '.join(map(str, counts))}}};",
        f"constexpr int term_count[] = {{{', '.join(map(str, ends))}}};",
        "",
        "constexpr Coupling couplings[] = {",
        *rows,
        "};",
        "",
        "} // namespace density",
        "} // namespace qml",
    ])  # fmt: skip


if __name__ == "__main__":
    print(header())
