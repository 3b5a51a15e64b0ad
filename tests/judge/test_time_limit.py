"""The candidate's time limit runs while the candidate works, and at no other time."""

from __future__ import annotations

import time

import pytest

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.judge.judge import Judge
from bottega.judge.time_limit import TimeBudget
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


@pytest.mark.rotates
def test_a_slow_reference_takes_none_of_the_candidates_time(judge: Judge) -> None:
    slow = Task(sleeping(0.5), name="slow")
    assert judge.judge(slow, kernel(0.0), timeout=4.0, timed=False).correct
    assert judge.judge(slow, kernel(5.0), timeout=4.0, timed=False).outcome == "timeout"
