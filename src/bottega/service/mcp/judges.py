"""The judges behind the tools: one for each device, opened when it is first asked for; or those of a `bottega serve`.

A call that its client cancels ends what runs for it. Few calls run at a time, and a call that finds no place is told so instead of waiting
without an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.cancellation import Cancellation
from bottega.judge.device_facts import device_facts, is_here
from bottega.judge.judge import Judge
from bottega.judge.remote import RemoteDevices

MOST_AT_ONCE = 8
"""Calls that are judged or wait for a judge."""
T = TypeVar("T")


class JudgePool:
    def __init__(self, devices: tuple[str, ...] = ("cpu",), server: str = "", most: int = MOST_AT_ONCE) -> None:
        self.served = RemoteDevices(server) if server else None
        self._devices, self._most = devices, most
        self._open: dict[str, Any] = {}
        self._under_way = 0
        for device in () if server else devices:
            if not is_here(device):
                raise UsageError(f"device {device}: no NVIDIA GPU is visible here; use --device cpu")

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(self.served.rows) if self.served is not None else self._devices

    def facts(self) -> list[dict[str, Any]]:
        """Of each device; the first is where kernels are judged that name none."""
        if self.served is not None:
            return [{"device": name, **dict(row["facts"])} for name, row in self.served.rows.items()]
        return [{"device": name, **device_facts(name).to_json()} for name in self._devices]

    async def verdict(self, task: Task, candidate: Candidate, device: str = "", **options: Any) -> Verdict:
        cancellation = Cancellation()
        chosen = self._named(device)

        def judge() -> Verdict:
            opened = self._opened(chosen)
            if self.served is not None:
                return opened.judge(task, candidate, **options)  # type: ignore[no-any-return]
            return opened.judge(task, candidate, cancellation=cancellation, **options)  # type: ignore[no-any-return]

        return await self._apart(judge, cancellation)

    async def fitness(self, task: Task, device: str = "", **options: Any) -> dict[str, Any]:
        chosen = self._named(device)
        return await self._apart(lambda: self._opened(chosen).fitness(task, **options), Cancellation())

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    async def _apart(self, work: Callable[[], T], cancellation: Cancellation) -> T:
        if self._under_way >= self._most:
            raise UsageError(f"{self._most} calls are being judged already; wait for one of them, and call again")
        self._under_way += 1
        job = asyncio.get_running_loop().run_in_executor(None, work)
        job.add_done_callback(self._ended)
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            asyncio.get_running_loop().run_in_executor(None, cancellation.cancel)
            raise

    def _ended(self, job: asyncio.Future[Any]) -> None:
        self._under_way -= 1
        if not job.cancelled():
            job.exception()  # whoever cancelled does not come for it

    def _named(self, device: str) -> str:
        if self.served is not None:
            return self.served.named(device or None)
        if not device:
            return self._devices[0]
        if device not in self._devices:
            raise UsageError(f"device {device!r}: this server judges on {', '.join(self._devices)}")
        return device

    def _opened(self, device: str) -> Any:
        if device not in self._open:
            self._open[device] = self.served.judge(device) if self.served is not None else Judge(device)
        return self._open[device]
