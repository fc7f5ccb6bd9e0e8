"""Linear equations, gathered: rows kept as they are while few, else their normal equations. Knows no atoms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from .compensated import Accumulation, add_compensated

# Rows of the Gram matrix in one tile of a file, or of a pass over its lower triangle.
GRAM_TILE = 1024
# Size of the blocks on the diagonal that are formed whole: half of each is wasted, but smaller ones run slower.
# Products of 256 columns would leave most of a large GPU idle.
DIAGONAL = {"cpu": 256, "cuda": 1024}
# Rows that wait for one product, in bytes: each product reads and writes the whole triangle, so rows come in bulk.
BUFFER_BYTES = 512 * 1024**2


class Place(Protocol):
    """Equations that take rows without a copy: ask for room, write the rows there, hand over their targets."""

    def room(self, n: int) -> Tensor:
        """Memory for the next n rows or fewer, (rows, columns), to be overwritten."""

    def take(self, targets: Tensor) -> None:
        """Take the rows that were written, with these targets: (rows,) or (rows, n_targets)."""


def append(to: Place, rows: Tensor, targets: Tensor) -> None:
    """Copy rows (n, columns) with their targets (n,) or (n, n_targets)."""
    while len(rows):
        place = to.room(len(rows))
        n = len(place)
        place.copy_(rows[:n])
        to.take(targets[:n])
        rows, targets = rows[n:], targets[n:]


@dataclass
class Rows:
    """Rows and targets themselves: cheaper than their Gram matrix while there are fewer of them than columns."""

    n_columns: int
    capacity: int
    device: torch.device | str = "cpu"
    n_targets: int = 1  # columns of targets; which mixture of them is fitted is chosen late
    n: int = 0
    rows: Tensor = field(init=False)  # (capacity, columns) float64, the first n are filled
    targets: Tensor = field(init=False)  # (capacity, n_targets)

    def __post_init__(self) -> None:
        self.rows = torch.empty(self.capacity, self.n_columns, dtype=torch.float64, device=self.device)
        self.targets = torch.empty(self.capacity, self.n_targets, dtype=torch.float64, device=self.device)

    @property
    def home(self) -> torch.device:
        """Device that keeps the equations, and solves them."""
        return self.rows.device

    def room(self, n: int) -> Tensor:
        return self.rows[self.n : self.n + n]

    def take(self, targets: Tensor) -> None:
        end = self.n + len(targets)
        self.targets[self.n : end] = targets.view(len(targets), -1)
        self.n = end

    def filled(self) -> tuple[Tensor, Tensor]:
        """Rows (n, columns) and targets (n, n_targets) taken so far."""
        return self.rows[: self.n], self.targets[: self.n]

    def add_to_gram(self, gram: Tensor, weight: float) -> None:
        """Lower triangle of gram += weight · ZᵀZ."""
        if gram.device == self.rows.device:
            add_product(gram, self.rows[: self.n], weight)
        else:
            add_by_tiles(gram, self.rows[: self.n], weight, add_product)

    def moments(self) -> Tensor:
        """Zᵀ targets, (columns, n_targets)."""
        rows, targets = self.filled()
        return rows.T @ targets

    def squares(self) -> Tensor:
        """targetsᵀ targets, (n_targets, n_targets)."""
        return self.filled()[1].T @ self.filled()[1]

    def squared_length(self, weights: Tensor) -> float:
        """|Z w|²."""
        return float((self.filled()[0] @ weights).square().sum())

    def mix_targets(self, mixture: Tensor) -> None:
        """targets ← targets @ mixture."""
        self.filled()[1].copy_(self.filled()[1] @ mixture)


@dataclass
class Gram:
    """ZᵀZ, Zᵀ targets and targetsᵀ targets of any number of rows, with the methods of `Rows`.

    The matrix may be kept by the host while a device multiplies, tile by tile: see `multiply_on`.
    """

    n_columns: int
    device: torch.device | str = "cpu"
    n_targets: int = 1
    n: int = 0
    sign: float = 1.0  # −1: rows that come from now on are taken out
    accumulation: Accumulation = "float64"  # of products; sums are always float64
    flops: float = 0.0  # of the products so far
    seconds: float = 0.0  # they took
    buffer: int | None = None  # bytes of rows that wait for one product; None: BUFFER_BYTES
    tiled: bool = False  # the matrix is kept elsewhere than its rows
    gram: Tensor = field(init=False)  # (columns, columns) float64: it squares the condition number of the rows
    moment: Tensor = field(init=False)  # (columns, n_targets)
    square: Tensor = field(init=False)  # (n_targets, n_targets)
    waiting: Rows = field(init=False)

    def __post_init__(self) -> None:
        self._open()
        self.gram = torch.zeros(self.n_columns, self.n_columns, dtype=torch.float64, device=self.device)
        self.moment = torch.zeros(self.n_columns, self.n_targets, dtype=torch.float64, device=self.device)
        self.square = torch.zeros(self.n_targets, self.n_targets, dtype=torch.float64, device=self.device)

    def _open(self) -> None:
        capacity = max(1, (self.buffer or BUFFER_BYTES) // (8 * self.n_columns))
        self.waiting = Rows(self.n_columns, capacity, self.device, self.n_targets)

    @property
    def home(self) -> torch.device:
        return self.gram.device

    def multiply_on(self, device: torch.device | str, buffer: int) -> None:
        """Let rows wait and be multiplied on `device`, while the matrix stays where it is.

        Each product sends the whole triangle, so that many rows should wait for it: `buffer` bytes.
        """
        self.flush()
        self.device, self.buffer, self.tiled = device, buffer, True
        self.moment, self.square = self.moment.to(device), self.square.to(device)
        self._open()

    def close(self) -> None:
        """Take in the waiting rows, and free the memory in which they waited."""
        self.flush()
        self.waiting = Rows(self.n_columns, 0, self.device, self.n_targets)

    def room(self, n: int) -> Tensor:
        """Memory for the next n rows; if more than can wait, for an equal share of them."""
        if self.waiting.capacity == 0:
            self._open()
        if self.waiting.n + n > self.waiting.capacity:
            self.flush()
        shares = max(1, -(-n // self.waiting.capacity))
        return self.waiting.room(-(-n // shares))

    def take(self, targets: Tensor) -> None:
        self.waiting.take(targets)
        self.n += len(targets) if self.sign > 0 else -len(targets)
        # when as many more would not fit: then no rows wait between two chunks, which suits a checkpoint
        if self.waiting.n + len(targets) > self.waiting.capacity:
            self.flush()

    def flush(self) -> None:
        """Take the waiting rows into the Gram matrix."""
        if self.waiting.n == 0:
            return
        started = time.perf_counter()
        product, rows = PRODUCTS[self.accumulation], self.waiting.filled()[0]
        if self.tiled:
            add_by_tiles(self.gram, rows, self.sign, product)
        else:
            product(self.gram, rows, self.sign)
        self.seconds += time.perf_counter() - started
        self.flops += float(self.waiting.n) * self.n_columns**2
        self.moment += self.sign * self.waiting.moments()
        self.square += self.sign * self.waiting.squares()
        self.waiting.n = 0

    def add_to_gram(self, gram: Tensor, weight: float) -> None:
        self.flush()
        gram.add_(self.gram, alpha=weight)

    def moments(self) -> Tensor:
        self.flush()
        return self.moment

    def squares(self) -> Tensor:
        self.flush()
        return self.square

    def squared_length(self, weights: Tensor) -> float:
        """|Z w|² = wᵀ ZᵀZ w, from the lower triangle."""
        self.flush()
        weights = weights.to(self.gram.device)
        total = 0.0
        for first, last, tile in lower_tiles(self.gram):
            left = tile[:, :first] @ weights[:first]
            inner = tile[:, first:].tril()
            here = weights[first:last]
            total += float(here @ (2.0 * left + (inner + inner.tril(-1).T) @ here))
        return total

    def mix_targets(self, mixture: Tensor) -> None:
        self.flush()
        self.moment = self.moment @ mixture
        self.square = mixture.T @ self.square @ mixture


Part = Rows | Gram


def equations_for(n_rows: int, n_columns: int, device: torch.device | str = "cpu", n_targets: int = 1) -> Part:
    """The cheaper of the two forms for that many rows."""
    return Rows(n_columns, n_rows, device, n_targets) if n_rows <= n_columns else Gram(n_columns, device, n_targets)


def as_gram(part: Part) -> Gram:
    """The equations as a Gram matrix."""
    if isinstance(part, Gram):
        return part
    gram = Gram(part.n_columns, part.device, part.n_targets)
    append(gram, *part.filled())
    gram.close()
    return gram


def grown(part: Part, n_more: int) -> Part:
    """The equations with room for `n_more` rows, in the form that suits all; negative: rows are to be taken out."""
    # rows cannot be told apart once they are in: only a Gram matrix can lose some
    if isinstance(part, Gram) or n_more < 0 or part.n + n_more > part.n_columns:
        gram = as_gram(part)
        gram.flush()  # waiting rows go in with the sign they came with
        return gram
    larger = Rows(part.n_columns, part.n + n_more, part.device, part.n_targets)
    append(larger, *part.filled())
    return larger


def added(one: Part, other: Part) -> Part:
    """The equations of both; `one` is used up."""
    if isinstance(other, Rows):
        together = grown(one, other.n)
        append(together, *other.filled())
    elif isinstance(one, Rows):
        return added(other, one)
    else:
        together = one
        one.n += other.n
        other.add_to_gram(one.gram, 1.0)
        one.moment = one.moments() + other.moments()
        one.square = one.squares() + other.squares()
    if isinstance(together, Gram):
        together.close()
    return together


def lower_tiles(gram: Tensor, height: int = 0) -> Iterator[tuple[int, int, Tensor]]:
    """Views of the lower triangle as tiles of `height` rows (0: GRAM_TILE), with first and last row of each."""
    height = height or GRAM_TILE
    for first in range(0, len(gram), height):
        last = min(first + height, len(gram))
        yield first, last, gram[first:last, :last]


def add_product(gram: Tensor, rows: Tensor, weight: float) -> None:
    """Lower triangle of gram += weight · rowsᵀ rows: the square below the diagonal, then both triangles in turn.

    Squares run faster than long tiles, for which a matrix product packs all rows again each time. `gram` may be the
    last rows of a triangle: what is left of their own triangle comes first.
    """
    n = len(gram)
    if left := gram.shape[1] - n:
        gram[:, :left].addmm_(rows[:, left:].T, rows[:, :left], alpha=weight)
        gram, rows = gram[:, left:], rows[:, left:]
    if n <= DIAGONAL.get(gram.device.type, DIAGONAL["cpu"]):
        gram.addmm_(rows.T, rows, alpha=weight)
        return
    half = -(-n // 128) * 64  # where cache lines begin
    gram[half:, :half].addmm_(rows[:, half:].T, rows[:, :half], alpha=weight)
    add_product(gram[:half, :half], rows[:, :half], weight)
    add_product(gram[half:, half:], rows[:, half:], weight)


# A function that adds weight · rowsᵀ rows to the lower triangle of a Gram matrix, or to the last rows of one.
Product = Callable[[Tensor, Tensor, float], None]
PRODUCTS: dict[Accumulation, Product] = {
    "float64": add_product,
    "compensated": add_compensated,
}


def add_by_tiles(gram: Tensor, rows: Tensor, weight: float, product: Product) -> None:
    """Lower triangle of gram += weight · rowsᵀ rows, where the rows are on a device and `gram` need not be.

    The device has a tile at a time, in float64.
    """
    for first, last, tile in lower_tiles(gram):
        part = torch.zeros(last - first, last, dtype=gram.dtype, device=rows.device)
        product(part, rows[:, :last], weight)
        tile.add_(part.to(gram.device))
