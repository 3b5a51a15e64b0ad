"""Validation: what a card must have, what it must not have, and that a refusal names its reasons in few words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from skill_cards import PLAIN, data

from bottega.core.errors import CardError
from bottega.core.skill import CARD_SCHEMA, SkillState
from bottega.skills.validation import FAULTS, admit_data, made_readable

LIMITS = {
    "intent": (10, 160),
    "anchor": (5, 400),
    "technique": (40, 2400),
    "example": (10, 3200),
    "effect": (5, 400),
}
WRONG: dict[str, Any] = {
    "a boolean version": {"version": True},
    "a version in words": {"version": "3"},
    "version 0": {"version": 0},
    "a version beyond all": {"version": 10**30},
    "a half version": {"version": 1.5},
    "a schema in words": {"schema": "1"},
    "a boolean schema": {"schema": True},
    "schema 0": {"schema": 0},
    "a schema that is no whole number": {"schema": 2.0},
    "no name": {"name": None},
    "a number for a name": {"name": 5},
    "an empty name": {"name": ""},
    "capitals": {"name": "TileRows"},
    "hyphens": {"name": "tile-rows"},
    "two underscores": {"name": "tile__rows"},
    "a last underscore": {"name": "tile_"},
    "a first digit": {"name": "2_tiles"},
    "a path": {"name": "../tile"},
    "a line break in a name": {"name": "tile\n"},
    "letters of other scripts": {"name": "плитка"},
    "digits of other scripts": {"name": "tile_\u0661"},
    "a long name": {"name": "a" * 65},
    "an unknown scope": {"scope": "mine"},
    "a scope without a family": {"scope": "family/"},
    "no tags": {"tags": []},
    "eleven tags": {"tags": [f"t{number}" for number in range(11)]},
    "a tag in capitals": {"tags": ["Tile"]},
    "a tag that is none": {"tags": [1]},
    "tags in one string": {"tags": "tiling"},
    "no languages": {"languages": []},
    "torch as a language": {"languages": ["torch"]},
    "an unknown device": {"devices": ["tpu"]},
    "no failures": {"failures": []},
    "seven failures": {"failures": ["It breaks."] * 7},
    "a condition too many": {"conditions": {**dict(PLAIN.conditions.items()), "mood": "good"}},
    "a condition too few": {"conditions": {"data_types": "fp32"}},
    "a long condition": {"conditions": {**dict(PLAIN.conditions.items()), "layout": "x" * 321}},
    "conditions in a list": {"conditions": ["none"] * 5},
    "an unknown field": {"evidence": []},
    "an unknown state": {"state": "proved"},
    "a claim of nothing": {"provenance": {"claimed_speedup": 0}},
    "a claim that is no number": {"provenance": {"claimed_speedup": float("nan")}},
    "a boundless claim": {"provenance": {"claimed_speedup": float("inf")}},
    "a boolean claim": {"provenance": {"claimed_speedup": True}},
    "an unknown origin": {"provenance": {"author": "me"}},
    "half a surrogate pair": {"intent": "Read each row once \ud800 by tiles."},
    "an intent in a list": {"intent": ["Read each row once by tiles."]},
    "blanks for an intent": {"intent": " " * 40},
}
UNREADABLE = "\x00\x07\x08\x0b\x0c\x1b\x7f\x85\x9b\u2028\u202e\u2066\ufffe"


def test_a_sound_card_passes_and_comes_out_as_it_went_in() -> None:
    assert admit_data(data()) == PLAIN
    assert admit_data(json.loads(json.dumps(PLAIN.to_json()))) == PLAIN


@pytest.mark.parametrize("field", LIMITS)
def test_lengths_are_enforced_and_not_only_asked_for(field: str) -> None:
    shortest, longest = LIMITS[field]
    assert getattr(admit_data(data(**{field: "x" * longest})), field) == "x" * longest
    assert getattr(admit_data(data(**{field: "x" * shortest})), field) == "x" * shortest
    for length in (shortest - 1, longest + 1):
        with pytest.raises(CardError, match=f"{field}: "):
            admit_data(data(**{field: "x" * length}))


@pytest.mark.parametrize("why", WRONG)
def test_what_is_wrong_is_refused_by_the_name_of_its_field(why: str) -> None:
    with pytest.raises(CardError) as refused:
        admit_data(data(**WRONG[why]), "line 7")
    assert str(refused.value).startswith("line 7: ")
    assert next(iter(WRONG[why])) in str(refused.value)


@pytest.mark.parametrize(
    "field", [name for name in data() if name not in ("schema", "provenance", "version", "state", "reason")]
)
def test_no_field_may_be_missing(field: str) -> None:
    without = data()
    del without[field]
    with pytest.raises(CardError, match=f"{field}: Field required"):
        admit_data(without)


def test_all_faults_are_named_at_once_and_a_thousand_are_counted() -> None:
    with pytest.raises(CardError) as refused:
        admit_data(data(name="No", scope="mine", effect=""))
    assert all(f"{field}: " in str(refused.value) for field in ("name", "scope", "effect"))
    with pytest.raises(CardError) as refused:
        admit_data(data(**{f"field_{number}" + "x" * 10_000: 1 for number in range(1000)}))
    assert f"and {1000 - FAULTS} more" in str(refused.value)
    assert len(str(refused.value)) < 4000


@pytest.mark.parametrize("field", ["name", "intent", "technique", "example", "reason"])
def test_ten_megabytes_are_refused_in_few_words(field: str) -> None:
    with pytest.raises(CardError) as refused:
        admit_data(data(**{field: "x" * 10_000_000}), "w" * 10_000)
    assert len(str(refused.value)) < 1000


def test_a_card_of_a_newer_schema_asks_for_an_upgrade() -> None:
    with pytest.raises(CardError, match="newer version; upgrade Bottega"):
        admit_data({"schema": CARD_SCHEMA + 1, "whatever": "it has"})


@pytest.mark.parametrize("foreign", [None, 5, "card", [], [data()], True, float("nan")])
def test_what_is_no_object_is_no_card(foreign: Any) -> None:
    with pytest.raises(CardError, match="a card is an object"):
        admit_data(foreign)


@pytest.mark.parametrize("character", UNREADABLE, ids=lambda character: f"U+{ord(character):04X}")
@pytest.mark.parametrize("field", ["intent", "technique", "example", "effect"])
def test_characters_that_move_a_cursor_or_hide_text_are_refused(field: str, character: str) -> None:
    text = getattr(PLAIN, field)
    with pytest.raises(CardError, match=rf"{field}: .*U\+{ord(character):04X}"):
        admit_data(data(**{field: f"{text[:5]}{character}{text[5:]}"}))


def test_line_ends_of_windows_are_taken_and_those_of_an_intent_dropped() -> None:
    assert admit_data(data(technique="One line that is long enough.\r\nAnd another one.")).technique.count("\n") == 1
    assert admit_data(data(intent="Read each row\n  once by tiles.")).intent == "Read each row once by tiles."
    assert admit_data(data(example="\tfor (;;)\n\t\tstep();")).example == "for (;;)\n\t\tstep();"


def test_text_of_other_scripts_and_signs_is_text() -> None:
    text = "Schnell wie 🚀: π·r² ≤ 4, 読む, לקרוא; SELECT * FROM cards; DROP TABLE cards; --"
    assert admit_data(data(intent=text)).intent == text


def test_what_is_said_twice_counts_once() -> None:
    assert admit_data(data(tags=["a", "b", "a"], languages=["cpp", "cpp"])).tags == ("a", "b")


def test_lazy_advice_is_refused_where_the_card_teaches() -> None:
    for field in ("intent", "technique"):
        with pytest.raises(CardError, match=f"{field} is lazy advice.*torch.compile"):
            admit_data(data(**{field: "For rows of any length at all, use torch.compile on them."}))
    with pytest.raises(CardError, match="name is lazy advice"):
        admit_data(data(name="fall_back_to_torch"))
    warned = data(
        failures=["A first version left all to torch: use torch.compile and it is as slow."], effect="call cuBLAS: 1x"
    )
    assert admit_data(warned).failures


def test_a_reason_is_made_readable_and_not_refused() -> None:
    assert made_readable("no\x1b[2J gain\n in  use \ud800") == "no [2J gain in use"


def test_states_are_validated() -> None:
    assert admit_data(data(state="admitted", reason="a gain")).state is SkillState.ADMITTED
