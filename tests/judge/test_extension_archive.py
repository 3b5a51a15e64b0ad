"""Built extensions are kept by source; what a hostile process packed can damage only itself."""

from __future__ import annotations

import contextlib
import io
import tarfile
from pathlib import Path

import pytest

from bottega.judge.build_cache import LARGEST_ARCHIVE, archive_path, keep, pack, unpack, wants_cache


def test_only_sources_that_build_extensions_want_it() -> None:
    assert wants_cache("from torch.utils.cpp_extension import load_inline")
    assert not wants_cache("from bottega.runtime import cpp")


def test_an_archive_belongs_to_one_source(tmp_path: Path) -> None:
    assert archive_path(str(tmp_path), "a") == archive_path(str(tmp_path), "a")
    assert archive_path(str(tmp_path), "a") != archive_path(str(tmp_path), "a ")


def test_what_was_built_comes_back(tmp_path: Path) -> None:
    built = tmp_path / "built" / "mine"
    built.mkdir(parents=True)
    (built / "mine.so").write_bytes(b"\x7fELF" * 100)
    (built / "link").symlink_to("/etc/passwd")
    unpack(pack(str(tmp_path / "built")), str(tmp_path / "again"))
    assert (tmp_path / "again" / "mine" / "mine.so").read_bytes() == b"\x7fELF" * 100
    assert not (tmp_path / "again" / "mine" / "link").exists()


def test_nothing_built_is_nothing_kept(tmp_path: Path) -> None:
    assert pack(str(tmp_path)) == b""
    assert pack(str(tmp_path / "missing")) == b""


def test_too_much_is_not_kept(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(LARGEST_ARCHIVE)
    assert pack(str(tmp_path)) == b""


@pytest.mark.parametrize("name", ["../escaped", "/tmp/escaped-from-an-archive"])
def test_an_archive_cannot_write_elsewhere(tmp_path: Path, name: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    inside = tmp_path / "inside"
    with contextlib.suppress(tarfile.TarError):
        unpack(buffer.getvalue(), str(inside))
    assert not (tmp_path / "escaped").exists()
    assert not Path("/tmp/escaped-from-an-archive").exists()


def test_keeping_replaces_whole_files(tmp_path: Path) -> None:
    path = archive_path(str(tmp_path), "source")
    keep(path, b"one")
    keep(path, b"two")
    assert path.read_bytes() == b"two"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_loses_only_the_archive(tmp_path: Path) -> None:
    (tmp_path / "extensions").write_text("a file where the folder should be")
    keep(archive_path(str(tmp_path), "source"), b"data")
