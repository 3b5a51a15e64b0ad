"""A verdict that is cancelled from another thread ends soon, whatever runs for it, and the next one is judged as if nothing had happened."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from corpus import TESTS, load_task, read
from process_tree import descendants
from waiting import until

from bottega.core.task import Task
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.judge.judge import Judge
from bottega.judge.session import Session
from bottega.judge.session_pool import SessionPool
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


@pytest.mark.rotates
@pytest.mark.parametrize(("place", "supervisor"), [(0, False), (1, True)], ids=["task", "model"])
def test_a_task_that_loses_a_process_is_brought_up_once_more(
    judge: Judge, monkeypatch: pytest.MonkeyPatch, place: int, supervisor: bool
) -> None:
    """A system that is out of memory kills any process: the one of the task, the one that runs its model, or what supervises them."""
    honest = read(TESTS / "honest" / "cpu" / "relu_openmp.py")
    task = Task(f"{load_task('relu').source}\nimport time\ntime.sleep({2 + place})\n")
    spawned: list[Any] = []
    spawn = Session._spawn
    monkeypatch.setattr(Session, "_spawn", lambda *given, **named: spawned.append(spawn(*given, **named)) or spawned[-1])
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(judge.judge(task, honest.candidate(), timed=False)))
    thread.start()
    until(lambda: len(spawned) > place)
    supervising = supervisor_of(spawned[place])
    os.kill(supervising if supervisor else max(descendants(supervising)), signal.SIGKILL)
    thread.join(120)
    assert found[0].correct, found[0].diagnosis


def supervisor_of(sandbox: Any) -> int:
    """The process that supervises a sandbox which has begun."""
    pid = int(Path(f"/proc/self/fdinfo/{sandbox._supervisor}").read_text().partition("Pid:")[2].split()[0])
    until(lambda: descendants(pid))
    return pid


@pytest.mark.rotates
def test_a_candidate_whose_supervisor_is_killed_is_tried_once_more(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = read(TESTS / "honest" / "cpu" / "relu_openmp.py")
    slow = candidate_from(f"{honest.candidate().source}\nimport time\ntime.sleep(3)\n")
    taken: list[Any] = []
    take = SessionPool.worker
    monkeypatch.setattr(SessionPool, "worker", lambda pool: taken.append(take(pool)) or taken[-1])
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(judge.judge(load_task("relu"), slow, timed=False)))
    thread.start()
    until(lambda: taken)
    os.kill(supervisor_of(taken[0].sandbox), signal.SIGKILL)
    thread.join(120)
    assert found[0].correct and len(taken) == 2, found[0].diagnosis
