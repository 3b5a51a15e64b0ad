"""The judges behind the tools: one for each device, opened when it is first asked for; or those of a `bottega serve`.

A call that its client cancels ends what runs for it, and has its place until that has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from bottega.core.candidate import Candidate
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.core.verdict import Verdict
from bottega.judge.cancellation import Cancellation
from bottega.judge.device_facts import device_facts, require_device
from bottega.judge.judge import Judge
from bottega.judge.remote import RemoteDevices
from bottega.service.mcp.calls import Calls, CallTooLong
from bottega.service.tokens import Token

T = TypeVar("T")


class JudgePool:
    def __init__(self, devices: tuple[str, ...] = ("cpu",), server: str = "", calls: Calls | None = None) -> None:
        self.served = RemoteDevices(server) if server else None
        self.calls = calls or Calls()
        self._devices = devices
        self._open: dict[tuple[str, bool], Any] = {}
        self._opening = threading.Lock()
        self._judging = ThreadPoolExecutor(self.calls.most, "judging")
        self._killing = ThreadPoolExecutor(2, "killing")
        """Apart from all others, so that what is to be ended never waits for what runs."""
        for device in () if server else devices:
            require_device(device)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(self.served.rows) if self.served is not None else self._devices

    def facts(self) -> list[dict[str, Any]]:
        """Of each device; the first is where kernels are judged that name none."""
        if self.served is not None:
            return [{"device": name, **dict(row["facts"])} for name, row in self.served.rows.items()]
        return [{"device": name, **device_facts(name).to_json()} for name in self._devices]

    async def ready(self) -> None:
        """A server is asked for its devices once, and not in the event loop."""
        if self.served is not None:
            await asyncio.to_thread(lambda served: served.rows, self.served)

    async def verdict(
        self, token: Token, task: Task, candidate: Candidate, device: str = "", again: bool = False, **options: Any
    ) -> Verdict:
        """`again`: measured anew also where a server has a verdict on the same content. Judges here always measure."""
        cancellation = Cancellation()
        chosen = self._named(device)

        def judge() -> Verdict:
            opened = self._opened(chosen, again)
            if self.served is not None:
                return opened.judge(task, candidate, **options)  # type: ignore[no-any-return]
            return opened.judge(task, candidate, cancellation=cancellation, **options)  # type: ignore[no-any-return]

        return await self._apart(token, judge, cancellation)

    async def fitness(self, token: Token, task: Task, device: str = "", **options: Any) -> dict[str, Any]:
        cancellation = Cancellation()
        chosen = self._named(device)
        if self.served is None:
            options["cancellation"] = cancellation
        return await self._apart(token, lambda: self._opened(chosen).fitness(task, **options), cancellation)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
        for pool in (self._judging, self._killing):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _apart(self, token: Token, work: Callable[[], T], cancellation: Cancellation) -> T:
        give_back = self.calls.take_place(token)

        def counted() -> T:
            with self.calls.counting(token):
                return work()

        def ended(job: asyncio.Future[T]) -> None:
            give_back()
            if not job.cancelled():
                job.exception()  # whoever cancelled does not come for it

        job = asyncio.get_running_loop().run_in_executor(self._judging, counted)
        job.add_done_callback(ended)
        try:
            async with self.calls.limit(token):
                return await asyncio.shield(job)
        except (asyncio.CancelledError, CallTooLong):
            asyncio.get_running_loop().run_in_executor(self._killing, cancellation.cancel)
            raise

    def _named(self, device: str) -> str:
        if self.served is not None:
            return self.served.named(device or None)
        if not device:
            return self._devices[0]
        if device not in self._devices:
            raise UsageError(f"device {device!r}: this server judges on {', '.join(self._devices)}")
        return device

    def _opened(self, device: str, again: bool = False) -> Any:
        key = device, again and self.served is not None
        with self._opening:
            if key not in self._open:
                self._open[key] = replace(self.served, fresh=again).judge(device) if self.served is not None else Judge(device)
            return self._open[key]
