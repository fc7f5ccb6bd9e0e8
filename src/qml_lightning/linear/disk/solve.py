"""Ridge regression with a Gram matrix and its factor on disk. Knows no atoms."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from ...machine.memory import short_of_memory
from ..cholesky import NOT_FINITE, not_positive_definite
from .tiles import STREAMING, TileFile, default_scratch

# Rows of a tile: large enough for products and transfers at full rate; halved while memory is short.
LARGEST_TILE, SMALLEST_TILE = 2048, 128
# Tiles in memory at once, besides the panel: three stream in each file, and factorising one takes copies.
TILES_AT_ONCE = 2 * STREAMING + 3
# Memory that libraries take for themselves during products.
RESERVE = 48 * 1024**2


@dataclass(frozen=True)
class Layout:
    """Sizes of the pieces in which a matrix on disk is worked on."""

    n_rows: int
    n_columns: int
    tile: int
    width: int  # rows that wait for one product, and columns that are factorised at once: a multiple of the tile
    folder: Path

    @property
    def dual(self) -> bool:
        """Fewer rows than columns: ZZᵀ instead of ZᵀZ, as in memory."""
        return self.n_rows < self.n_columns


def layout(n_rows: int, n_columns: int, memory: int, folder: Path | None = None) -> Layout:
    """The largest tiles, then the widest panel, that `memory` bytes hold; a ResourceError if they hold none."""
    tile = min(LARGEST_TILE, max(n_rows, n_columns))
    while tile > SMALLEST_TILE and memory < memory_for(n_columns, tile, 2 * tile):
        tile = max(SMALLEST_TILE, tile // 2)
    if memory < (least := least_memory(n_rows, n_columns)):
        raise short_of_memory(
            least,
            max(0, memory),
            f"Training {n_columns} weights, even out of core,",
            "Use fewer features, or a higher limit of memory if there is one.",
        )
    most = (memory - memory_for(n_columns, tile, 0)) // (8 * (n_columns + tile)) // tile * tile
    useful = -(-max(n_rows, n_columns) // tile) * tile
    return Layout(n_rows, n_columns, tile, min(most, useful), folder or default_scratch())


def least_memory(n_rows: int, n_columns: int) -> int:
    """Least bytes of memory for equations on disk: smallest tiles, and a panel of one of them."""
    tile = min(SMALLEST_TILE, max(n_rows, n_columns))
    return memory_for(n_columns, tile, tile)


def memory_for(n_columns: int, tile: int, width: int) -> int:
    """Bytes of memory for a panel (or for waiting rows) with a block of a tile's width beside it, tiles and vectors."""
    return 8 * (width * (n_columns + tile) + TILES_AT_ONCE * tile**2 + 6 * n_columns) + RESERVE


class OutOfCore:
    """Equations of any number of rows, in a bounded amount of memory. Use it in a `with` block."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.n = 0
        rows, columns, tile = layout.n_rows, layout.n_columns, layout.tile
        size = rows if layout.dual else columns
        with contextlib.ExitStack() as stack:
            self.gram = stack.enter_context(TileFile(size, size, tile, layout.folder, symmetric=True))
            # the dual form needs the rows again, for w = Zᵀ β
            self.rows = stack.enter_context(TileFile(rows, columns, tile, layout.folder)) if layout.dual else None
            self._files = stack.pop_all()
        # one piece, first for waiting rows and then for the panel: memory that is freed is not always given back
        self._space = torch.empty(layout.width * (columns + tile), dtype=torch.float64)
        self._waiting, self._beside = _carved(self._space, min(layout.width, rows), columns)
        self._n_waiting = 0
        self._targets = torch.empty(rows, dtype=torch.float64)
        self._moment = torch.zeros(columns, dtype=torch.float64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    @property
    def disk(self) -> tuple[int, int, int]:
        """Bytes taken, read and written."""
        files = [file for file in (self.gram, self.rows) if file is not None]
        return sum(f.size for f in files), sum(f.bytes_read for f in files), sum(f.bytes_written for f in files)

    def room(self, n: int) -> Tensor:
        """Memory for the next n rows, or for as many as can still wait, (rows, columns)."""
        return self._waiting[self._n_waiting : self._n_waiting + n]

    def take(self, targets: Tensor) -> None:
        """Take the rows that were written, with these targets (rows,)."""
        n = len(targets)
        self._targets[self.n : self.n + n] = targets
        self.n += n
        self._n_waiting += n
        if self._n_waiting == len(self._waiting):
            self._flush()

    def _flush(self) -> None:
        """Take the waiting rows into the matrix on disk."""
        rows = self._waiting[: self._n_waiting]
        self._n_waiting = 0
        if len(rows) == 0:
            return
        self._moment.addmv_(rows.T, self._targets[self.n - len(rows) : self.n])
        if self.rows is None:
            self._add_product(rows)
        else:
            self._append(rows, self.rows)

    def _add_product(self, rows: Tensor) -> None:
        """gram += rowsᵀ rows, tile by tile."""
        places = [(i, j) for i in range(self.gram.count[0]) for j in range(i + 1)]
        if self.n == len(rows):  # the first rows: there is nothing to read yet
            for i, j in places:
                self.gram.write((i, j), rows[:, self.gram.span(i)].T @ rows[:, self.gram.span(j)])
            return
        for (i, j), tile in self.gram.stream(places, keep=True):
            tile.addmm_(rows[:, self.gram.span(i)].T, rows[:, self.gram.span(j)])

    def _append(self, rows: Tensor, before: TileFile) -> None:
        """Write the products of `rows` with all rows before and with themselves, then `rows`."""
        start = self.n - len(rows)
        first, tile = start // before.tile, before.tile  # full buffers are whole tiles
        blocks = [(first + at // tile, slice(at, at + tile)) for at in range(0, len(rows), tile)]
        columns = before.count[1]
        product, _ = _carved(self._beside, tile, len(rows))
        for (i, j), old in before.stream([(i, j) for i in range(first) for j in range(columns)]):
            product.addmm_(old, rows[:, before.span(j, 1)].T, beta=float(j > 0))
            if j == columns - 1:
                for k, block in blocks:
                    self.gram.write((k, i), product[:, block].T)
        for k, block in blocks:
            for i, other in blocks[: k - first + 1]:
                self.gram.write((k, i), rows[block] @ rows[other].T)
            for j in range(columns):
                before.write((k, j), rows[block, before.span(j, 1)])

    def solve(self, ridge: float, tell: Callable[[int, int], None] | None = None) -> Tensor:
        """Weights w that minimise |Z w − y|² + ridge |w|². The matrix is overwritten by its factor."""
        self._flush()
        right = self._moment.clone() if self.rows is None else self._targets[: self.n].clone()
        _factorise(self.gram, right, ridge, self._space, self.layout.width, tell)
        _substitute(self.gram, right)
        if self.rows is None:
            return right
        weights = torch.zeros(self.layout.n_columns, dtype=torch.float64)
        rows, columns = self.rows.count
        for (i, j), tile in self.rows.stream([(i, j) for i in range(rows) for j in range(columns)]):
            weights[self.rows.span(j, 1)].addmv_(tile.T, right[self.rows.span(i)])
        return weights


def _carved(space: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """A matrix from the beginning of `space`, and the space left."""
    return space[: rows * columns].view(rows, columns), space[rows * columns :]


def _factorise(
    matrix: TileFile,
    right: Tensor,
    ridge: float,
    space: Tensor,
    width: int,
    tell: Callable[[int, int], None] | None,
) -> None:
    """Overwrite `matrix` by the Cholesky factor L of matrix + ridge = LLᵀ, and `right` by L⁻¹ right.

    A panel of `width` columns at a time is in memory, in `space` (width · (size + tile) numbers). It is brought up to
    date by all columns before it, which stream past once for each panel, then factorised and written back.
    """
    n, tile, count = matrix.shape[0], matrix.tile, matrix.count[0]
    trace = 0.0
    for first in range(0, count, width // tile):
        last = min(first + width // tile, count)
        start, end = first * tile, min(last * tile, n)
        panel, rest = _carved(space, n - start, end - start)
        inside = [(i, j) for j in range(first, last) for i in range(j, count)]

        def at(number: int, start: int = start) -> slice:
            """Rows or columns of the panel that a tile covers."""
            return slice(number * tile - start, min((number + 1) * tile, n) - start)

        for (i, j), part in matrix.stream(inside):
            panel[at(i), at(j)] = part
            if i == j:
                trace += float(part.diagonal().sum())
                panel[at(i), at(j)].diagonal().add_(ridge)
        head, _ = _carved(rest, end - start, tile)  # the column that streams past, in the rows of the panel's columns
        for (i, _), part in matrix.stream([(i, k) for k in range(first) for i in range(first, count)]):
            if i < last:
                head[at(i)] = part
            known = min(at(i).stop, end - start)
            panel[at(i), :known].addmm_(part, head[:known].T, alpha=-1)
        for j in range(first, last):
            if not _column_factorised(panel, at(j), tile, right[start:]):
                rounding = trace * torch.finfo(torch.float64).eps
                larger = f"Use a larger ridge (the matrix is known to about {rounding:.0e}) or fewer features."
                raise not_positive_definite(n, ridge, larger if rounding < float("inf") else NOT_FINITE)
            for i in range(j, count):
                matrix.write((i, j), panel[at(i), at(j)])
            if tell is not None:
                tell(j + 1, count)


def _column_factorised(panel: Tensor, at: slice, tile: int, right: Tensor) -> bool:
    """Whether a tile's width of columns of the panel has a factor; it is then there, and `right` is solved for it.

    `right` begins where the panel does.
    """
    column = panel[at.start :, at]
    if at.start:
        column.addmm_(panel[at.start :, : at.start], panel[at, : at.start].T, alpha=-1)
    width = column.shape[1]
    factor, failed = torch.linalg.cholesky_ex(column[:width])
    if int(failed) or not bool(factor.diagonal().isfinite().all()):
        return False
    column[:width] = factor
    for below in column[width:].split(tile):
        below.copy_(torch.linalg.solve_triangular(factor.T, below, upper=True, left=False))
    mine = right[at]
    mine.copy_(torch.linalg.solve_triangular(factor, mine[:, None], upper=False)[:, 0])
    right[at.stop :].addmv_(column[width:], mine, alpha=-1)
    return True


def _substitute(factor: TileFile, right: Tensor) -> None:
    """Overwrite `right` by L⁻ᵀ right, from the last column of the factor to the first."""
    count = factor.count[0]
    backwards = [(i, j) for j in reversed(range(count)) for i in reversed(range(j, count))]
    for (i, j), part in factor.stream(backwards):
        mine = right[factor.span(j)]
        if i > j:
            mine.addmv_(part.T, right[factor.span(i)], alpha=-1)
        else:
            mine.copy_(torch.linalg.solve_triangular(part.T, mine[:, None], upper=True)[:, 0])
