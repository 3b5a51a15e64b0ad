"""Databases are looked into by a copy: what is written while one looks is seen the next time, and never half."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from made_runs import library

from bottega.core.event import Credited, from_json, to_json
from bottega.service.dashboard import database_copy
from bottega.service.dashboard.database_copy import NoCopy, copied
from bottega.skills.library import Library


def test_what_is_in_the_write_ahead_log_is_in_the_copy(tmp_path: Path) -> None:
    folder = library(tmp_path / "cards")
    with Library(folder) as writer:
        name = writer.cards()[0].name
        writer.uses.store.row("SELECT 1")
        with copied(folder / "library.db") as place, Library(place, create=False) as seen:
            assert seen.cards()[0].name == name and len(seen) == 3
    with sqlite3.connect(folder / "library.db") as one:
        one.execute("PRAGMA journal_mode = WAL")
        one.execute("INSERT INTO meta VALUES ('new', 'row')")
        one.commit()
        assert (folder / "library.db-wal").stat().st_size
        with copied(folder / "library.db") as place, sqlite3.connect(place / "library.db") as other:
            assert other.execute("SELECT value FROM meta WHERE key = 'new'").fetchall() == [("row",)]


def test_what_cannot_be_copied_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoCopy, match="is not there"), copied(tmp_path / "library.db"):
        pass
    folder = library(tmp_path / "cards")
    monkeypatch.setattr(database_copy, "LARGEST", 1000)
    with pytest.raises(NoCopy, match="are looked into"), copied(folder / "library.db"):
        pass


def test_credits_survive_their_log() -> None:
    event = Credited("credits", 3, ({"trace": "a/write/b", "turn": 0, "role": "write", "reward": 1.0, "advantage": -0.5},))
    assert from_json(to_json(event)) == event
