"""Files: checksums, and writing that leaves the whole new file or the old one."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..errors import InputError, ResourceError

# Error numbers of a file system that cannot flush.
NO_FLUSH = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EROFS}


def is_full(error: OSError) -> bool:
    """Whether a disk, a quota or a limit on the size of files is used up."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def sha256(path: str | os.PathLike[str]) -> str:
    """Hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_output(
    path: str | os.PathLike[str], overwrite: bool = False, inputs: Iterable[str | os.PathLike[str]] = ()
) -> Path:
    """Path to write to, with links followed; an InputError if writing there would fail or destroy something.

    Call it before any work: a long fit must not end at a folder that cannot be written. A file of `inputs` is never
    replaced, whatever `overwrite` says.
    """
    given = Path(path).expanduser()
    path = Path(os.path.realpath(given))
    if path.is_dir():
        raise InputError(f"{given} is a folder. Give the name of a file in it, such as {given / 'model.safetensors'}.")
    if path.exists() and not path.is_file():
        raise InputError(f"{given} is a device or a pipe, not a file. Files are written whole and then moved in place.")
    if path.exists() and any(_same_file(path, one) for one in inputs):
        raise InputError(
            f"{given} is read by this command, and would be replaced by its output. Give the output another name."
        )
    if path.exists() and not overwrite:
        raise InputError(f"{given} exists and is not overwritten. Choose another name, or ask for --overwrite.")
    if path.exists():
        _refuse_protected(given, path)
    if not path.parent.is_dir():
        raise InputError(f"The folder {path.parent} does not exist. Make it first: mkdir -p {path.parent}")
    try:
        # permissions do not tell: the disk may be read-only, or the user an administrator
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"Cannot write in the folder {path.parent}: {error.strerror}. Choose another one.") from error
    return path


def _same_file(path: Path, other: str | os.PathLike[str]) -> bool:
    try:
        return os.path.samefile(path, Path(other).expanduser())
    except (OSError, RuntimeError, ValueError):  # it is no file
        return False


@contextlib.contextmanager
def atomic(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Temporary path in the same folder. It becomes `path` when the block ends well, and is removed when it fails."""
    path = check_output(path, overwrite)
    temporary = temporary_beside(path)
    try:
        # made inside the block: a signal right after it must not leave the file behind
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield temporary
        settle(temporary, path)
    except BaseException as problem:
        temporary.unlink(missing_ok=True)
        if isinstance(problem, OSError) and is_full(problem):
            text = f"{meant_by(path)} was not written: {problem.strerror}. A file that was there before is unharmed."
            raise ResourceError(f"{text} Make room in {path.parent}, or choose another folder.") from problem
        raise
    if path.exists() and not overwrite:  # it appeared during the block: keep both
        raise InputError(
            f"{path} was made by someone else meanwhile. The new content is kept as {_beside(temporary, path)}."
        )
    try:
        os.replace(temporary, path)
    except OSError as problem:
        kept = _beside(temporary, path)
        raise ResourceError(
            f"{path} cannot be replaced: {problem.strerror}. The new content is in {kept}."
        ) from problem
    flush(path.parent)


def meant_by(path: str | os.PathLike[str]) -> Path:
    """The path for messages: of a temporary file the name that it will get, else the path itself."""
    path = Path(path)
    found = re.fullmatch(r"\.(.+)\.[0-9a-f]{12}\.tmp", path.name)
    return meant_by(path.with_name(found[1])) if found else path


def temporary_beside(path: Path) -> Path:
    """Name of a new temporary file in the folder of `path`; `sweep_up` knows such names."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


def settle(temporary: Path, path: Path) -> None:
    """Force a complete temporary file to the disk, and give it the permissions that `path` has or would have."""
    flush(temporary)
    with contextlib.suppress(PermissionError):  # a file system without permissions
        temporary.chmod(_mode(path))


def write_or_rescue(path: str | os.PathLike[str], write: Callable[[Path], None]) -> None:
    """Call `write(path)`. If that fails, write elsewhere, and raise a ResourceError that says where.

    For results of long work: the folder may be full or gone by now, or hold a file of that name.
    """
    path = Path(path).expanduser()
    try:
        write(path)
    except (OSError, InputError, ResourceError) as problem:
        for folder in (path.parent, Path.cwd(), Path(tempfile.gettempdir())):
            other = _free_name(folder / path.name)
            if _written(write, other):
                raise ResourceError(f"{_said(problem)} Nothing is lost: it is in {other}.") from problem
        raise


def _written(write: Callable[[Path], None], path: Path) -> bool:
    try:
        write(path)
    except (OSError, InputError, ResourceError):
        return False
    return True


def _said(problem: Exception) -> str:
    said = str(problem) if isinstance(problem, (InputError, ResourceError)) else ""
    return said or f"The file was not written ({problem})."


def _free_name(path: Path) -> Path:
    """`path` with a number before its suffix, so that no file has this name."""
    number = 1
    while (other := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    return other


def _beside(temporary: Path, path: Path) -> Path:
    """Rename the temporary file to a visible name beside `path`. Return its new path, or the old one if that fails."""
    other = _free_name(path)
    try:
        os.replace(temporary, other)
    except OSError:
        return temporary
    return other


def _refuse_protected(given: Path, path: Path) -> None:
    """Raise an InputError for a file that its owner protected, or that only another user may replace."""
    its, folder = path.stat(), path.parent.stat()
    if not its.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise InputError(f"{given} is read-only and not overwritten. Allow it with chmod u+w, or choose another name.")
    user = os.geteuid() if hasattr(os, "geteuid") else its.st_uid
    if folder.st_mode & stat.S_ISVTX and user not in (0, its.st_uid, folder.st_uid):
        raise InputError(f"{given} belongs to another user, and only that one may replace it. Choose another name.")


def sweep_up(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of `path` that killed processes left. Only for a file that nobody else writes."""
    path = Path(os.path.realpath(Path(path).expanduser()))
    for dots in (".", ".."):  # two: a temporary file of a temporary file
        for left in path.parent.glob(f"{dots}{glob.escape(path.name)}.*.tmp"):
            left.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], data: bytes, *, overwrite: bool = True) -> None:
    """Write `data` as the whole content of `path`. A reader sees the old file or the new one, never a part of it."""
    with atomic(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(data)


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or of any new file: mkstemp lets only the owner read."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def flush(path: Path) -> None:
    """Force `path` to the disk: a power cut after `os.replace` must not leave an empty file."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in NO_FLUSH:  # a disk may report only now that it is full
            raise
    finally:
        os.close(handle)
