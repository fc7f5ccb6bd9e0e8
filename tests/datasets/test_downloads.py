"""Downloads of public data sets, from a server of our own on this machine."""

from __future__ import annotations

import hashlib
import http.server
import io
import re
import shutil
import tarfile
import threading
import tomllib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from places import ROOT
from qml_lightning.cli import main
from qml_lightning.datasets import catalogue, load
from qml_lightning.datasets.downloads import CACHE_VARIABLE, cached, fetch
from qml_lightning.datasets.entries import KCAL, Download, Entry
from qml_lightning.errors import InputError

XYZ = b"1\nProperties=species:S:1:pos:R:3 energy=-1.5\nH 0.0 0.0 0.0\n"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Folder that an HTTP server of this machine gives out, and its address."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(catalogue.FOLDER_VARIABLE, raising=False)
    folder = tmp_path / "public"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *rest):
            super().__init__(*rest, directory=str(folder))

        def do_GET(self):
            if self.path == "/away":
                self.send_response(302)
                self.send_header("Location", "ftp://127.0.0.1/set.xyz")
                self.end_headers()
            else:
                super().do_GET()

        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()
    thread.join()


def published(server, name: str, data: bytes, **more) -> Download:
    folder, address = server
    (folder / name).write_bytes(data)
    return Download(f"{address}/{name}", hashlib.sha256(data).hexdigest()[:12], name, **more)


def tar_with(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:bz2") as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def zip_with(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, data in members:
            packed.writestr(name, data)
    return out.getvalue()


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_is_downloaded_once_and_its_full_checksum_recorded(server):
    download = published(server, "set.xyz", XYZ)
    path = fetch(download)
    assert path.read_bytes() == XYZ
    assert path.with_name("set.xyz.sha256").read_text().strip() == hashlib.sha256(XYZ).hexdigest()
    shutil.rmtree(server[0])
    assert fetch(download) == path


def test_another_file_than_the_catalogue_knows_is_not_kept(server, tmp_path):
    download = published(server, "set.xyz", XYZ)
    (server[0] / "set.xyz").write_bytes(XYZ.replace(b"1.5", b"1.6"))
    with pytest.raises(InputError, match=rf"another file than the catalogue knows.*wanted {download.digits}"):
        fetch(download)
    assert everything_below(tmp_path / "cache") == []


@pytest.mark.parametrize("packed", [tar_with, zip_with])
def test_one_file_of_an_archive_is_unpacked_and_nothing_else(server, tmp_path, packed):
    data = packed(("../../evil.xyz", b"no"), ("/tmp/evil.xyz", b"no"), ("deep/in/set.xyz", XYZ))
    path = fetch(published(server, "archive", data, member="deep/in/set.xyz"))
    assert path.read_bytes() == XYZ
    assert [name.rpartition("/")[2] for name in everything_below(tmp_path / "cache")] == ["set.xyz", "set.xyz.sha256"]
    assert not list(tmp_path.rglob("evil.xyz"))


@pytest.mark.parametrize("member", ["there is none", "link", "folder"])
def test_a_member_that_is_no_file_is_refused(server, tmp_path, member):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    with pytest.raises(InputError, match=r"cannot be unpacked"):
        fetch(published(server, "archive", out.getvalue(), member=member))
    assert everything_below(tmp_path / "cache") == []


def test_a_download_that_was_changed_afterwards_is_refused(server):
    download = published(server, "archive", zip_with(("set.xyz", XYZ)), member="set.xyz")
    path = fetch(download)
    path.write_bytes(XYZ + b" ")
    with pytest.raises(InputError, match=r"is not what was downloaded.*Delete it"):
        cached(download)


@pytest.mark.parametrize("url", ["http://example.org/set.xyz", "file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_only_https_is_read(server, url):
    with pytest.raises(InputError, match=r"is no https address"):
        fetch(Download(url, "0" * 12, "set.xyz"))


def test_a_redirection_to_what_is_not_https_is_refused(server):
    with pytest.raises(InputError, match=r"ftp.* is no https address"):
        fetch(Download(f"{server[1]}/away", "0" * 12, "set.xyz"))


def test_a_missing_file_or_network_is_told(server):
    with pytest.raises(InputError, match=r"could not be downloaded .*not found.*copy the file from another machine"):
        fetch(Download(f"{server[1]}/nothing.xyz", "0" * 12, "nothing.xyz"))


def test_a_set_is_asked_for_then_downloaded_by_the_command_and_read_by_its_name(server, monkeypatch, capsys):
    with np.load(ROOT / "src" / "qml_lightning" / "datasets" / "data" / "ethanol.npz") as ours:
        out = io.BytesIO()
        np.savez(out, **{key: ours[key][:3] for key in ("coords", "energies", "forces")},
                 nuclear_charges=ours["nuclear_charges"])  # fmt: skip
    member = "rmd17/npz_data/rmd17_azobenzene.npz"
    archive = tar_with((member, out.getvalue()))
    download = published(server, "rmd17.tar.bz2", archive, member=member, units=KCAL, note="the full trajectory")
    entry = replace(catalogue.named("rmd17_azobenzene"), download=download)
    monkeypatch.setitem(catalogue._BY_NAME, entry.name, entry)
    with pytest.raises(InputError, match=r"was not found.*qml-lightning datasets --download rmd17_azobenzene"):
        load("rmd17_azobenzene")
    assert main(["datasets", "--download", "rmd17_azobenzene"]) == 0
    assert "rmd17_azobenzene is in" in capsys.readouterr().out
    data, same = load("rmd17_azobenzene"), load("ethanol", limit=3)
    assert data.labels.energies.tolist() == same.labels.energies.tolist()
    assert "the full trajectory" in data.source.notes[0]


def test_a_set_without_a_download_is_answered_with_those_that_have_one(server):
    with pytest.raises(InputError, match=r"no download of 'snap_Ta'. There is one of .*C-GAP-17"):
        catalogue.download("snap_Ta")


def test_every_download_of_the_catalogue_has_an_https_address_and_a_checksum():
    for entry in catalogue.ENTRIES:
        assert isinstance(entry, Entry)
        if entry.download is not None:
            assert entry.download.url.startswith("https://")
            assert len(entry.download.digits) >= 12
            assert set(entry.download.digits) <= set("0123456789abcdef")


def test_no_reader_unpickles_anything():
    for path in (ROOT / "src" / "qml_lightning" / "datasets").rglob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert "allow_pickle=True" not in text


def test_no_other_package_reads_data_sets_from_a_cache_that_it_unpickles():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    assert not [one for one in wanted if one.startswith("load-atoms")]
    for path in (ROOT / "src" / "qml_lightning").rglob("*.py"):
        assert not re.search(r"(import|from) load_atoms", path.read_text()), path
