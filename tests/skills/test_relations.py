"""Cards that require or conflict with each other, in retrieval, in selection and in prompts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from skill_cards import card

from bottega.agents.wording import header_values, skill_values
from bottega.core.errors import CardError
from bottega.core.skill import Relations, Skill
from bottega.skills.library import Library, content_hash
from bottega.skills.relations import compatible, conflicting, in_order, with_required
from bottega.skills.rerank import Choice, selection
from bottega.skills.validation import admit_data

THREADS = replace(card("threads"), relations=Relations(provides=("threads=schedule(static)",)))
CHUNKS = replace(card("chunks"), relations=Relations(requires=("threads",), provides=("schedule",)))
IN_PLACE = replace(card("in_place"), relations=Relations(provides=("in_place",), conflicts=("threads",)))
PLAIN = card("plain")


def names(skills: list[Skill]) -> list[str]:
    return [skill.name for skill in skills]


def test_what_a_card_requires_is_brought_along() -> None:
    found = with_required([CHUNKS, PLAIN], lambda feature: [PLAIN, THREADS], 5)
    assert names(found) == ["chunks", "threads", "plain"]
    assert names(with_required([CHUNKS, PLAIN], lambda feature: [THREADS], 2)) == ["chunks", "threads"]


def test_a_card_that_is_there_is_not_looked_for() -> None:
    def find(feature: str) -> list[Skill]:
        raise AssertionError(feature)

    assert names(with_required([CHUNKS, THREADS], find, 5)) == ["chunks", "threads"]


def test_cards_that_conflict_are_not_given_together() -> None:
    assert conflicting(THREADS, IN_PLACE)
    assert conflicting(IN_PLACE, THREADS)
    assert names(compatible([THREADS, IN_PLACE, PLAIN], 3)) == ["threads", "plain"]
    chosen = selection([Choice("in_place"), Choice("threads"), Choice("plain")], [THREADS, IN_PLACE, PLAIN], 3)
    assert names(list(chosen.skills)) == ["in_place", "plain"]


def test_of_cards_for_the_same_step_of_several_kernels_the_first_is_given() -> None:
    def tile(name: str, feature: str) -> Skill:
        return replace(card(name), relations=Relations(provides=(feature,)))

    cards = [tile("rows", "tile=BLOCK_M=128"), tile("other_rows", "tile=BLOCK_M=64"), tile("columns", "tile=BLOCK_N=128")]
    cards += [tile("warps", "num_warps=8"), tile("fewer_warps", "num_warps=4"), PLAIN, card("second_plain")]
    assert names(compatible(cards, 9)) == ["rows", "columns", "warps", "plain", "second_plain"]


def test_what_is_required_comes_first_and_the_rest_stays_in_its_order() -> None:
    finer = replace(card("finer"), relations=Relations(requires=("schedule", "elsewhere"), provides=("finer",)))
    assert names(in_order([finer, PLAIN, CHUNKS, THREADS])) == ["plain", "threads", "chunks", "finer"]
    assert names(in_order([PLAIN, IN_PLACE])) == ["plain", "in_place"]
    circle = replace(THREADS, relations=Relations(requires=("schedule",), provides=("threads",)))
    assert names(in_order([CHUNKS, circle, PLAIN])) == ["plain", "chunks", "threads"]


def test_a_writer_gets_the_cards_in_the_order_in_which_their_steps_go_in() -> None:
    chosen = selection([Choice("chunks", "later"), Choice("threads", "first")], [CHUNKS, THREADS], 3)
    assert [(skill.name, reason) for skill, reason in zip(chosen.skills, chosen.reasons)] == [
        ("threads", "first"),
        ("chunks", "later"),
    ]


def test_prompts_say_what_a_card_requires_and_stay_as_they_are_without() -> None:
    assert "requires threads" in header_values(CHUNKS.header)["intent"]
    assert "conflicts with threads" in skill_values(IN_PLACE, "cpp")["conditions"]
    assert header_values(PLAIN.header)["intent"] == PLAIN.intent
    assert "requires" not in skill_values(PLAIN, "cpp")["conditions"]


def test_a_card_without_relations_keeps_its_text_and_hash(tmp_path: Path) -> None:
    assert "relations" not in PLAIN.to_json()
    assert PLAIN.content()["schema"] == 1
    assert CHUNKS.content()["schema"] == 2
    assert content_hash(CHUNKS) != content_hash(replace(CHUNKS, relations=Relations()))
    with Library(tmp_path) as library:
        library.add(CHUNKS)
        assert library.get("chunks") == CHUNKS


@pytest.mark.parametrize("feature", ["", "Big", "two\nlines", "x" * 200, 3])
def test_a_feature_that_is_none_is_refused(feature: object) -> None:
    with pytest.raises(CardError, match="relations"):
        admit_data({**CHUNKS.to_json(), "relations": {"requires": [feature]}})
