"""Files are written whole or not at all, and a bad output path is found out before the work."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys

import pytest

from qml_lightning.errors import InputError, ResourceError
from qml_lightning.machine.files import (
    atomic,
    check_output,
    is_full,
    sha256,
    sweep_up,
    write_atomically,
    write_or_rescue,
)


def test_sha256_is_that_of_hashlib(tmp_path):
    path = tmp_path / "some"
    path.write_bytes(b"x" * 3_000_000)
    assert sha256(path) == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_an_existing_file_is_refused_and_left_as_it_was(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    with pytest.raises(InputError, match=r"exists"):
        check_output(path)
    with pytest.raises(InputError, match=r"exists"), atomic(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "old"


def test_an_existing_file_is_replaced_when_asked_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(0o640)
    with atomic(path, overwrite=True) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"  # until the end
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_is_read_is_never_replaced(tmp_path):
    path, link = tmp_path / "data.extxyz", tmp_path / "link"
    path.write_text("labels")
    link.symlink_to(path)
    for output in (path, link, tmp_path / "." / "data.extxyz"):
        with pytest.raises(InputError, match="is read by this command"):
            check_output(output, True, [tmp_path / "not there", path])
    assert check_output(path, True, [tmp_path / "not there"]) == path.resolve()


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_atomically(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_block_that_fails_leaves_nothing_behind(tmp_path):
    def fail():
        with atomic(tmp_path / "model") as temporary:
            temporary.write_text("half")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match=r"stopped"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_came_meanwhile_is_kept_and_so_is_ours(tmp_path):
    path = tmp_path / "model"

    def write():
        with atomic(path) as temporary:
            temporary.write_text("ours")
            path.write_text("theirs")

    with pytest.raises(InputError, match=r"meanwhile"):
        write()
    assert path.read_text() == "theirs"
    assert [p.read_text() for p in tmp_path.iterdir() if p != path] == ["ours"]


def test_a_missing_folder_is_named_with_the_remedy(tmp_path):
    with pytest.raises(InputError, match=r"mkdir -p .*nowhere"):
        check_output(tmp_path / "nowhere" / "model")


def test_a_folder_is_no_output(tmp_path):
    with pytest.raises(InputError, match=r"is a folder"):
        check_output(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and /dev/null")
def test_a_folder_that_cannot_be_written_and_a_device_are_refused():
    with pytest.raises(InputError, match=r"Cannot write in the folder /proc"):
        check_output("/proc/model")
    with pytest.raises(InputError, match=r"device"):
        check_output("/dev/null", overwrite=True)  # moving a file in its place would break the machine


def test_checking_leaves_no_trace(tmp_path):
    assert check_output(tmp_path / "model") == tmp_path / "model"
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    os.symlink(tmp_path / "real", tmp_path / "link")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize(
    ("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EFBIG, True), (errno.EIO, False)]
)
def test_a_full_disk_a_quota_and_a_limit_are_told_from_other_errors(number, full):
    assert is_full(OSError(number, os.strerror(number))) is full


def test_a_read_only_file_is_refused_before_the_work_even_with_overwrite(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(InputError, match=r"read-only and not overwritten. Allow it with chmod u\+w"):
        check_output(path, overwrite=True)
    assert path.read_text() == "old"


def test_content_that_cannot_take_its_place_is_kept_beside_it(tmp_path):
    path = tmp_path / "model.safetensors"

    def write():
        with atomic(path) as temporary:
            temporary.write_text("long work")
            path.mkdir()  # nothing can be moved onto a folder

    path.parent.joinpath("model-1.safetensors").write_text("other")
    with pytest.raises((InputError, ResourceError), match=r"model-2\.safetensors"):
        write()
    assert (tmp_path / "model-2.safetensors").read_text() == "long work"
    assert (tmp_path / "model-1.safetensors").read_text() == "other"


def test_a_result_is_rescued_into_another_folder_when_its_own_is_gone(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(ResourceError, match=r"does not exist.*Nothing is lost: it is in .*here/model-1\.qml"):
        write_or_rescue(tmp_path / "gone" / "model.qml", lambda path: write_atomically(path, b"x", overwrite=False))
    assert (here / "model-1.qml").read_bytes() == b"x"


def test_a_result_is_rescued_beside_a_file_that_came_meanwhile(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)  # the next place to be tried, which must not be the repository
    (tmp_path / "model.qml").write_text("theirs")
    with pytest.raises(ResourceError, match=r"model\.qml exists.*Nothing is lost: it is in .*model-1\.qml"):
        write_or_rescue(tmp_path / "model.qml", lambda path: write_atomically(path, b"ours", overwrite=False))
    assert (tmp_path / "model.qml").read_text() == "theirs"
    assert (tmp_path / "model-1.qml").read_bytes() == b"ours"
    assert list(here.iterdir()) == []


def test_a_result_that_is_written_where_it_should_be_is_not_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_or_rescue(tmp_path / "model.qml", lambda path: write_atomically(path, b"x"))
    assert [path.name for path in tmp_path.iterdir()] == ["model.qml"]


def test_temporary_files_of_killed_processes_are_swept_up(tmp_path):
    path = tmp_path / "model"

    def interrupt():
        with atomic(path) as temporary:
            os.link(temporary, tmp_path / temporary.name.replace(".tmp", "0.tmp"))  # what kill -9 would leave
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert len(list(tmp_path.iterdir())) == 1
    sweep_up(path)
    assert list(tmp_path.iterdir()) == []
