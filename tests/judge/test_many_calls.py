"""Contents for many calls: drawn anew, or a draw whose rows are moved on, where drawing takes long and the task stands it."""

from __future__ import annotations

import time
from contextlib import nullcontext
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bottega.judge import many_calls
from bottega.judge.inputs import InputSet
from bottega.judge.prepared_work import PreparedWork
from bottega.judge.timed_outputs import TimedOutputs
from bottega.judge.worker_link import RunnerFailed


class Source:
    def __init__(self) -> None:
        self.drawn: list[str] = []

    def __call__(self, variant: str) -> InputSet:
        self.drawn.append(variant)
        return InputSet(None, [torch.randn(64, 32), torch.arange(64)], variant)


class Called:
    """A candidate whose first calls are quick."""

    name, device, retained, reads_memory = "candidate", "cpu", None, False

    def __init__(self, quick: int) -> None:
        self.left = quick
        self.seen: list[torch.Tensor] = []

    def run_call(self, inputs: InputSet, options: object, keep: bool = False, look: Any = None, sampled: bool = False) -> Any:
        self.left -= 1
        self.seen.append(inputs.tensors[0])
        took = 100 if self.left >= 0 else 1000
        return SimpleNamespace(core_ns=lambda cores: took)


def calls(
    monkeypatch: pytest.MonkeyPatch,
    accepted: tuple[str, ...],
    room: int,
    seconds: float = 60.0,
    problem: str = "",
    baseline: Called | None = None,
) -> tuple[Source, Called, many_calls.ManyCalls]:
    for name in ("keeps_outputs", "reuses_outputs"):
        monkeypatch.setattr(many_calls, name, lambda *_: False)
    monkeypatch.setattr(many_calls, "call_violations", lambda *_: [])
    monkeypatch.setattr(TimedOutputs, "problem", lambda *_: problem)
    source, candidate = Source(), Called(quick=10)
    settings: Any = SimpleNamespace(quick=True)
    profile: Any = SimpleNamespace(input_room=room)
    nothing: Any = None
    options: Any = SimpleNamespace(deadline=lambda: time.monotonic() + seconds, paused=nullcontext)
    found = many_calls.call_often(
        source,
        nothing,
        baseline or Called(quick=0),  # type: ignore[arg-type]
        candidate,  # type: ignore[arg-type]
        {variant: [] for variant in accepted},
        settings=settings,
        options=options,
        profile=profile,
        prepared=PreparedWork(unit=1.0, calls=16),
    )
    return source, candidate, found


class Raises(Called):
    """Has no answer to every other call."""

    name = "eager"

    def run_call(self, inputs: InputSet, options: object, keep: bool = False, look: Any = None, sampled: bool = False) -> Any:
        self.left -= 1
        if self.left % 2:
            raise RunnerFailed("failure", {"text": "singular"})
        return super().run_call(inputs, options, keep, look, sampled)


def test_contents_that_the_reference_has_no_answer_to_blame_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_calls, "COMPARED_ONE_IN", 1)
    _, _, found = calls(monkeypatch, ("plain",), 0, baseline=Raises(quick=0))
    assert len(found.core_ns) == 16 + 8


def test_a_stock_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    took = calls(monkeypatch, ("plain", "spiked"), room=4096)[2].core_ns
    assert len(took) == 24 and took[0] == 100 and took[-1] == 1000


def test_a_kernel_that_takes_all_of_its_time_for_a_call_is_called_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would meet its time limit here, and what is not known is charged."""
    assert calls(monkeypatch, ("plain",), room=4096, seconds=0.0)[2].core_ns == []


def test_no_call_is_begun_when_its_share_of_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr(many_calls, "time", SimpleNamespace(monotonic=lambda: float(next(now))))
    monkeypatch.setattr(many_calls, "LONGEST_SECONDS", 5.0)
    assert len(calls(monkeypatch, ("plain",), room=4096, seconds=1e9)[2].core_ns) == 4


def test_who_leaves_the_work_out_once_its_stock_is_used_up_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_calls, "COMPARED_ONE_IN", 1 << 62)
    found = [calls(monkeypatch, ("plain",), room=4096, problem="wrong")[2] for _ in range(64)]
    assert all(len(each.core_ns) >= 16 for each in found), "looked at before"
    assert sum(not each.seen.problem for each in found) <= 4


def test_cheap_contents_are_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    source, _, _ = calls(monkeypatch, ("plain", "spiked"), room=4096)
    assert len(source.drawn) == 24


def test_a_large_draw_serves_several_calls_and_none_sees_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    source, candidate, _ = calls(monkeypatch, ("plain", "spiked"), room=64 << 20)
    assert len(source.drawn) == 3
    assert not any(torch.equal(candidate.seen[0], other) for other in candidate.seen[1:])


def test_a_task_that_accepts_nothing_else_gets_its_own_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    source, _, _ = calls(monkeypatch, ("plain",), room=64 << 20)
    assert source.drawn == ["plain"] * 24


def test_what_is_no_free_tensor_stays_as_it_is() -> None:
    source = Source()
    one, two = islice(many_calls._contents(source, ["plain", "spiked"], uses=8), 2)
    assert torch.equal(one.tensors[1], two.tensors[1]) and not torch.equal(one.tensors[0], two.tensors[0])
