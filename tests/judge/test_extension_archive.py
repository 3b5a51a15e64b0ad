"""Built extensions are kept by source; what a hostile process packed can damage only itself."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from bottega.judge.build_cache import LARGEST_ARCHIVE, archive_path, keep, lend, pack, unpack, wants_cache


def test_only_sources_that_build_extensions_want_it() -> None:
    assert wants_cache("from torch.utils.cpp_extension import load_inline")
    assert not wants_cache("from bottega.runtime import cpp")


def test_an_archive_belongs_to_one_source_and_task(tmp_path: Path) -> None:
    assert archive_path(str(tmp_path), "task", "a") == archive_path(str(tmp_path), "task", "a")
    assert archive_path(str(tmp_path), "task", "a") != archive_path(str(tmp_path), "task", "a ")
    assert archive_path(str(tmp_path), "task", "a") != archive_path(str(tmp_path), "other", "a"), "a task could forge it"


def test_what_was_built_comes_back(tmp_path: Path) -> None:
    built = tmp_path / "built" / "mine"
    built.mkdir(parents=True)
    (built / "mine.so").write_bytes(b"\x7fELF" * 100)
    os.utime(built / "mine.so", ns=(0, 1_794_925_592_308_311_385))
    (built / "link").symlink_to("/etc/passwd")
    unpack(pack(str(tmp_path / "built")), str(tmp_path / "again"))
    assert (tmp_path / "again" / "mine" / "mine.so").read_bytes() == b"\x7fELF" * 100
    assert (tmp_path / "again" / "mine" / "mine.so").stat().st_mtime_ns == 1_794_925_592_000_000_000, "newer is built anew"
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
    path = archive_path(str(tmp_path), "task", "source")
    keep(path, b"one")
    keep(path, b"two")
    assert path.read_bytes() == b"two"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_loses_only_the_archive(tmp_path: Path) -> None:
    (tmp_path / "extensions").write_text("a file where the folder should be")
    keep(archive_path(str(tmp_path), "task", "source"), b"data")


def test_what_was_built_in_lent_room_is_lent_the_next_time(tmp_path: Path) -> None:
    source = "from torch.utils.cpp_extension import load_inline"
    first = lend(str(tmp_path), "task", source)
    assert first is not None and first.message == {"archive": "empty"}
    assert os.fstat(first.descriptor).st_size == LARGEST_ARCHIVE
    os.pwrite(first.descriptor, b"built", 0)
    first.take_back(5)
    first.close()
    again = lend(str(tmp_path), "task", source)
    assert again is not None and again.message == {"archive": "kept"} and os.pread(again.descriptor, 99, 0) == b"built"
    with pytest.raises(PermissionError):
        os.pwrite(again.descriptor, b"other", 0)
    again.take_back(5)
    assert again.path.read_bytes() == b"built", "what is kept is not replaced"
    again.take_back("damaged")
    assert not again.path.exists()
    again.close()


def test_lent_room_does_not_grow(tmp_path: Path) -> None:
    """Or else a candidate could fill it, close it, and have the memory count for nobody."""
    lent = lend(str(tmp_path), "task", "load_inline")
    assert lent is not None
    with pytest.raises(PermissionError):
        os.ftruncate(lent.descriptor, LARGEST_ARCHIVE + 1)
    with pytest.raises(PermissionError):
        os.pwrite(lent.descriptor, b"more", LARGEST_ARCHIVE)
    lent.close()


@pytest.mark.parametrize("told", [None, 0, -1, LARGEST_ARCHIVE + 1, "5", [5], "damaged"])
def test_a_controller_s_word_about_an_archive_is_no_more_than_a_number(tmp_path: Path, told: object) -> None:
    lent = lend(str(tmp_path), "task", "load_inline")
    assert lent is not None
    lent.take_back(told)
    lent.close()
    assert not lent.path.exists()
    assert lend("", "task", "load_inline") is None and lend(str(tmp_path), "task", "torch.relu") is None
