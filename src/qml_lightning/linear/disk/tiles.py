"""A matrix in square tiles in one scratch file, for what is larger than memory. Knows no equations."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import NoReturn

import torch
from torch import Tensor

from ...errors import InputError, ResourceError
from ...machine.memory import GIB

Place = tuple[int, int]  # row and column of a tile
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Tiles in memory while they stream past: one is read, one is in use, one is written.
STREAMING = 3


def default_scratch() -> Path:
    """$TMPDIR, or /var/tmp: unlike /tmp it is on a disk, not in memory."""
    given = os.environ.get("TMPDIR")
    return Path(given or ("/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()))


class TileFile:
    """A float64 matrix in tiles; of a symmetric one the lower triangle, its diagonal tiles whole.

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
        # kept from the start: what is freed and taken again leaves holes, and the process grows
        self._buffers = [torch.empty(tile**2, dtype=torch.float64) for _ in range(STREAMING)]
        self._worker = ThreadPoolExecutor(1)  # one: what is asked for first is done first
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), 0, self.size)
            else:
                self._file.truncate(self.size)
        except OSError as error:
            self.close()
            self._refuse(error)

    def __enter__(self) -> TileFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the disk back."""
        self._worker.shutdown()
        self._file.close()

    @property
    def count(self) -> tuple[int, int]:
        """Rows and columns of tiles."""
        return -(-self.shape[0] // self.tile), -(-self.shape[1] // self.tile)

    def span(self, at: int, axis: int = 0) -> slice:
        """Rows (or columns: axis 1) of the matrix that tile number `at` covers."""
        return slice(at * self.tile, min((at + 1) * self.tile, self.shape[axis]))

    def read(self, place: Place, out: Tensor) -> Tensor:
        """The tile, as a view of the beginning of `out`, (tile², ) or larger."""
        view, offset = self._view(place, out)
        with view.numpy().data.cast("B") as data:
            done = 0
            while done < len(data):
                n = os.preadv(self._file.fileno(), [data[done:]], offset + done)
                if n == 0:
                    raise OSError(errno.EIO, f"The scratch file in {self.folder} ends too early")
                done += n
            self.bytes_read += done
        return view

    def write(self, place: Place, tile: Tensor) -> None:
        """Put `tile` in its place."""
        view, offset = self._view(place, tile.contiguous().view(-1))
        with view.numpy().data.cast("B") as data:
            done = 0
            try:
                while done < len(data):
                    done += os.pwritev(self._file.fileno(), [data[done:]], offset + done)
            except OSError as error:
                self._refuse(error)
            self.bytes_written += done

    def stream(self, places: Sequence[Place], *, keep: bool = False) -> Iterator[tuple[Place, Tensor]]:
        """Each tile in turn, the next one read meanwhile. `keep`: what is done to a tile is written back, meanwhile.

        One stream at a time. A tile is gone when the one after the next is asked for.
        """
        buffers = self._buffers[: STREAMING if keep else 2]
        writes: deque[Future[None]] = deque()
        ahead = self._worker.submit(self.read, places[0], buffers[0]) if places else None
        try:
            for at, place in enumerate(places):
                assert ahead is not None
                tile = ahead.result()
                if at + 1 < len(places):
                    # a write from this buffer, two tiles ago, was asked for before and so is over by then
                    ahead = self._worker.submit(self.read, places[at + 1], buffers[(at + 1) % len(buffers)])
                yield place, tile
                if keep:
                    writes.append(self._worker.submit(self.write, place, tile))
                while len(writes) >= STREAMING:
                    writes.popleft().result()
            while writes:
                writes.popleft().result()
        finally:
            for waiting in (ahead, *writes):  # left midway: nobody may write into a buffer that is gone
                if waiting is not None:
                    with contextlib.suppress(Exception):
                        waiting.result()

    def _view(self, place: Place, flat: Tensor) -> tuple[Tensor, int]:
        """The numbers of a tile at the beginning of `flat`, and where they are in the file."""
        i, j = place
        slot = i * (i + 1) // 2 + j if self.symmetric else i * self.count[1] + j
        rows, columns = self.span(i), self.span(j, 1)
        height, width = rows.stop - rows.start, columns.stop - columns.start
        return flat[: height * width].view(height, width), 8 * self.tile**2 * slot

    def _refuse(self, error: OSError) -> NoReturn:
        """The same error, or one that tells how much disk is wanted."""
        if error.errno not in FULL:
            raise error
        raise ResourceError(
            f"A matrix on disk needs {self.size / GIB:.2f} GiB in {self.folder}, which has "
            f"{shutil.disk_usage(self.folder).free / GIB:.2f} GiB free ({error.strerror}). Choose another folder for "
            "scratch files, or use fewer features."
        ) from error
