"""Which request goes to which judge, without Ray."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from scripted_actor import TASK, candidate

from bottega.cluster.judges import ClusterJudge
from bottega.cluster.request_queue import ClusterRequest, JudgeName, PlacedJudge, RequestQueue, content_key, ended


def request(task: str = "a") -> ClusterRequest:
    return ClusterRequest("", task, "judge", JudgeName(""), (), {}, lambda told: told)


def judges(*nodes: str, lanes: int = 1) -> list[PlacedJudge]:
    return [PlacedJudge(node, lanes=lanes) for node in nodes]


def queue_of(*requests: ClusterRequest) -> RequestQueue:
    queue = RequestQueue()
    for one in requests:
        queue.add(one)
    return queue


def test_a_task_stays_where_it_is_open_and_idle_judges_help() -> None:
    one, two = judges("x", "y")
    first, second, third, fourth = request("a"), request("b"), request("a"), request("a")
    queue = queue_of(first, second, third, fourth)
    assert queue.assign([one, two]) == [(one, first), (two, second)] and not queue.assign([one, two])
    ended(one, first)
    assert queue.assign([one, two]) == [(one, third)]
    ended(two, second)
    assert queue.assign([one, two]) == [(two, fourth)], "a judge without anything else to do opens the task too"
    assert not len(queue)


def test_no_judge_gets_more_than_its_lanes() -> None:
    (one,) = judges("x", lanes=2)
    queue = queue_of(*(request() for _ in range(3)))
    assert len(queue.assign([one])) == 2 and len(queue) == 1
    one.lanes = 0
    one.running.clear()
    assert not queue.assign([one]), "one that is not ready gets nothing"


def test_a_request_whose_judge_was_lost_is_tried_alone_and_elsewhere() -> None:
    one, two = judges("x", "y", lanes=2)
    guilty, beside, busy = request("a"), request("a"), request("b")
    queue = queue_of(guilty, beside, busy)
    assert {tuple(map(id, pair)) for pair in queue.assign([one, two])} == {
        (id(one), id(guilty)),
        (id(one), id(beside)),
        (id(two), id(busy)),
    }
    assert queue.lost(guilty, one) and queue.lost(beside, one)
    again = PlacedJudge("x", lanes=2)  # the machine is there still, with a new judge
    queue.add(late := request("c"))
    assert queue.assign([again, two]) == [(again, late)], "the other machine is kept free until it has nothing under way"
    ended(two, busy)
    assert queue.assign([again, two]) == [(two, guilty)]
    queue.add(request("d"))
    assert [judge for judge, _ in queue.assign([again, two])] == [again], "nothing runs beside it"
    assert not queue.lost(guilty, two), "now it is to blame"
    third = PlacedJudge("y", lanes=2)
    assert queue.assign([again, third]) == [(third, beside)]
    ended(third, beside)
    assert third.alone_for is None and not len(queue)


def test_where_there_is_no_other_machine_it_is_tried_on_the_same() -> None:
    (one,) = judges("x")
    queue = queue_of(only := request())
    queue.assign([one])
    queue.lost(only, one)
    (new,) = judges("x")
    assert queue.assign([new]) == [(new, only)]


def test_one_that_is_cancelled_keeps_no_judge_waiting() -> None:
    one, two = judges("x", "y")
    queue = queue_of(first := request("a"), second := request("b"))
    queue.assign([one, two])
    queue.lost(first, one)
    queue.assign([two])
    assert two.alone_for is first and queue.remove(first) and not queue.remove(first)
    ended(two, second)
    queue.add(third := request("c"))
    assert queue.assign([two]) == [(two, third)]


def test_a_key_is_of_the_content() -> None:
    key = content_key("task", "candidate", {"quick": True, "baselines": ("eager",)}, "H100", 1)
    assert key == content_key("task", "candidate", {"baselines": ("eager",), "quick": True}, "H100", 1)
    others = [
        content_key("task", "candidate", {"quick": True, "baselines": ("eager",)}, make, ask)
        for make, ask in (("A100", 1), ("H100", 2))
    ]
    assert len({key, *others}) == 3


def test_the_same_content_asked_by_two_judges_is_measured_for_each() -> None:
    pool: Any = SimpleNamespace(first={"fingerprint": {"cpu": "a cpu"}})
    one, other = (ClusterJudge(pool, "cpu", {"quick": True}) for _ in range(2))
    keys = [judge._verdict(TASK, candidate("x"), {}).key for judge in (one, one, other, other)]
    assert len(set(keys)) == 4, "else a judge that is closed, or cancels, ends the other's verdict too"


def test_a_suspect_that_comes_back_for_another_reason_is_still_tried_alone() -> None:
    """Another judge of the command was closed, or the machine was taken away: beside a neighbour it could be blamed for what that one did."""
    (one,) = judges("x", lanes=2)
    suspect, neighbour = request(), request()
    queue = queue_of(suspect)
    queue.assign([one])
    assert queue.lost(suspect, one)
    one = PlacedJudge("x", lanes=2)
    for again in (*queue.drain(), neighbour):
        queue.add(again)
    assert queue.assign([one]) == [(one, suspect)]
    ended(one, suspect)
    assert queue.assign([one]) == [(one, neighbour)]
