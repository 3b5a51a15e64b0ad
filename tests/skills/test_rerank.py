"""What becomes of an answer that names cards: unknown, repeated and surplus names are dropped and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from skill_cards import card, task

from bottega.core.task import Task
from bottega.skills.rerank import Choice, Selection, rerank, selection

OFFERED = [card("one"), card("two"), card("three"), card("four")]


def test_names_are_taken_in_their_order_with_their_reasons() -> None:
    chosen = selection([Choice("three", "it fits"), Choice(" one\n")], OFFERED, 3)
    assert [skill.name for skill in chosen.skills] == ["three", "one"]
    assert (chosen.reasons, chosen.unknown, chosen.surplus) == (("it fits", ""), 0, 0)


def test_names_that_were_not_offered_are_dropped_and_counted() -> None:
    chosen = selection([Choice("none"), Choice("two"), Choice(""), Choice("TWO"), Choice("two'--")], OFFERED, 3)
    assert [skill.name for skill in chosen.skills] == ["two"]
    assert (chosen.unknown, chosen.surplus) == (4, 0)


def test_names_given_twice_or_beyond_the_number_are_dropped_and_counted() -> None:
    names = ["one", "one", "two", "nobody", "three", "four", "one"]
    chosen = selection([Choice(name) for name in names], OFFERED, 2)
    assert [skill.name for skill in chosen.skills] == ["one", "two"]
    assert (chosen.unknown, chosen.surplus) == (1, 4)


def test_a_reranker_sees_headers_and_nothing_else() -> None:
    seen: list[Any] = []

    async def pick(task: Task, headers: Sequence[dict[str, Any]], k: int) -> Sequence[Choice]:
        seen.append((task.name, list(headers), k))
        return [Choice(headers[-1]["name"], "the last")]

    chosen = asyncio.run(rerank(pick, task(), OFFERED, 2))
    assert [skill.name for skill in chosen.skills] == ["four"]
    ((name, headers, k),) = seen
    assert (name, k) == ("softmax", 2)
    assert all(set(header) == {"name", "intent", "scope", "tags", "languages", "devices"} for header in headers)


@pytest.mark.parametrize(("offered", "k"), [([], 3), (OFFERED, 0), (OFFERED, -1)])
def test_nobody_is_asked_where_there_is_nothing_to_choose(offered: list[Any], k: int) -> None:
    async def never(task: Task, headers: Sequence[dict[str, Any]], k: int) -> Sequence[Choice]:
        raise AssertionError("asked")

    assert asyncio.run(rerank(never, task(), offered, k)) == Selection((), ())
