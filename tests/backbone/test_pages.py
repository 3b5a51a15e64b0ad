from __future__ import annotations

import random

from bottega.backbone.pages import PAGE, HeldPages, Pages


def prompt(*parts: int, rest: int = 1) -> tuple[int, ...]:
    """Full pages, each of one number, and `rest` tokens more."""
    return tuple(number for number in parts for _ in range(PAGE)) + (0,) * rest


def test_pages_for_prompt_and_answer_are_set_aside_at_once() -> None:
    pages = Pages(10)
    held = pages.take(prompt(1), PAGE + 1 + 3 * PAGE)
    assert held is not None
    assert len(held.pages) == 5
    assert pages.free == 5
    pages.give(held)
    assert pages.free == 10


def test_one_that_does_not_fit_takes_nothing() -> None:
    pages = Pages(4)
    first = pages.take(prompt(1, 2), 3 * PAGE)
    assert first is not None
    assert pages.take(prompt(1, 2), 5 * PAGE) is None
    assert pages.free == 1
    assert pages.take(prompt(1, 2), 3 * PAGE) is not None  # two shared, one of its own


def test_prompts_that_begin_alike_share_full_pages() -> None:
    pages = Pages(20)
    first, second, third = (pages.take(ids, len(ids) + 10) for ids in (prompt(1, 2), prompt(1, 2), prompt(1, 3)))
    assert first and second and third
    assert (first.shared, second.shared, third.shared) == (0, 2 * PAGE, PAGE)
    assert second.pages[:2] == first.pages[:2]
    assert third.pages[0] == first.pages[0]
    assert len({*first.pages, *second.pages, *third.pages}) == 3 + 1 + 2


def test_the_last_token_is_never_shared() -> None:
    pages = Pages(20)
    ids = prompt(1, 2, rest=0)
    first, second = pages.take(ids, len(ids) + 1), pages.take(ids, len(ids) + 1)
    assert first and second
    assert second.shared == PAGE
    assert second.pages[1] != first.pages[1]


def test_a_prompt_is_remembered_until_the_memory_is_wanted() -> None:
    pages = Pages(4)
    first = pages.take(prompt(1, 2), 3 * PAGE)
    assert first
    pages.give(first)
    again = pages.take(prompt(1, 2), 3 * PAGE)
    assert again and again.shared == 2 * PAGE
    pages.give(again)
    other = pages.take(prompt(5, 6, 7), 4 * PAGE)
    assert other and other.shared == 0
    pages.give(other)
    last = pages.take(prompt(1, 2), 3 * PAGE)
    assert last and last.shared == 0


def test_nothing_is_shared_over_a_change_of_weights() -> None:
    pages = Pages(20)
    running = pages.take(prompt(1, 2), 3 * PAGE)
    gone = pages.take(prompt(3, 4), 3 * PAGE)
    assert running and gone
    pages.give(gone)
    pages.forget()
    fresh = [pages.take(ids, 3 * PAGE) for ids in (prompt(1, 2), prompt(3, 4))]
    assert [held.shared for held in fresh if held] == [0, 0]
    for held in (running, *fresh):
        assert held
        pages.give(held)
    assert pages.free == 20


def test_nobody_ever_gets_a_page_that_holds_something_else() -> None:
    """A page is written by who was given it fresh; whoever shares it must want the very same tokens before and in it."""
    source = random.Random(0)
    pages = Pages(24)
    content: dict[int, tuple[int, ...]] = {}
    running: list[HeldPages] = []
    shared = 0
    for turn in range(4000):
        if running and (source.random() < 0.45 or pages.free < 4):
            pages.give(running.pop(source.randrange(len(running))))
            continue
        if turn % 500 == 499:
            pages.forget()
        ids = prompt(*(source.randrange(3) for _ in range(source.randrange(5))), rest=source.randint(0, PAGE) or 1)
        held = pages.take(ids, len(ids) + source.randint(1, 2 * PAGE))
        if held is None:
            continue
        shared += held.shared
        for number, page in enumerate(held.pages):
            if number * PAGE < held.shared:
                assert content[page] == ids[: (number + 1) * PAGE]
            else:
                assert sum(page in other.pages for other in running) == 0
                content[page] = ids[: (number + 1) * PAGE]
        running.append(held)
    assert shared > 10_000
    for held in running:
        pages.give(held)
    assert pages.free == 24
