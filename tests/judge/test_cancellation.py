"""A verdict that is cancelled from another thread ends soon, whatever runs for it, and the next one is judged as if nothing had happened."""

from __future__ import annotations

import threading

import pytest
from corpus import TESTS, load_task, read
from waiting import until

from bottega.core.task import Task
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.judge.judge import Judge
from bottega.languages import candidate_from

ENDLESS = candidate_from(
    "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        while True: pass\n"
)
SLEEPING = Task(
    "import time, torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    "def get_inputs():\n    time.sleep(200)\ndef get_init_inputs():\n    return []\n"
)


def cancelled_after_its_start(call: object, processes: int = 1) -> None:
    """Calls with a cancellation, and cancels once there are so many groups of processes to kill: the task's, then the candidate's."""
    cancellation = Cancellation()

    def cancel() -> None:
        until(lambda: len(cancellation._kills) == processes)
        cancellation.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(Cancelled):
        call(cancellation)  # type: ignore[operator]
    thread.join(60)


@pytest.mark.rotates
@pytest.mark.timeout(150)  # less than the candidate and the task would take
def test_candidates_and_tasks_under_way_are_killed(judge: Judge) -> None:
    task = load_task("relu")
    cancelled_after_its_start(lambda cancellation: judge.judge(task, ENDLESS, timeout=200, cancellation=cancellation), 2)
    cancelled_after_its_start(lambda cancellation: judge.fitness(SLEEPING, cancellation=cancellation))
    honest = read(TESTS / "honest" / "cpu" / "relu_openmp.py")
    assert judge.judge(task, honest.candidate(), timed=False, cancellation=Cancellation()).correct


def test_what_was_cancelled_before_does_not_begin(judge: Judge) -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        judge.judge(load_task("relu"), ENDLESS, cancellation=cancellation)


def test_whoever_comes_between_is_killed_too() -> None:
    killed: list[str] = []
    cancellation = Cancellation()
    with pytest.raises(Cancelled), cancellation.killing(lambda: killed.append("a")):
        cancellation.cancel()
    assert killed == ["a"]
    with pytest.raises(Cancelled), cancellation.killing(lambda: killed.append("b")):
        pass
    assert killed == ["a"], "nothing is begun that would have to be killed"
