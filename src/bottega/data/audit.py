"""The audit of the trusted judge: a share of its kernels is judged again by the real judge, and the two verdicts are compared.

A hash of task and kernel selects them: nobody chooses, and a resumed run audits the same ones.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bottega.core.errors import JudgeError, NoJudgeError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.data.stored_verdicts import StoringJudge

FACT = "audit"
SHOWN = 20


@dataclass
class Audit:
    """How often the two judges agree."""

    share: float
    audited: int = 0
    same_class: int = 0
    """Both call it right, or both wrong in the same way."""
    both_timed: int = 0
    overlapping: int = 0
    """Of those that both have timed: the intervals against the first baseline overlap."""
    without: int = 0
    """Selected, and without a verdict of the real judge, which failed."""
    differences: list[dict[str, Any]] = field(default_factory=list)

    def take(self, task: Task, trusted: Verdict, judged: Verdict, baseline: str) -> None:
        self.audited += 1
        agree = class_of(trusted) == class_of(judged)
        self.same_class += agree
        mine, theirs = trusted.speedup.get(baseline), judged.speedup.get(baseline)
        overlap = True
        if mine is not None and theirs is not None:
            overlap = mine.low <= theirs.high and theirs.low <= mine.high
            self.both_timed += 1
            self.overlapping += overlap
        if not (agree and overlap) and len(self.differences) < SHOWN:
            self.differences.append(
                {
                    "task": task.label,
                    "candidate": trusted.candidate_id,
                    "trusted": _summary(trusted, baseline),
                    "judge": _summary(judged, baseline),
                }
            )

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def words(self) -> str:
        text = f"audit: the judge agrees on {self.same_class} of {self.audited} kernels"
        if self.both_timed:
            text += f", and on the speed of {self.overlapping} of {self.both_timed}"
        return text + (f"; {self.without} could not be audited" if self.without else "")


def class_of(verdict: Verdict) -> str:
    return "right" if verdict.outcome.accepted else verdict.outcome.value


def is_audited(task_id: str, candidate_id: str, share: float) -> bool:
    number = int.from_bytes(hashlib.sha256(f"audit {task_id} {candidate_id}".encode()).digest()[:8], "big")
    return number < share * 2**64


async def run_audit(
    store: JudgedStore,
    trusted: JudgeSetup,
    judge: StoringJudge,
    share: float,
    baseline: str,
    workers: int,
    changed: Callable[[Audit], None],
) -> Audit:
    """Audit every selected verdict in the store; what the real judge has judged before is not judged again."""
    audit = Audit(share)
    waiting = iter(sorted(pair for pair in store.judged(trusted) if is_audited(*pair, share)))

    async def work() -> None:
        for task_id, candidate_id in waiting:
            await _audit_one(store, trusted, judge, (task_id, candidate_id), baseline, audit)
            changed(audit)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work())
    store.note(FACT, {**audit.to_json(), "bench": trusted.device})
    return audit


async def _audit_one(
    store: JudgedStore, trusted: JudgeSetup, judge: StoringJudge, pair: Sequence[str], baseline: str, audit: Audit
) -> None:
    task_id, candidate_id = pair
    own = store.verdict(trusted, task_id, candidate_id)
    task = store.task_record(task_id).task
    assert own is not None
    try:
        verdict = await judge.judge_async(task, store.kernel(candidate_id))
    except JudgeError as error:
        if isinstance(error, NoJudgeError) or "closed" in str(error):
            raise
        audit.without += 1
        return
    if verdict.outcome is Outcome.INVALID_TASK:
        audit.without += 1
        return
    audit.take(task, own, verdict, baseline)


def _summary(verdict: Verdict, baseline: str) -> dict[str, Any]:
    speedup = verdict.speedup.get(baseline)
    interval = [speedup.low, speedup.point, speedup.high] if speedup else None
    return {"outcome": verdict.outcome.value, "interval": interval, "diagnosis": verdict.diagnosis[:300]}
