"""A file is there with all its contents, or it is as it was before."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from hera_fast.atomic import replacing


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a file"


def test_the_file_appears_at_the_end(path):
    with replacing(path, "note") as file:
        file.write(b"one ")
        assert not path.exists()
        file.write(b"two")
    assert path.read_bytes() == b"one two"
    assert os.listdir(path.parent) == [path.name]


def test_the_old_file_stays_until_then(path):
    path.write_bytes(b"old and long")
    with replacing(path, "note") as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old and long"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("old", [None, b"old"])
def test_an_error_in_the_block_changes_nothing(path, old, error):
    def write_half():
        with replacing(path, "note") as file:
            file.write(b"half of it")
            raise error

    if old is not None:
        path.write_bytes(old)
    with pytest.raises(type(error)):
        write_half()
    assert (path.read_bytes() if path.exists() else None) == old
    assert os.listdir(path.parent) == ([] if old is None else [path.name])


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_an_error_after_the_block_changes_nothing(path, function, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    path.write_bytes(b"old")
    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match="disk full"), replacing(path, "note") as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == [path.name]


def test_the_contents_are_on_the_disk_before_the_name_is(path, monkeypatch):
    calls = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda *given: (calls.append("fsync"), sync(*given)))
    monkeypatch.setattr(os, "replace", lambda *given: (calls.append("replace"), replace(*given)))
    with replacing(path, "note") as file:
        file.write(b"new")
        assert not calls
    assert calls == ["fsync", "replace"]


def test_missing_folder(tmp_path):
    with (
        pytest.raises(
            FileNotFoundError, match=r"folder of the note file does not .*nowhere"
        ) as info,
        replacing(tmp_path / "nowhere" / "file", "note"),
    ):
        pytest.fail("the block ran")
    assert info.value.filename == str(tmp_path / "nowhere" / "file")


def test_folder_instead_of_file(tmp_path):
    with (
        pytest.raises(IsADirectoryError, match="a note is written to a file"),
        replacing(tmp_path, "note"),
    ):
        pytest.fail("the block ran")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_permissions(path):
    path.write_bytes(b"old")
    path.chmod(0o640)
    with replacing(path, "note") as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="links need special rights on Windows")
def test_links_are_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file")
    with replacing(tmp_path / "link", "note") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "file").read_bytes() == b"new"
