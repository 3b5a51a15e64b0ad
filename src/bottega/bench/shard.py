"""One device with its judge, and the detection of a lost device.

A GPU that falls off the bus looks at first like a broken task: the reference fails on it. So whenever a task cannot be judged, or the judge
itself fails, a tiny task that always works is run; if that fails too, the device is lost, and nothing it said last is believed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from bottega.bench.by_task import ByTask
from bottega.bench.known_verdicts import KnownVerdicts
from bottega.bench.settings import BenchJudgeSettings
from bottega.bench.task_set import CANNOT
from bottega.core.candidate import Candidate
from bottega.core.closing import Closing
from bottega.core.errors import BottegaError, JudgeError, SandboxError, TaskError, UsageError
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.judge.device_host import LOCAL, DeviceHost, kind_of, maker_of
from bottega.judge.machine import Workers

PROBE = Task(
    "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n\n\n"
    "def get_inputs():\n    return [torch.randn(1024)]\n\n\ndef get_init_inputs():\n    return []\n",
    "probe",
)
MOST_LOOKS = 256
PROBES = 2
"""A task that was up may have died with the candidate beside it; a fresh one decides."""


class Unfit(BottegaError):
    """The task cannot be judged at all, and the message says why."""


class DeviceLost(BottegaError):
    """The device, or the judge on it, is gone. What it had under way has no verdict and may be judged again."""


@dataclass(frozen=True)
class Fitness:
    runs: bool
    reason: str = ""
    """Why the task cannot be judged fairly, or not at all."""

    @classmethod
    def of(cls, reason: str) -> Fitness:
        return cls(not reason.startswith(CANNOT), reason)


class Shard(Closing):
    """One device. Episodes take it for their judge."""

    def __init__(
        self,
        device: str,
        judging: BenchJudgeSettings,
        workers: Workers = "auto",
        known: KnownVerdicts | None = None,
        host: DeviceHost = LOCAL,
    ) -> None:
        """Without `known` every request is judged, also for a text that was judged before."""
        self.device, self.known = device, known
        self.judge = host.judge(device, workers=workers, **judging.options)
        self.lost = ""
        """Why it is gone; empty while it is there."""
        self._looking = ThreadPoolExecutor(MOST_LOOKS, thread_name_prefix=f"bench-{device}")
        self._probing = asyncio.Lock()
        self._by_task = ByTask(lambda: self.lanes)
        self.look: Callable[[Task], Awaitable[None]] | None = None
        """Asked before every verdict, while the task is about to be brought up for it; may raise `Unfit`."""

    @property
    def lanes(self) -> int:
        """Verdicts to ask for at a time; of a cluster, as many as it can do now."""
        return self.judge.lanes

    def close(self) -> None:
        self._by_task.close()
        self.judge.close()
        self._looking.shutdown(wait=False, cancel_futures=True)

    async def judge_async(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        """Raises `DeviceLost`, or `JudgeError` where only this kernel could not be judged. What is known was judged without options. Drafts are
        timed as strangers' kernels are: a benchmark holds authors against each other."""
        options.pop("own_code", None)
        if self.known is None or options:
            return await self._judged(task, candidate, **options)
        return await self.known.judged(task.id, candidate.id, lambda: self._judged(task, candidate))

    async def looked_at(self, task: Task) -> None:
        """Have `look` asked in the task's turn, where there is no kernel to judge. Raises as `look` does."""
        await self._by_task.do(task.id, lambda: self._look(task))

    async def fitness(self, task: Task) -> Fitness:
        """Whether a task can be judged fairly here. Raises as `judge_async` does."""
        if self.known is not None and task.id in self.known.fitness:
            return Fitness.of(self.known.fitness[task.id])
        loop = asyncio.get_running_loop()
        try:
            report = await self._asked(lambda: loop.run_in_executor(self._looking, self.judge.fitness, task))
        except TaskError as error:
            if not await self.alive(str(error)):
                raise DeviceLost(self.lost) from None
            return Fitness.of(f"{CANNOT}run: {' '.join(str(error).split())[:400]}")
        return Fitness.of("; ".join(f"{row['name']}: {row['detail']}" for row in report["problems"]))

    async def alive(self, why: str) -> bool:
        """Whether the device still does its work. Once it does not, that stands."""
        async with self._probing:
            loop = asyncio.get_running_loop()
            for _ in range(PROBES):
                if self.lost:
                    return False
                try:
                    await loop.run_in_executor(self._looking, self.judge.fitness, PROBE)
                    return True
                except (BottegaError, OSError, RuntimeError) as error:
                    last = error
            self.lost = (
                f"{self.device} is lost: {' '.join(str(last).split())[:200]} (seen first: {' '.join(why.split())[:200]})"
            )
            return False

    async def _judged(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        return await self._by_task.do(task.id, lambda: self._verdict(task, candidate, **options))

    async def _look(self, task: Task) -> None:
        if self.look is not None:
            await self.look(task)

    async def _verdict(self, task: Task, candidate: Candidate, **options: Any) -> Verdict:
        await self._look(task)
        verdict: Verdict = await self._asked(lambda: self.judge.judge_async(task, candidate, **options))
        if verdict.outcome is Outcome.INVALID_TASK and not await self.alive(verdict.diagnosis):
            raise DeviceLost(self.lost)
        return verdict

    async def _asked(self, ask: Callable[[], Any]) -> Any:
        if self.lost:
            raise DeviceLost(self.lost)
        try:
            return await ask()
        except (JudgeError, SandboxError, OSError, RuntimeError) as error:
            if not await self.alive(str(error)):
                raise DeviceLost(self.lost) from None
            raise JudgeError(str(error)) from None


def fingerprint_of(devices: Sequence[str], host: DeviceHost = LOCAL) -> dict[str, Any]:
    """Of the run: the first device's, with all of them named. Devices of different makes are refused."""
    prints = {device: host.fingerprint(device) for device in devices}
    makes = {device: maker_of(found) for device, found in prints.items()}
    if len(set(makes.values())) > 1:
        told = ", ".join(f"{device} is {make}" for device, make in makes.items())
        raise UsageError(f"the devices differ ({told}); times of different devices do not belong in one run")
    return {**prints[devices[0]], "device": kind_of(devices[0]), "devices": list(devices)}
