"""Cards that ship as proved elsewhere: a new library begins with them, with their evidence, and with nothing new where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from skill_cards import admitted, trial

from bottega.core.skill import SkillState
from bottega.skills import shipped
from bottega.skills.default_library import open_library
from bottega.skills.exchange import export_file
from bottega.skills.library import Library
from bottega.skills.starter import starter_cards


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOTTEGA_LIBRARY", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained library's admitted cards: one of its own, and one of the starter set, proved."""
    known = starter_cards()[0].name
    path = tmp_path / "trained.jsonl"
    with Library(tmp_path / "trained") as library:
        library.add_many(starter_cards())
        library.add(admitted("learned_trick", reason="gain 1.31 [1.1, 1.5]"))
        library.move(known, SkillState.ADMITTED, "gain 1.20 [1.1, 1.3]")
        library.evidence.add("a", trial("learned_trick", device="NVIDIA H200"))
        library.evidence.add("b", trial(known, device="NVIDIA H200"))
        export_file(library, library.cards(SkillState.ADMITTED), path)
    monkeypatch.setattr(shipped, "shipped_files", lambda: [path])
    return path


def test_a_new_library_begins_with_what_was_proved_elsewhere(home: Path, file: Path) -> None:
    known = starter_cards()[0].name
    with open_library() as library:
        assert len(library) == len(starter_cards()) + 1
        assert {card.name for card in library.cards(SkillState.ADMITTED)} == {"learned_trick", known}
        assert library.get("learned_trick").reason == "proved elsewhere: gain 1.31 [1.1, 1.5]"
        assert library.get(known).reason.startswith("proved elsewhere: ")
        for name in ("learned_trick", known):
            assert [trial.device for trial in library.evidence.trials(name)] == ["NVIDIA H200"]
        before = library.version
    with open_library() as library:
        assert library.version == before  # and only once


def test_without_shipped_cards_nothing_is_new(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "shipped_files", list)
    with open_library() as library:
        assert [card.name for card in library.cards()] == sorted(card.name for card in starter_cards())
        assert not library.cards(SkillState.ADMITTED)


def test_what_ships_can_be_read_whole(tmp_path: Path) -> None:
    """Whatever lies in the package now."""
    with Library(tmp_path / "library") as library:
        found = shipped.add_shipped(library)
        assert not found.refused
        assert all(card.reason.startswith(shipped.ELSEWHERE) for card in library.cards(SkillState.ADMITTED))
