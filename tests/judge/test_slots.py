"""Slots bound the verdicts under way, and who waits for memory takes none."""

from __future__ import annotations

import threading

from bottega.judge.slots import Slots


def enter(slots: Slots, at_once: bool = False) -> tuple[threading.Event, threading.Event]:
    """Have a thread take a slot: events for when it has one, and to make it leave."""
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with slots.taken(at_once):
            inside.set()
            leave.wait(20)

    threading.Thread(target=work, daemon=True).start()
    return inside, leave


def test_no_more_get_in_than_there_are_slots() -> None:
    slots = Slots(1)
    with slots.taken():
        inside, leave = enter(slots)
        assert not inside.wait(0.1)
    assert inside.wait(20)
    leave.set()


def test_who_waits_lets_another_in_and_comes_back_at_once() -> None:
    slots = Slots(1)
    with slots.taken():
        with slots.paused():
            inside, leave = enter(slots)
            assert inside.wait(20)
        third, gone = enter(slots)  # two are under way, which is one too many
        leave.set()
        assert not third.wait(0.1)
    assert third.wait(20)
    gone.set()


def test_who_holds_what_others_wait_for_need_not_wait() -> None:
    slots = Slots(1)
    with slots.taken():
        inside, leave = enter(slots, at_once=True)
        assert inside.wait(20)
        leave.set()
