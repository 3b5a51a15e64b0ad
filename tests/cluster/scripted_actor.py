"""A Ray worker whose judge is scripted: real Ray, real processes, verdicts by the candidate's own words.

A candidate's text is `DO SECONDS REST`: `judge 0.1 x` is `incorrect` after that time, with the text and the process as its diagnosis; `die`
kills the worker under it, which no real candidate can, and which a machine's lack of memory does; `hang` goes on until it is cancelled.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from bottega.cluster.judge_actor import JudgeActor
from bottega.cluster.request_queue import JudgeName
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.cancellation import Cancellation

TASK = Task("class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n", "one")
OTHER = Task("class Model: pass\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n", "other")


class ScriptedJudge:
    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def judge(self, task: Task, candidate: Candidate, *, cancellation: Cancellation, **options: Any) -> Verdict:
        self.asked.append(candidate.source)
        do, seconds = [*candidate.source.split(), "0"][:2]
        until = time.monotonic() + (float(seconds) if do != "hang" else 600.0)
        while time.monotonic() < until:
            cancellation.check()
            time.sleep(0.005)
        if do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        told = {"settings": options, "pid": os.getpid(), "asked": len(self.asked)}
        return Verdict(Outcome.INCORRECT, diagnosis=candidate.source, candidate_id=candidate.id, fingerprint=told)

    def fitness(self, task: Task, *, cancellation: Cancellation) -> dict[str, Any]:
        return {"fit": True, "problems": [], "pid": os.getpid()}

    def ask(self, entry: str, label: str, *, cancellation: Cancellation, **arguments: Any) -> dict[str, Any]:
        return {"entry": entry, **arguments}

    def close(self) -> None: ...


class ScriptedActor(JudgeActor):
    """`BOTTEGA_TEST_MAKE` in a machine's environment is the name of its GPUs."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[str] = []

    def hello(self, workers: Any) -> dict[str, Any]:
        told = super().hello(workers)
        make = os.environ.get("BOTTEGA_TEST_MAKE")
        return {**told, "fingerprint": {**told["fingerprint"], "gpu": make}} if make else told

    def _judge(self, judge: JudgeName) -> Any:
        return ScriptedJudge(self.asked)


ONE = JudgeName("one")


def candidate(text: str) -> Candidate:
    return Candidate(text, "cpp")
