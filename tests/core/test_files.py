"""A file is replaced whole, and a failure leaves what was there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottega.core.files import write_atomic


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
