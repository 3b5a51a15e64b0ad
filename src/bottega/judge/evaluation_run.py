"""What all stages of one candidate's evaluation share: the task, the candidate's runner, the time left, and the findings."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

from bottega.judge.arena import Arena
from bottega.judge.call_options import CallOptions, no_op
from bottega.judge.device import DeviceControl
from bottega.judge.device_lock import Lease
from bottega.judge.inputs import InputSet
from bottega.judge.oracle import Oracle
from bottega.judge.reference import Reference
from bottega.judge.runner import Runner
from bottega.judge.settings import Settings
from bottega.judge.task_profile import TaskProfile
from bottega.judge.time_limit import TimeBudget
from bottega.judge.variants import OF_INTEGERS


class TaskContext(Protocol):
    """What an evaluation uses of the controller."""

    device: str
    lease: Lease
    device_control: DeviceControl
    reference: Reference
    oracle: Oracle
    profile: TaskProfile
    baselines: dict[str, Runner]
    state: str

    def load(self, runner: Runner, source: str, name: str, class_name: str, deadline: float) -> dict[str, Any]: ...

    def use_state(self, state: str, deadline: float) -> None: ...

    def await_baselines(self) -> dict[str, str]: ...

    def buffers(self) -> tuple[Arena, Arena]: ...

    def draw(self, variant: str = "plain") -> InputSet: ...


@dataclass
class EvaluationRun:
    context: TaskContext
    runner: Runner
    source: str
    claimed: tuple[str, ...]
    """Names of the kernels that the text defines."""
    settings: Settings
    budget: TimeBudget
    found: dict[str, Any] = field(default_factory=dict)
    """Plain data that the judge turns into a verdict."""
    samples: dict[str, Any] = field(default_factory=lambda: {"by_file": {}})
    """Of the candidate on a CPU, in those of its rounds that do not count: it cannot tell them from the timed ones."""
    timed_core_ns: float = 0.0
    """What a timed call of it took on a core."""

    def accepted_variants(self) -> list[str]:
        """Of which timed calls take one at random. A quick verdict has no trials of parts of `spiked`: calls that are timed have to do."""
        found = [
            trial["variant"] for trial in self.found["trials"] if not trial["skipped"] and trial["variant"] not in OF_INTEGERS
        ]
        parts = self.context.reference.inputs.parts_with_an_answer if self.settings.quick and "spiked" in found else ()
        return [*found, *(each for each in parts if each not in found)]

    def options(self, *, timed: bool = True) -> CallOptions:
        return self.context.profile.call_options(
            precision=self.settings.precision,
            state=self.context.state,
            deadline=self.budget.deadline,
            device_control=self.context.device_control,
            timed=timed,
            yield_to_timer=no_op if timed or self.context.device == "cpu" else self.yield_to_timer,
            released=nullcontext if timed else lambda: self.budget.released(self.context.lease),
            paused=self.paused,
        )

    def paused(self, most: float = math.inf) -> AbstractContextManager[None]:
        """For what is not the candidate's work, and may take so many seconds."""
        return self.budget.paused(min(most, self.settings.task_timeout))

    def yield_to_timer(self) -> None:
        self.budget.yield_to_timer(self.context.lease, self.context.device_control.synchronize)
