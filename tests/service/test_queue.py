"""The fair queue: tokens take turns, priorities within one token, and the place in line is the one that comes true."""

from __future__ import annotations

import random

from bottega.service.queue import FairQueue, Waiting

CPU = frozenset({"cpu"})


def waiting(id: str, token: str, priority: int = 0, devices: frozenset[str] = CPU) -> Waiting:
    return Waiting(id=id, token=token, devices=devices, priority=priority)


def taken(queue: FairQueue, device: str = "cpu") -> list[str]:
    found = []
    while (one := queue.take(device)) is not None:
        found.append(one.id)
    return found


def test_tokens_take_turns_however_many_requests_one_has() -> None:
    queue = FairQueue()
    for number in range(5):
        queue.put(waiting(f"a{number}", "a"))
    queue.put(waiting("b0", "b"))
    queue.put(waiting("c0", "c"))
    assert taken(queue) == ["a0", "b0", "c0", "a1", "a2", "a3", "a4"]


def test_priority_orders_one_tokens_requests_and_nobody_elses() -> None:
    queue = FairQueue()
    queue.put(waiting("b0", "b"))
    for number, priority in enumerate((0, 5, -1, 5)):
        queue.put(waiting(f"a{number}", "a", priority))
    assert taken(queue) == ["b0", "a1", "a3", "a0", "a2"]


def test_a_device_takes_what_it_may_judge() -> None:
    queue = FairQueue()
    queue.put(waiting("gpu", "a", devices=frozenset({"cuda:0", "cuda:1"})))
    queue.put(waiting("cpu", "a"))
    assert queue.length("cpu") == 1 and queue.length("cuda:1") == 1
    assert taken(queue, "cpu") == ["cpu"]
    assert taken(queue, "cuda:1") == ["gpu"]


def test_what_was_removed_or_is_there_already_counts_once() -> None:
    queue = FairQueue()
    queue.put(waiting("a0", "a"))
    queue.put(waiting("a0", "a", 9))
    assert len(queue) == 1 and queue.remove("a0") and not queue.remove("a0")
    assert len(queue) == 0 and queue.count("a") == 0 and taken(queue) == []


def test_ahead_is_how_many_are_taken_first() -> None:
    drawn = random.Random(7)
    queue = FairQueue()
    for number in range(60):
        queue.put(waiting(str(number), drawn.choice("aaabbc"), drawn.randrange(3)))
    told = {str(number): queue.ahead(str(number)) for number in range(60)}
    assert taken(queue) == sorted(told, key=told.__getitem__)
    assert sorted(told.values()) == list(range(60))
