"""Takes requests in, has each device judge one after the other, and tells those who wait: the server without its HTTP.

Everything here runs in one event loop except judging and SQLite, which have threads. The store is written before anybody is told: whatever
a client was told survives the death of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from bottega.core.errors import BottegaError
from bottega.judge.cancellation import Cancellation, Cancelled
from bottega.judge.fingerprint import JUDGE_VERSION
from bottega.service.judging import JudgeOfDevice, judged
from bottega.service.limits import TokenLimits
from bottega.service.metrics import ServerMetrics
from bottega.service.queue import FairQueue, Waiting
from bottega.service.records import ENDED, Kind, Record, Request
from bottega.service.store import Store
from bottega.service.usage import SecondsUsed

LOG = logging.getLogger(__name__)
DAY = 86400.0
PRUNE_SECONDS = 30.0
"""Short, as whoever sends and cancels keeps filling the disk."""
LOOK_SECONDS = 2.0
"""Between two looks for tokens that were revoked, or have seconds again."""
REVOKED = "its token was taken out of the server's token file, so it was cancelled; ask the operator for another token"
UNREADABLE = "the server's token file cannot be read now"
LANES_SECONDS = 2.0
"""How often it is seen how many lanes the judges have."""
MOST_LANES = 1024
STORE_SECONDS = 5.0
"""Between two tries to write where the disk refuses."""
KILL_SECONDS = 20.0
"""What ending processes may take at the end of the grace time."""
T = TypeVar("T")


class Tokens(Protocol):
    """What the dispatcher needs to know of tokens, by their names, as they are now."""

    def limits_of(self, name: str) -> TokenLimits | None:
        """None where it is unknown."""

    def revoked(self, name: str) -> bool:
        """Whether it is surely gone: not while the file cannot be read."""


class NoRoom(BottegaError):
    """There is no room for this request now; there may be in `seconds`."""

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = max(1, round(seconds))


@dataclass(frozen=True)
class Keeping:
    """How long and how much is kept, and how many may wait."""

    queue: int = 2000
    days: float = 30.0
    mib: int = 2048
    grace: float = 30.0
    """Seconds that what is running has to end when the server is told to stop."""


@dataclass
class _Running:
    record: Record
    cancellation: Cancellation = field(default_factory=Cancellation)
    stopping: bool = False


class Dispatcher:
    def __init__(
        self,
        store: Store,
        judges: Mapping[str, JudgeOfDevice],
        tokens: Tokens,
        keeping: Keeping,
    ) -> None:
        self.store, self.judges, self.tokens, self.keeping = store, dict(judges), tokens, keeping
        self.usage = SecondsUsed(store.path.with_name("usage.db"))
        self.queue, self.metrics = FairQueue(), ServerMetrics()
        self.stopping = False
        self._running: dict[tuple[str, int], _Running] = {}
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._work = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._lanes: list[asyncio.Task[None]] = []
        self._begun: Counter[str] = Counter()
        """Lanes of each device."""
        self._judging = ThreadPoolExecutor(MOST_LANES, "judging")
        self._storing = ThreadPoolExecutor(4, "store")
        self._killing = ThreadPoolExecutor(4, "killing")
        """Apart from all others, so that what is to be ended never waits for what runs."""
        self._seconds = 5.0
        """How long a request has taken lately, for `Retry-After`."""

    async def open(self) -> None:
        """Queue what an earlier server left, and begin to judge."""
        for record in await self._stored(self.store.recover):
            self.queue.put(Waiting(id=record.id, token=record.token, devices=self._able(record), priority=record.priority))
        self._open_lanes()
        watches = (self._prune(), self._look_at_tokens(), self._watch_lanes())
        self._tasks = [asyncio.create_task(watch) for watch in watches]

    async def submit(self, request: Request) -> Record:
        """The request's record; a content that is known is not judged again. Raises `NoRoom`."""
        id = request.id(JUDGE_VERSION)
        known = await self.get(id)
        if known is not None and known.state not in ("failed", "cancelled"):
            return known
        if self.stopping:
            raise NoRoom("the server is about to stop; ask again when it is back", 10)
        self._refuse_too_much(request.token)
        record, new = await self._stored(self.store.accept, id, request)
        if new:
            async with self._work:
                self.queue.put(Waiting(id=id, token=request.token, devices=self._able(record), priority=request.priority))
                self._work.notify_all()
            self._tell(id)
        return record

    async def get(self, id: str) -> Record | None:
        return await self._stored(self.store.get, id)

    async def listed(self, token: str, kind: Kind, before: Record | None, count: int) -> list[Record]:
        """A token's own, the newest first, those that came before that one."""
        since = None if before is None else (before.accepted, before.id)
        return await self._stored(self.store.listed, token, kind, since, count)

    async def changed(self, record: Record, seconds: float) -> Record:
        """The record once it is in another state, or as it is when the time is up or the server stops."""
        event = asyncio.Event()
        self._watchers.setdefault(record.id, set()).add(event)
        try:
            now = await self.get(record.id) or record
            if now.state == record.state and now.attempt == record.attempt and not self.stopping:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), seconds)
                now = await self.get(record.id) or record
            return now
        finally:
            watchers = self._watchers[record.id]
            watchers.discard(event)
            if not watchers:
                del self._watchers[record.id]

    async def ended(self, record: Record, seconds: float) -> Record:
        """The record once it has ended, or as it is when the time is up or the server stops."""
        deadline = time.monotonic() + seconds
        while record.state not in ENDED and not self.stopping and (left := deadline - time.monotonic()) > 0:
            record = await self.changed(record, left)
        return record

    async def cancel(self, id: str, reason: str = "cancelled") -> bool:
        """Whether there was something to cancel. Of one that runs, the processes are killed."""
        self.queue.remove(id)
        cancelled = await self._stored(self.store.cancel, id, reason)
        for (running, _), one in list(self._running.items()):
            if running == id and cancelled:
                self._kill(one)
        if cancelled:
            self.metrics.count("bottega_ended_total", outcome="cancelled")
            self._tell(id)
        return cancelled

    def withheld(self, token: str) -> str:
        """Why nothing of this token is begun now, in a sentence; empty where it may be."""
        limits = self.tokens.limits_of(token)
        return UNREADABLE if limits is None else self.usage.used_up(token, limits)

    def running(self, device: str) -> int:
        return sum(one.record.device == device for one in self._running.values())

    def stop_waiting(self) -> None:
        """Whoever waits is answered now; nothing new begins."""
        self.stopping = True
        for id in list(self._watchers):
            self._tell(id)

    async def close(self) -> None:
        """What runs may end within the grace time; the rest goes back to the queue, for the next start."""
        self.stop_waiting()
        async with self._work:
            self._work.notify_all()
        if self._lanes:
            await asyncio.wait(self._lanes, timeout=self.keeping.grace)
        kills = []
        for one in list(self._running.values()):
            one.stopping = True
            kills.append(self._kill(one))
        await asyncio.gather(*kills, return_exceptions=True)
        if self._lanes:
            await asyncio.wait(self._lanes, timeout=KILL_SECONDS)
        for task in (*self._lanes, *self._tasks):
            task.cancel()
        for (id, attempt), _ in list(self._running.items()):
            await self._stored(self.store.back_to_queue, id, attempt)
        for judge in self.judges.values():
            await asyncio.to_thread(judge.close)
        self._judging.shutdown(wait=False, cancel_futures=True)
        self._storing.shutdown()
        self._killing.shutdown(wait=False, cancel_futures=True)
        self.usage.close()
        self.store.close()

    def _able(self, record: Record) -> frozenset[str]:
        """Devices that may judge it; where the server has none of them any more, it waits."""
        return frozenset(record.devices)

    def _refuse_too_much(self, token: str) -> None:
        limits = self.tokens.limits_of(token) or TokenLimits()
        own, lanes = self.queue.count(token), sum(judge.lanes for judge in self.judges.values()) or 1
        share = max(1, int(limits.queue_share * self.keeping.queue))
        if own >= share or len(self.queue) >= self.keeping.queue:
            whose = "your share of the queue" if own >= share else "the queue"
            raise NoRoom(
                f"{whose} is full ({own} of yours, {len(self.queue)} in all); ask again later", self._seconds / lanes * 2
            )
        if told := self.usage.used_up(token, limits):
            raise NoRoom(f"{told}; ask again later", 60)

    def _open_lanes(self) -> None:
        """As many as each judge has now."""
        for device, judge in self.judges.items():
            for number in range(self._begun[device], judge.lanes):
                self._begun[device] += 1
                self._lanes.append(asyncio.create_task(self._lane(device, judge, number)))

    async def _watch_lanes(self) -> None:
        """Machines join a cluster and leave it."""
        counts: dict[str, int] = {}
        while True:
            self._open_lanes()
            now = {device: judge.lanes for device, judge in self.judges.items()}
            if now != counts:  # lanes that were too many may have their turn again
                async with self._work:
                    self._work.notify_all()
            counts = now
            await asyncio.sleep(LANES_SECONDS)

    async def _lane(self, device: str, judge: JudgeOfDevice, number: int) -> None:
        while not self.stopping:
            async with self._work:
                able = number < judge.lanes
                waiting = self.queue.take(device, lambda token: not self.withheld(token)) if able else None
                if waiting is None:
                    await self._work.wait()
                    continue
            try:
                await self._judge(device, judge, waiting.id)
            except sqlite3.Error as error:  # it never began: it waits on, and so does the lane
                LOG.error("a request cannot be begun: %s", error)
                self.queue.put(waiting)
                await asyncio.sleep(STORE_SECONDS)

    async def _judge(self, device: str, judge: JudgeOfDevice, id: str) -> None:
        begun = await self._stored(self.store.start, id, device)
        if begun is None:
            return
        record, request = begun
        one = self._running[id, record.attempt] = _Running(record)
        now: Record | None = record
        with contextlib.suppress(sqlite3.Error):
            now = await self.get(id)  # whoever cancelled before this look did not find it among the running ones
        if now is None or (now.state, now.attempt) != ("running", record.attempt):
            del self._running[id, record.attempt]
            return
        self._tell(id)
        self.metrics.observe("bottega_waiting_seconds", (record.started or 0.0) - record.accepted)
        limits = self.tokens.limits_of(record.token) or TokenLimits()
        watch = asyncio.create_task(self._limit(one, limits.seconds))
        loop, since = asyncio.get_running_loop(), time.monotonic()
        result: dict[str, Any] | None = None
        task_id = error = ""
        try:
            with self.usage.counting(record.token):
                result, task_id = await loop.run_in_executor(self._judging, judged, judge, request, one.cancellation)
        except Cancelled:
            error = "cancelled"  # whoever did it has written down why
        except BottegaError as failed:
            error = str(failed)
        except Exception as failed:
            LOG.exception("an error in the judge")
            error = f"an error in Bottega itself, please report it: {type(failed).__name__}: {failed}"
        finally:
            watch.cancel()
            took = time.monotonic() - since
            self._seconds += 0.1 * (took - self._seconds)
            self.metrics.observe("bottega_judging_seconds", took)
        if one.stopping and result is None:
            await self._stored(self.store.back_to_queue, id, record.attempt)
        else:
            state = "failed" if result is None else "done"
            if await self._finished(id, record.attempt, state, result, error, task_id):
                self.metrics.count(
                    "bottega_ended_total", outcome=str((result or {}).get("outcome", "checked" if result else state))
                )
        del self._running[id, record.attempt]
        self._tell(id)

    async def _finished(self, *ending: Any) -> bool:
        """A verdict cost seconds of a device: where it cannot be written (a full disk), that is tried again until it can."""
        told = ""
        while True:
            try:
                return await self._stored(self.store.finish, *ending)
            except sqlite3.OperationalError as error:
                if str(error) != told:  # once, not in every attempt
                    told = str(error)
                    LOG.error("a result cannot be kept, and is tried again until it can: %s", told)
                await asyncio.sleep(STORE_SECONDS)

    async def _limit(self, one: _Running, seconds: float) -> None:
        """End it when its time is up, whatever the judge is doing; the lane is free again when its processes are gone."""
        await asyncio.sleep(seconds)
        told = f"judging took longer than the {seconds:g} s that this token has for one request"
        with contextlib.suppress(sqlite3.Error):  # a disk that is full keeps nobody running
            if await self._stored(self.store.finish, one.record.id, one.record.attempt, "failed", None, told):
                self.metrics.count("bottega_ended_total", outcome="failed")
        self._tell(one.record.id)
        await asyncio.shield(self._kill(one))

    async def _prune(self) -> None:
        while True:
            with contextlib.suppress(Exception):
                await self._stored(self.store.prune, self.keeping.days * DAY, self.keeping.mib << 20)
            await asyncio.sleep(PRUNE_SECONDS)

    async def _look_at_tokens(self) -> None:
        """Requests of a token that was revoked are cancelled; those that wait for seconds are offered to the lanes again. A name must be missing
        twice in a row: an editor may write the file in two steps."""
        missing: set[str] = set()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            running = [one.record for one in self._running.values()]
            gone = {name for name in (*self.queue.tokens(), *(one.token for one in running)) if self.tokens.revoked(name)}
            for name in gone & missing:
                LOG.warning("the token of %s was revoked: its requests are cancelled", name)
                for id in (*self.queue.ids(name), *(one.id for one in running if one.token == name)):
                    with contextlib.suppress(sqlite3.Error):
                        await self.cancel(id, REVOKED)
            missing = gone
            async with self._work:
                self._work.notify_all()

    def _kill(self, one: _Running) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(self._killing, one.cancellation.cancel)

    def _tell(self, id: str) -> None:
        for event in self._watchers.get(id, ()):
            event.set()

    def _stored(self, call: Callable[..., T], *arguments: Any) -> Coroutine[Any, Any, T]:
        async def done() -> T:
            return await asyncio.get_running_loop().run_in_executor(self._storing, call, *arguments)

        return done()
