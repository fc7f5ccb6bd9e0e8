"""Downloads of public data sets: checked by their SHA-256 before use, unpacked one file at a time, never executed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..errors import InputError, ResourceError
from ..machine.files import atomic, sha256
from ..machine.memory import GIB
from .entries import Download

CACHE_VARIABLE = "QML_LIGHTNING_CACHE"
MOST_BYTES = 20 * GIB  # of a download, and of a file in an archive
CHUNK = 1 << 20
SECONDS = 60.0  # without an answer
HERE = {"localhost", "127.0.0.1", "::1"}

Tell = Callable[[int, int], None]  # bytes so far, and of all (0: not known)


def cache_folder() -> Path:
    """Folder for downloads: $QML_LIGHTNING_CACHE, or qml-lightning in the cache folder of the user."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qml-lightning"


def cached(download: Download) -> Path | None:
    """Path of the file that was downloaded before, None if it was not; an InputError if it has changed since then."""
    path = _place(download)
    if not path.is_file() or not _record(path).is_file():
        return None
    recorded, now = _record(path).read_text(encoding="ascii", errors="replace").strip(), sha256(path)
    if now != recorded or (not download.member and not now.startswith(download.digits)):
        raise InputError(
            f"{path} is not what was downloaded: its SHA-256 is {now[:12]}…, wanted {recorded[:12]}…. Delete it, and "
            "download it again."
        )
    return path


def fetch(download: Download, tell: Tell = lambda done, of: None) -> Path:
    """Path of the file, downloaded if it is not there yet. Nothing is kept unless its SHA-256 has the known digits."""
    if (there := cached(download)) is not None:
        return there
    path = _place(download)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not download.member:
        with atomic(path, overwrite=True) as temporary:
            _receive(download, temporary, tell)
        _keep_record(path)
        return path
    with atomic(path, overwrite=True) as temporary:
        packed = temporary.with_suffix(".packed")
        try:
            _receive(download, packed, tell)
            _unpack(packed, download, temporary)
        finally:
            packed.unlink(missing_ok=True)
    _keep_record(path)
    return path


def _place(download: Download) -> Path:
    name = Path(download.member or download.name).name
    return cache_folder() / download.digits[:12] / name


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _keep_record(path: Path) -> None:
    """Keep the full SHA-256 beside the file: from now on all its digits are checked."""
    with atomic(_record(path), overwrite=True) as temporary:
        temporary.write_text(sha256(path) + "\n", encoding="ascii")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request: Any, fp: Any, code: int, message: str, headers: Any, url: str) -> Any:
        _refuse_unsafe(url)
        return super().redirect_request(request, fp, code, message, headers, url)


def _refuse_unsafe(url: str) -> None:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in HERE):
        raise InputError(f"{url} is no https address, and is not read.")


def _receive(download: Download, path: Path, tell: Tell) -> None:
    """Write what the address gives to `path`; an InputError if its SHA-256 is another."""
    _refuse_unsafe(download.url)
    digest, done = hashlib.sha256(), 0
    try:
        with (
            urllib.request.build_opener(_SafeRedirects).open(download.url, timeout=SECONDS) as answer,
            open(path, "wb") as file,
        ):
            of = int(answer.headers.get("Content-Length") or 0)
            _require_room(max(of, 1), path.parent)
            while chunk := answer.read(CHUNK):
                done += len(chunk)
                if done > MOST_BYTES:
                    raise InputError(f"{download.url} gives more than {MOST_BYTES / GIB:.0f} GiB. It was left.")
                digest.update(chunk)
                file.write(chunk)
                tell(done, of)
    except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"{download.url} could not be downloaded ({reason}). Without a network, copy the file from another machine "
            "and give its path."
        ) from error
    if not digest.hexdigest().startswith(download.digits):
        raise InputError(
            f"{download.url} gives another file than the catalogue knows: its SHA-256 begins with "
            f"{digest.hexdigest()[:12]}, wanted {download.digits[:12]}. It was deleted."
        )


def _require_room(needed: int, folder: Path) -> None:
    if needed > (free := shutil.disk_usage(folder).free):
        raise ResourceError(f"The download has {needed / GIB:.1f} GiB, and {folder} has {free / GIB:.1f} GiB left.")


def _unpack(archive: Path, download: Download, path: Path) -> None:
    """Write one file of a zip or tar archive to `path`. No name of the archive becomes a path."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed, packed.open(download.member) as member:
                _copy(member, path)
            return
        with tarfile.open(archive) as tar:
            entry = tar.getmember(download.member)
            found = tar.extractfile(entry) if entry.isfile() else None
            if found is None:
                raise KeyError(f"{download.member} is no file")
            _copy(found, path)
    except (KeyError, zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{download.name} cannot be unpacked ({error}).") from error


def _copy(member: IO[bytes], path: Path) -> None:
    done = 0
    with open(path, "wb") as file:
        while chunk := member.read(CHUNK):
            done += len(chunk)
            if done > MOST_BYTES:
                raise InputError(f"A file of the archive has more than {MOST_BYTES / GIB:.0f} GiB. It was left.")
            file.write(chunk)
