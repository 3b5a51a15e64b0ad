"""Skill cards and benchmark pages: the measured uplift as others publish it, and no text that breaks out of a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skill_cards import card, trial

from bottega.skills.agent_skills import export_folders
from bottega.skills.library import Library
from bottega.skills.skill_card import benchmark_page, skill_card


def test_the_uplift_is_on_both_pages() -> None:
    tried = replace(trial("rows"), with_skill=(2.0, 2.0), without_skill=(1.0, 1.0), decision="admitted")
    for page in (skill_card(card("rows"), [tried]), benchmark_page(card("rows"), [tried])):
        assert "1.00x → 2.00x" in page and f"{tried.gain.low:.2f} to {tried.gain.high:.2f}" in page
    assert "it helps" in benchmark_page(card("rows"), [tried])
    assert "not proved" in benchmark_page(card("rows"), [replace(tried, decision="refused")])


def test_a_hostile_name_stays_in_its_cell() -> None:
    page = benchmark_page(card("rows"), [replace(trial("rows"), task_name="x | y\n# z <script>")])
    assert "\n# z" not in page and "<script>" not in page and "x \\| y" in page


def test_a_benchmark_page_is_written_where_there_are_trials(tmp_path: Path) -> None:
    with Library(tmp_path / "library") as library:
        library.add_many([card("rows")])
        (place,) = export_folders(library, library.cards(), tmp_path / "skills")
    assert sorted(path.name for path in place.iterdir()) == ["SKILL.md", "skill-card.md"]
    assert "None yet." in (place / "skill-card.md").read_text()
