"""Rollouts ahead of learning: how far they may be, which weights they take, and that they end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.episodes.phases import Phases
from bottega.judge.device_host import LOCAL
from bottega.train import ranks, rl
from bottega.train.rollouts_ahead import RolloutsAhead


class Run:
    """Counts what was learned, and notes for each step what had been learned when it began."""

    def __init__(self, staleness: int, last: int = 6) -> None:
        self.learned, self.seen = 0, dict[int, int]()
        self.ahead = RolloutsAhead(self.roll_out, staleness, last)

    def roll_out(self, step: int, begun: Callable[[], None], wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> int:
        self.seen[step] = self.learned
        begun()
        wait(asyncio.sleep(0.002))
        return step

    def train(self, last: int = 6) -> None:
        for step in range(1, last + 1):
            assert self.ahead.take(step) == step
            self.learned = step
        self.ahead.close(lambda step: pytest.fail(f"step {step} was rolled out and not taken"))


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_step_is_drawn_by_weights_of_a_known_age(staleness: int) -> None:
    run = Run(staleness)
    run.train()
    assert run.seen == {step: max(0, step - 1 - staleness) for step in range(1, 7)}


def test_more_steps_ahead_are_never_older_than_allowed() -> None:
    run = Run(3)
    run.train()
    assert all(step - 1 - 3 <= learned <= step - 1 for step, learned in run.seen.items())


def test_the_next_step_is_under_way_while_one_is_learned() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def roll_out(step: int, told: Callable[[], None], wait: Any) -> int:
        told()
        if step == 2:
            begun.set()
            assert go_on.wait(20)
        return step

    ahead = RolloutsAhead(roll_out, 1, 2)
    assert ahead.take(1) == 1
    assert begun.wait(20), "nothing runs while the first step is learned"
    go_on.set()
    assert ahead.take(2) == 2
    ahead.close()


def test_closing_ends_what_is_under_way_and_hands_out_what_is_done() -> None:
    asleep = threading.Event()

    async def for_ever() -> None:
        asleep.set()
        await asyncio.sleep(3600)

    def roll_out(step: int, told: Callable[[], None], wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> int:
        told()
        if step == 3:
            wait(for_ever())
        return step

    ahead = RolloutsAhead(roll_out, 2, 9)
    assert ahead.take(1) == 1
    assert asleep.wait(20)
    dropped: list[int] = []
    ahead.close(dropped.append)
    assert dropped == [2]


def test_an_error_comes_out_where_the_step_is_taken() -> None:
    def roll_out(step: int, told: Callable[[], None], wait: Any) -> int:
        if step == 2:
            raise ValueError("no episode of step 2")
        told()
        return step

    ahead = RolloutsAhead(roll_out, 1, 3)
    assert ahead.take(1) == 1
    with pytest.raises(ValueError, match="step 2"):
        ahead.take(2)
    ahead.close()


def test_an_update_takes_turns_with_kernels_on_any_gpu_that_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight ranks of one machine: answers are drawn on the first, and kernels are judged where another learns."""
    monkeypatch.setattr(rl, "TokenClient", lambda backbone: None)
    monkeypatch.setattr(rl, "share_device", lambda client, host: Phases("cuda:0"))
    monkeypatch.setattr(ranks, "launched", lambda: True)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")

    def turns(judged: str, staleness: int = 1, timed: bool = True) -> Phases:
        run = SimpleNamespace(
            inputs=SimpleNamespace(host=LOCAL, judge_device=judged, timed=timed), backbone=None,
            learner=SimpleNamespace(policy=SimpleNamespace(device=SimpleNamespace(type="cuda", index=0))),
            config=SimpleNamespace(rollout=SimpleNamespace(staleness=staleness)),
        )  # fmt: skip
        return rl.RlRun._turns(run)  # type: ignore[arg-type]

    assert turns("cuda:1").device == "cuda:1"
    assert turns("cuda:1").generating().phases is None and turns("cuda:1").learning().phases is not None
    assert {turns("cuda").device, turns("cuda:8").device, turns("cpu").device, turns("cuda:1", 0).device} == {"cuda:0"}
    untimed = turns("cuda", 0, timed=False)  # nothing is disturbed, so nobody waits
    assert untimed.generating().phases is None and untimed.judging("cuda").phases is None
