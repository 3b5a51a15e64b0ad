"""Retrieval: the best cards first, only those that pass the filter, all of them where there are fewer, and the same every time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from skill_cards import PLAIN, admitted, card, task
from test_query import HOSTILE

from bottega.core.errors import LibraryError, UsageError
from bottega.core.skill import SkillState
from bottega.skills.index import Found
from bottega.skills.library import Library
from bottega.skills.query import Query, query_for, query_from_text
from bottega.skills.retrieve import EVERY_STATE, Filter, Hit, _read
from bottega.skills.starter import starter_cards

TILES = query_from_text("cache tiles")


def names(hits: list[Hit]) -> list[str]:
    return [hit.skill.name for hit in hits]


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Library:
    library = Library(tmp_path_factory.mktemp("starter"))
    library.add_many(starter_cards())
    return library


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("softmax", "softmax"),
        ("LayerNorm", "norm"),
        ("matmul epilogue", "matmul"),
        ("transpose", "transpose"),
        ("depthwise convolution", "depthwise"),
        ("argmax", "argmax"),
    ],
)
def test_what_a_card_is_about_is_found_first(starter: Library, words: str, wanted: str) -> None:
    assert wanted in starter.search(query_from_text(words), 1, Filter(EVERY_STATE))[0].skill.name


def test_a_task_finds_cards_for_what_it_calls(starter: Library) -> None:
    hits = starter.search(query_for(task("softmax")), 5, Filter(EVERY_STATE))
    assert sum("softmax" in hit.skill.name + hit.skill.intent.lower() for hit in hits) >= 3
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_only_admitted_cards_are_offered_unless_asked(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many([card("proposed_one"), admitted("admitted_one"), card("retired_one", state=SkillState.RETIRED)])
        assert names(library.search(TILES)) == ["admitted_one"]
        assert names(library.search(TILES, only=Filter((SkillState.RETIRED,)))) == ["retired_one"]
        assert len(library.search(TILES, only=Filter(EVERY_STATE))) == 3
        library.move("proposed_one", SkillState.ADMITTED, "a gain")
        library.move("admitted_one", SkillState.RETIRED, "tired")
        assert names(library.search(TILES)) == ["proposed_one"]


def test_filters_for_language_device_and_scope(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add_many(
            [
                admitted("on_cpu"),
                admitted("in_triton", languages=("triton",), devices=("cuda",)),
                admitted("in_both", languages=("cpp", "cuda"), devices=("cpu", "cuda")),
                admitted("for_norms", scope="family/norm"),
                admitted("for_scans", scope="family/scan"),
            ]
        )

        def found(**only: str) -> set[str]:
            return set(names(library.search(TILES, only=Filter(**only))))  # type: ignore[arg-type]

        assert found(language="triton") == {"in_triton"}
        assert found(language="cuda", device="cpu") == {"in_both"}
        assert found(device="cuda") == {"in_triton", "in_both"}
        assert found(scope="family/norm", device="cpu") == {"on_cpu", "in_both", "for_norms"}
        assert found(scope="family/nobody") == {"on_cpu", "in_triton", "in_both"} == found(scope="general")
        assert len(found()) == 5


@pytest.mark.parametrize(
    "only",
    [
        {"language": "fortran"},
        {"language": "torch"},
        {"device": "tpu"},
        {"scope": "norm"},
        {"scope": "family/\ud800"},
        {"scope": ""},
    ],
    ids=str,
)
def test_a_filter_for_what_there_is_not_is_refused(only: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=f"unknown {next(iter(only))}"):
        Filter(**only)  # type: ignore[arg-type]


@pytest.mark.rotates
def test_the_last_card_that_passes_is_found_behind_many_that_do_not(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        better = "tiles cache " * 20 + "and more tiles in the cache."
        library.add_many(card(f"proposed_{number}", technique=better) for number in range(300))
        library.add_many(
            admitted(f"admitted_{number}", tags=("other",), technique="x" * 30 + " tiles, once.") for number in range(3)
        )
        assert set(names(library.search(TILES, 3))) == {"admitted_0", "admitted_1", "admitted_2"}
        assert len(library.search(TILES, 1)) == 1
        assert len(library.search(TILES, 10)) == 3


def test_equal_cards_come_in_the_order_in_which_they_were_added(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        order = ["mike", "alpha", "zulu", "kilo", "echo"]
        library.add_many(admitted(name, anchor="The same for all of them.") for name in order)
        assert names(library.search(TILES)) == order
        assert names(library.search(TILES, 3)) == order[:3]


@pytest.mark.parametrize("k", [0, -1, -(10**9)])
def test_none_are_found_where_none_are_wanted(starter: Library, k: int) -> None:
    assert starter.search(TILES, k, Filter(EVERY_STATE)) == []


@pytest.mark.parametrize("k", [1000, 2**31, 2**63, 10**30])
def test_more_than_there_are_may_be_asked_for(starter: Library, k: int) -> None:
    """A collector that made room for that many would not get it."""
    hits = starter.search(query_from_text("the rows of a tile"), k, Filter(EVERY_STATE))
    assert 10 < len(hits) == len({hit.skill.name for hit in hits}) <= len(starter)


def test_an_empty_query_finds_nothing(starter: Library) -> None:
    assert starter.search(Query()) == [] == starter.search(query_from_text("zzyzx qqqq"), only=Filter(EVERY_STATE))


@pytest.mark.rotates
@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:12]))
def test_any_words_can_be_searched_for(starter: Library, text: str) -> None:
    hits = starter.search(query_from_text(text), 5, Filter(EVERY_STATE))
    assert bool(hits) or "softmax" not in text
    assert isinstance(starter.search(query_from_text(text), 5, at=1), list)


def test_ten_thousand_words_can_be_searched_for(starter: Library) -> None:
    letters = ("".join(chr(97 + int(digit)) for digit in str(number)) for number in range(10_000))
    text = " ".join(f"zq{word}" for word in letters) + " softmax"
    assert "softmax" in starter.search(query_from_text(text), 1, Filter(EVERY_STATE))[0].skill.name


def test_a_version_of_the_past_is_searched_with_its_texts_and_states(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(admitted("one"))
        library.revise("one", card("one", technique="Something about pelicans and nothing about what stood here before."))
        library.add(admitted("two"))
        pelicans = query_from_text("pelicans")
        assert names(library.search(pelicans, at=1)) == []
        assert names(library.search(pelicans, only=Filter(EVERY_STATE), at=2)) == ["one"]
        hit = library.search(TILES, at=1)[0]
        assert (hit.skill.state, hit.skill.technique) == (SkillState.ADMITTED, PLAIN.technique)
        assert names(library.search(TILES, at=3)) == ["two"] == names(library.search(TILES))


def test_no_number_of_rows_is_too_many_to_read(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(card("one"))
        many = [Found(1.0, row, 0, 0) for row in range(1, 400_000, 7)]
        assert names(_read(library.store, many, None)) == ["one"]


def test_a_card_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with Library(tmp_path) as library:
        library.add(admitted("one"))
        assert names(library.search(TILES)) == ["one"]
        with sqlite3.connect(library.store.path) as other:
            other.execute("UPDATE cards SET body = '{}'")
        other.close()
        with pytest.raises(LibraryError, match=r"\.recover"):
            library.search(TILES)
