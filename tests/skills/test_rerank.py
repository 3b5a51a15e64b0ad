"""What becomes of an answer that names cards: unknown, repeated and surplus names are dropped, and the unknown counted."""

from __future__ import annotations

from skill_cards import card

from bottega.skills.rerank import Choice, selection

OFFERED = [card("one"), card("two"), card("three"), card("four")]


def test_names_are_taken_in_their_order_with_their_reasons() -> None:
    chosen = selection([Choice("three", "it fits"), Choice(" one\n")], OFFERED, 3)
    assert [skill.name for skill in chosen.skills] == ["three", "one"]
    assert (chosen.reasons, chosen.unknown) == (("it fits", ""), 0)


def test_names_that_were_not_offered_are_dropped_and_counted() -> None:
    chosen = selection([Choice("none"), Choice("two"), Choice(""), Choice("TWO"), Choice("two'--")], OFFERED, 3)
    assert [skill.name for skill in chosen.skills] == ["two"]
    assert chosen.unknown == 4


def test_names_given_twice_or_beyond_the_number_are_dropped() -> None:
    names = ["one", "one", "two", "nobody", "three", "four", "one"]
    chosen = selection([Choice(name) for name in names], OFFERED, 2)
    assert [skill.name for skill in chosen.skills] == ["one", "two"]
    assert chosen.unknown == 1
