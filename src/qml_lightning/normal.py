"""Linear equations, gathered: rows kept as they are while few, else their normal equations. Knows no atoms."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

# Rows of the Gram matrix formed by one matrix product: half of the matrix is never computed. Long, low tiles run
# faster than tall ones, and 1024 rows lose little on the diagonal and to repeated packing.
GRAM_TILE = 1024
# Rows that wait for one product, in bytes: each product reads and writes the whole triangle, so rows come in bulk.
BUFFER_BYTES = 512 * 1024**2


@dataclass
class Rows:
    """Rows and targets themselves: cheaper than their Gram matrix while there are fewer of them than columns."""

    n_columns: int
    capacity: int
    device: torch.device | str = "cpu"
    n: int = 0
    rows: Tensor = field(init=False)  # (capacity, columns) float64, the first n are filled
    targets: Tensor = field(init=False)  # (capacity,)

    def __post_init__(self) -> None:
        self.rows = torch.empty(self.capacity, self.n_columns, dtype=torch.float64, device=self.device)
        self.targets = torch.empty(self.capacity, dtype=torch.float64, device=self.device)

    def add(self, rows: Tensor, targets: Tensor) -> None:
        """Append rows (n, columns) and their targets (n,)."""
        end = self.n + len(rows)
        self.rows[self.n : end] = rows
        self.targets[self.n : end] = targets
        self.n = end

    def add_to_gram(self, gram: Tensor, moment: Tensor, weight: float) -> None:
        """gram += weight · ZᵀZ (lower triangle), moment += weight · Zᵀy."""
        add_product(gram, self.rows[: self.n], weight)
        moment += weight * (self.rows[: self.n].T @ self.targets[: self.n])


@dataclass
class Gram:
    """ZᵀZ and Zᵀy of any number of rows."""

    n_columns: int
    device: torch.device | str = "cpu"
    n: int = 0
    gram: Tensor = field(init=False)  # (columns, columns) float64: it squares the condition number of the rows
    moment: Tensor = field(init=False)  # (columns,)
    waiting: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = Rows(self.n_columns, max(1, BUFFER_BYTES // (8 * self.n_columns)), self.device)
        self.gram = torch.zeros(self.n_columns, self.n_columns, dtype=torch.float64, device=self.device)
        self.moment = torch.zeros(self.n_columns, dtype=torch.float64, device=self.device)

    def add(self, rows: Tensor, targets: Tensor) -> None:
        """Add rows (n, columns) and their targets (n,)."""
        self.n += len(rows)
        while len(rows):
            room = self.waiting.capacity - self.waiting.n
            self.waiting.add(rows[:room], targets[:room])
            rows, targets = rows[room:], targets[room:]
            if self.waiting.n == self.waiting.capacity:
                self.flush()

    def flush(self) -> None:
        """Take the waiting rows into the Gram matrix."""
        self.waiting.add_to_gram(self.gram, self.moment, 1.0)
        self.waiting.n = 0

    def add_to_gram(self, gram: Tensor, moment: Tensor, weight: float) -> None:
        """gram += weight · ZᵀZ (lower triangle), moment += weight · Zᵀy."""
        self.flush()
        gram.add_(self.gram, alpha=weight)
        moment += weight * self.moment


Equations = Rows | Gram


def equations_for(n_rows: int, n_columns: int, device: torch.device | str = "cpu") -> Equations:
    """The cheaper of the two forms for that many rows."""
    return Rows(n_columns, n_rows, device) if n_rows <= n_columns else Gram(n_columns, device)


def memory_for(n_rows: int, n_columns: int) -> int:
    """Bytes that `equations_for` will take."""
    return 8 * n_columns * min(n_rows, n_columns) + (BUFFER_BYTES if n_rows > n_columns else 0)


def add_product(gram: Tensor, rows: Tensor, weight: float) -> None:
    """Lower triangle of gram += weight · rowsᵀ rows, a tile of its rows at a time."""
    for first in range(0, gram.shape[0], GRAM_TILE):
        last = min(first + GRAM_TILE, gram.shape[0])
        gram[first:last, :last].addmm_(rows[:, first:last].T, rows[:, :last], alpha=weight)
