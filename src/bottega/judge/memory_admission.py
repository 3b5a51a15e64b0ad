"""Admission of tasks to a GPU: memory is claimed before a task is opened, and want of memory that others caused is never a verdict.

What ran out of memory beside others is tried once more alone on the GPU. Only what does not fit then is the task's fault, or the
candidate's; where other processes hold the GPU even then, nobody is blamed and no verdict is given.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from bottega.core.errors import JudgeError, TaskError
from bottega.judge.memory_ledger import LedgerClaim, MemoryLedger
from bottega.judge.memory_need import MemoryEstimate, corrected_bytes, gigabytes, in_words, needed_bytes
from bottega.judge.memory_rules import RESERVE_BYTES, counts_as_empty

LARGEST_OVERESTIMATE = 2
"""An estimate may be wrong. One that exceeds the GPU by more than this factor is believed all the same."""


@dataclass(frozen=True)
class AdmittedTask:
    """A task that may be opened."""

    label: str
    key: Hashable
    claim: LedgerClaim
    estimate: MemoryEstimate
    need: int
    total: int
    alone: bool

    @property
    def on_empty_gpu(self) -> bool:
        return self.alone and counts_as_empty(self.total, self.claim.room)


class ShortOfMemory(TaskError):
    """A task that was admitted did not find the memory to open."""

    def __init__(self, text: str, admitted: AdmittedTask):
        super().__init__(text)
        self.admitted = admitted


class MemoryAdmission:
    """Of one judge. `free_memory` closes what that judge can do without, so many bytes of it."""

    def __init__(
        self,
        ledger: MemoryLedger,
        free_memory: Callable[[int], None] = lambda size: None,
        cancelled: Callable[[], bool] = lambda: False,
        warn: Callable[[str], None] = lambda line: None,
        while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):
        self.ledger = ledger
        self.free_memory = free_memory
        self.cancelled = cancelled
        self.warn = warn
        self.while_waiting = while_waiting
        self._seen: dict[Hashable, tuple[MemoryEstimate, int]] = {}
        """What tasks took when they were open: better than an estimate for opening them again."""
        self._alone: set[Hashable] = set()
        """Tasks that did not open beside others, for whom nobody could say what they took."""

    def admit(
        self, label: str, key: Hashable, estimated: Callable[[], MemoryEstimate], baselines: int, alone: bool
    ) -> AdmittedTask:
        """Waits until there is room. Raises `TaskError` for what no GPU of this size can hold, and `JudgeError` where other processes hold it."""
        estimate, need = self._seen.get(key) or _with_need(estimated(), baselines)
        total = self.ledger.total
        if total and need > LARGEST_OVERESTIMATE * total:
            raise TaskError(f"{label}: {_too_large(estimate, need, total)}")
        alone = alone or key in self._alone or need > total - RESERVE_BYTES
        claim = self.ledger.claim(
            need,
            label,
            whole=alone,
            free_memory=self.free_memory,
            warn=self.warn,
            cancelled=self.cancelled,
            while_waiting=self.while_waiting,
        )
        return AdmittedTask(label, key, claim, estimate, need, total, alone)

    def opened(self, admitted: AdmittedTask, facts: dict[str, Any]) -> None:
        """Correct the claim by what was seen. One who is alone keeps the GPU until the verdict, since the candidate may be what needs it."""
        peak = facts.get("peak_bytes")
        if not isinstance(peak, int) or isinstance(peak, bool) or peak <= 0:
            return
        taken = corrected_bytes(admitted.estimate, peak)
        self._seen[admitted.key] = admitted.estimate, taken
        self._alone.discard(admitted.key)
        if not admitted.alone:
            admitted.claim.correct(taken)

    def require_whole_gpu(self, admitted: AdmittedTask) -> None:
        """It did not open beside others: from now on it has the GPU alone, until somebody can say what it takes."""
        self._alone.add(admitted.key)

    def refusal(self, admitted: AdmittedTask) -> TaskError | JudgeError:
        """What to raise for a task that found too little memory alone on the GPU."""
        if admitted.on_empty_gpu:
            return TaskError(f"{admitted.label}: {_too_large(admitted.estimate, admitted.need, admitted.total)}")
        return self._held_by_others(admitted)

    def candidate_ran_short(self, admitted: AdmittedTask) -> JudgeError | None:
        """What to raise for a candidate that ran out of memory alone on the GPU; None: it has itself to blame."""
        if admitted.on_empty_gpu or admitted.claim.room >= LARGEST_OVERESTIMATE * admitted.need:
            return None
        return self._held_by_others(admitted)

    def wanted(self, seconds: float = 0.0) -> bool:
        """Whether anybody, here or in another process, has waited for so long."""
        return self.ledger.waiting(seconds) > 0

    def _held_by_others(self, admitted: AdmittedTask) -> JudgeError:
        who = self.ledger.gpu.holders()
        return JudgeError(
            f"{admitted.label}: found {gigabytes(max(0, admitted.claim.room))} GB of the GPU's {gigabytes(admitted.total)} free, too little; "
            f"others hold the rest{f' ({who})' if who else ''}: end them, or use another device"
        )


def _with_need(estimate: MemoryEstimate, baselines: int) -> tuple[MemoryEstimate, int]:
    return estimate, needed_bytes(estimate, baselines)


def _too_large(estimate: MemoryEstimate, need: int, total: int) -> str:
    """One sentence; it has the words by which want of memory is told."""
    if need > total:
        return f"needs {in_words(estimate, need)}, the GPU has {gigabytes(total)}; use smaller shapes"
    told = in_words(estimate, need)
    return f"does not fit the memory of the empty GPU, {gigabytes(total)} GB, although estimated to need {told}; use smaller shapes"
