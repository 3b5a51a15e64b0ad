"""The candidate's time limit runs while the candidate works, and at no other time."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.judge.evaluation import longest_reference_call
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.judge import Judge
from bottega.judge.time_limit import TimeBudget
from bottega.judge.trials import run_trial
from bottega.judge.worker_link import RunnerFailed
from bottega.languages import candidate_from

SOURCE = """
import time
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        time.sleep(SECONDS)
        return x * 2

def get_inputs():
    return [torch.randn(8, 8)]

def get_init_inputs():
    return []
"""


def sleeping(seconds: float) -> str:
    return SOURCE.replace("SECONDS", str(seconds))


def kernel(seconds: float) -> Candidate:
    return candidate_from(sleeping(seconds).replace("class Model(", "class ModelNew("))


def test_other_work_has_its_own_time_and_takes_none_of_the_candidates() -> None:
    budget = TimeBudget(100.0)
    with budget.paused(5.0):
        assert budget.deadline() < time.monotonic() + 6.0
        time.sleep(0.05)
    assert budget.deadline() > time.monotonic() + 99.97


def test_who_has_used_up_his_time_gets_none_back() -> None:
    budget = TimeBudget(-1.0)
    with budget.paused(5.0):
        assert budget.deadline() > time.monotonic()
    assert budget.deadline() < time.monotonic()


@pytest.mark.parametrize(
    ("variant", "device", "allowed"), [("plain", "cpu", math.inf), ("mixed", "cpu", 31.0), ("mixed", "cuda", math.inf)]
)
def test_a_loop_that_never_ends_on_other_inputs_is_not_waited_for(variant: str, device: str, allowed: float) -> None:
    """A reference that goes on until something has converged; of a GPU others may have the device, a candidate too."""
    seconds: list[float] = []

    def never(inputs: object, options: object) -> None:
        raise RunnerFailed("timeout")

    def paused(most: float) -> AbstractContextManager[None]:
        seconds.append(most)
        return nullcontext()

    nothing: Any = None
    eager: Any = SimpleNamespace(run_call=never)
    options: Any = SimpleNamespace(paused=paused)
    most = longest_reference_call(variant, device, alone_ms=10.0)
    with pytest.raises(InvalidTask, match="not its own" if allowed < math.inf else "its own inputs: timeout"):
        run_trial(lambda variant: nothing, nothing, eager, nothing, variant, options, profile=nothing, most=most)
    assert seconds == [allowed]


@pytest.mark.rotates
def test_a_slow_reference_takes_none_of_the_candidates_time(judge: Judge) -> None:
    slow = Task(sleeping(0.5), name="slow")
    assert judge.judge(slow, kernel(0.0), timeout=4.0, timed=False).correct
    assert judge.judge(slow, kernel(5.0), timeout=4.0, timed=False).outcome == "timeout"
