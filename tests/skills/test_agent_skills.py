"""Agent Skills: folders that a coding agent loads as they are, whatever stands in the card."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from skill_cards import PLAIN, card, trial

from bottega.core.errors import LibraryError
from bottega.skills.agent_skills import export_folders, markdown, skill_markdown
from bottega.skills.library import Library
from bottega.skills.starter import starter_cards
from bottega.skills.validation import admit_data

yaml = pytest.importorskip("yaml")

HOSTILE = [
    "quotes \" and ' and \\ and \\n in one",
    "--- # comment: [a, b] {c: d} & * ! | > % @ `tick`",
    "key: value: another",
    "ends with a colon:",
    "- looks like a list",
    "null and ~ and true",
    "tabs\tinside and 読む and 🚀",
    "0x1f 1e3 .inf 12:30:45 2026-01-01",
]


def front_of(text: str) -> dict[str, Any]:
    """The front matter, as the format defines it: between the first two lines of three hyphens."""
    _, front, _ = re.split(r"^---$", text, maxsplit=2, flags=re.MULTILINE)
    read: dict[str, Any] = yaml.safe_load(front)
    return read


def test_every_starter_card_is_a_skill_by_the_formats_own_rules(tmp_path: Path) -> None:
    cards = starter_cards()
    with Library(tmp_path / "library") as library:
        library.add_many(cards)
        written = export_folders(library, library.cards(), tmp_path / "skills")
    assert len(written) == len(cards) == len(list((tmp_path / "skills").iterdir()))
    for place in written:
        front = front_of((place / "SKILL.md").read_text(encoding="utf-8"))
        assert front["name"] == place.name and len(front["name"]) <= 64
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", front["name"])
        assert isinstance(front["description"], str) and 1 <= len(front["description"]) <= 1024
        assert set(front) == {"name", "description", "metadata"}
        assert all(isinstance(value, str) for value in front["metadata"].values())


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_out_of_the_front_matter(text: str) -> None:
    skill = card(intent=text, anchor=text, tags=("a.b", "c+d"))
    front = front_of(skill_markdown(skill))
    assert front["description"] == f"{text} Use when writing cpp kernels: {text}"
    assert front["metadata"]["tags"] == "a.b c+d"


@pytest.mark.parametrize("name", ["true", "null", "on", "off", "no", "yes", "y", "n", "false", "e5", "nan", "inf"])
def test_a_name_stays_a_name(name: str) -> None:
    assert front_of(skill_markdown(card(name)))["name"] == name


def test_the_longest_card_keeps_to_the_formats_limits() -> None:
    longest = admit_data(card("a" * 64, intent="i" * 160, anchor="b" * 400, languages=("cpp", "triton", "cuda")).to_json())
    front = front_of(skill_markdown(longest))
    assert len(front["name"]) == 64 and len(front["description"]) <= 1024


def test_the_page_has_all_that_the_card_says() -> None:
    skill = card(failures=("One thing.", "Another."))
    page = markdown(skill, [trial()])
    for text in (skill.intent, skill.anchor, skill.technique, skill.example, skill.effect, *skill.failures, "fp32 or fp64"):
        assert text in page
    assert "storage" not in page, "a condition of nothing is not listed"
    assert "admitted on softmax, cpu: 1.20x (1.10 to 1.30) over 2 pairs against eager" in page
    assert "## Evidence" not in markdown(skill)


def test_no_example_ends_its_own_fence() -> None:
    page = markdown(card(example="text\n```\n# not a heading of ours\n````\nmore text"))
    fence = re.search(r"^(`+)cpp\n(.*?)\n\1$", page, re.MULTILINE | re.DOTALL)
    assert fence is not None and fence.group(2) == "text\n```\n# not a heading of ours\n````\nmore text"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with Library(tmp_path / "library") as library:
        with pytest.raises(LibraryError, match="cannot be written"):
            export_folders(library, [PLAIN], tmp_path / "file")
        export_folders(library, [PLAIN], tmp_path / "skills")
        export_folders(library, [PLAIN], tmp_path / "skills")
    assert (tmp_path / "file").read_text() == "text"
