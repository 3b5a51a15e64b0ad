"""A file is replaced whole, and a failure leaves what was there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottega.core.files import read_regular, write_atomic


def test_the_new_content_replaces_the_old_one(tmp_path: Path) -> None:
    place = tmp_path / "a.json"
    write_atomic(place, b"one")
    write_atomic(place, b"two")
    assert place.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a.json"
    write_atomic(place, b"one")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(place, b"two")
    assert place.read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_strangers_file_is_read_only_where_it_is_one_and_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"four")
    assert read_regular(tmp_path / "plain", 4) == b"four"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name, most, why in (
        ("plain", 3, "too large"),
        ("pipe", 9, "no regular"),
        ("endless", 9, "no regular"),
        (".", 9, "directory"),
    ):
        with pytest.raises(OSError, match=why):
            read_regular(tmp_path / name, most)
