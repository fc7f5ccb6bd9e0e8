"""A matrix in square tiles in one scratch file. Knows no equations."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn, Self

import torch
from torch import Tensor

from ...errors import InputError, ResourceError
from ...machine.files import is_full
from ...machine.memory import GIB

At = tuple[int, int]  # row and column of a tile
# Tiles in memory while they stream past: one is read, one is in use, one is written.
STREAMING = 3


def default_scratch() -> Path:
    """$TMPDIR, or /var/tmp: unlike /tmp it is on a disk, not in memory."""
    given = os.environ.get("TMPDIR")
    return Path(given or ("/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()))


class TileFile:
    """A float64 matrix in tiles; a symmetric one keeps its lower triangle, with whole tiles on the diagonal.

    The file has no name and its final size from the start: a full disk shows before the work begins, and nothing is
    left behind however the process ends. Use it in a `with` block.
    """

    def __init__(self, n_rows: int, n_columns: int, tile: int, folder: Path, *, symmetric: bool = False) -> None:
        self.shape = (n_rows, n_columns)
        self.tile = tile
        self.symmetric = symmetric
        self.folder = folder
        self.bytes_read = self.bytes_written = 0
        rows, columns = self.count
        self.size = 8 * tile**2 * (rows * (rows + 1) // 2 if symmetric else rows * columns)
        try:
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  closed by `close`
        except OSError as error:
            raise InputError(f"Cannot write in the folder {folder}: {error.strerror}. Choose another one.") from error
        # kept from the start: memory that is freed and taken again leaves holes, and the process grows
        self._buffers = [torch.empty(tile**2, dtype=torch.float64) for _ in range(STREAMING)]
        self._worker = ThreadPoolExecutor(1)  # one: requests are done in the order in which they come
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, self.size)
            else:
                self._file.truncate(self.size)
        except OSError as error:
            self.close()
            self._refuse(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the disk."""
        self._worker.shutdown()
        self._file.close()

    @property
    def count(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return -(-self.shape[0] // self.tile), -(-self.shape[1] // self.tile)

    def span(self, number: int, axis: int = 0) -> slice:
        """Rows of the matrix (axis 1: columns) that the tiles with this number cover."""
        return slice(number * self.tile, min((number + 1) * self.tile, self.shape[axis]))

    def read(self, at: At, out: Tensor) -> Tensor:
        """The tile, as a view of the beginning of `out`, which holds tile² numbers or more."""
        view, offset = self._view(at, out)
        self.bytes_read += self._moved(os.preadv, view, offset)
        return view

    def write(self, at: At, tile: Tensor) -> None:
        view, offset = self._view(at, tile.contiguous().view(-1))
        try:
            self.bytes_written += self._moved(os.pwritev, view, offset)
        except OSError as error:
            self._refuse(error)

    def _moved(self, move: Callable[[int, list[memoryview], int], int], tile: Tensor, offset: int) -> int:
        """Bytes read or written: all of the tile, though the system may move a part at a time."""
        with tile.numpy().data.cast("B") as data:
            done = 0
            while done < len(data):
                n = move(self._file.fileno(), [data[done:]], offset + done)
                if n == 0:
                    raise OSError(errno.EIO, f"The scratch file in {self.folder} ends too early")
                done += n
        return done

    def stream(self, places: Sequence[At], *, keep: bool = False) -> Iterator[tuple[At, Tensor]]:
        """Each tile in turn, while the next one is read. `keep`: a tile is written back, changed, after its turn.

        One stream at a time. The memory of a tile is used again when the one after the next is asked for.
        """
        buffers = self._buffers[: STREAMING if keep else 2]
        writes: deque[Future[None]] = deque()
        ahead = self._worker.submit(self.read, places[0], buffers[0]) if places else None
        try:
            for k, at in enumerate(places):
                assert ahead is not None
                tile = ahead.result()
                if k + 1 < len(places):
                    # the worker has by then written what this buffer held two tiles ago: that was asked for before
                    ahead = self._worker.submit(self.read, places[k + 1], buffers[(k + 1) % len(buffers)])
                yield at, tile
                if keep:
                    writes.append(self._worker.submit(self.write, at, tile))
                while len(writes) >= STREAMING:
                    writes.popleft().result()
            while writes:
                writes.popleft().result()
        finally:
            for waiting in (ahead, *writes):  # left midway: the worker must not write into a buffer that is gone
                if waiting is not None:
                    with contextlib.suppress(Exception):
                        waiting.result()

    def _view(self, at: At, flat: Tensor) -> tuple[Tensor, int]:
        """The beginning of `flat` in the shape of a tile, and the offset of the tile in the file, in bytes."""
        i, j = at
        slot = i * (i + 1) // 2 + j if self.symmetric else i * self.count[1] + j
        rows, columns = self.span(i), self.span(j, 1)
        height, width = rows.stop - rows.start, columns.stop - columns.start
        return flat[: height * width].view(height, width), 8 * self.tile**2 * slot

    def _refuse(self, error: OSError) -> NoReturn:
        """Raise a ResourceError that says how much disk is wanted if the disk is full, else `error`."""
        if not is_full(error):
            raise error
        raise ResourceError(
            f"A matrix on disk needs {self.size / GIB:.2f} GiB in {self.folder}, which has "
            f"{shutil.disk_usage(self.folder).free / GIB:.2f} GiB free ({error.strerror}). Choose another folder for "
            "scratch files, or use fewer features."
        ) from error
