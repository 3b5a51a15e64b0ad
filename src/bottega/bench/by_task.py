"""A queue of kernels to judge, grouped by task: preparing a task costs more than judging one kernel on it.

Each of a judge's places takes a task and does all that waits for it. A task with many kernels is helped by places that have nothing else to do.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class ByTask:
    """For one event loop."""

    def __init__(self, places: Callable[[], int]) -> None:
        """`places`: how many there are, which may change."""
        self._places = places
        self._taken = 0
        self._waiting: dict[str, deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]]] = {}
        """By task, in the order in which they came."""
        self._serving: Counter[str] = Counter()
        self._under_way: set[asyncio.Task[None]] = set()
        self._closed = False

    async def do(self, task: str, work: Callable[[], Awaitable[T]]) -> T:
        """The work's result, when it is its turn."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(task, deque()).append((work, done))
        self._start()
        return await done

    def close(self) -> None:
        """Nothing is begun any more; what is under way is given up."""
        self._closed = True
        for one in self._under_way:
            one.cancel()

    def _start(self) -> None:
        while self._taken < self._places() and self._waiting and not self._closed:
            free = next((task for task in self._waiting if not self._serving[task]), None)
            task = free if free is not None else max(self._waiting, key=lambda task: len(self._waiting[task]))
            self._taken += 1
            self._serving[task] += 1
            one = asyncio.ensure_future(self._serve(task, *self._take(task)))
            self._under_way.add(one)
            one.add_done_callback(self._under_way.discard)

    def _take(self, task: str) -> tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]:
        taken = self._waiting[task].popleft()
        if not self._waiting[task]:
            del self._waiting[task]
        return taken

    async def _serve(self, task: str, work: Callable[[], Awaitable[Any]], done: asyncio.Future[Any]) -> None:
        try:
            while True:
                await _settle(work, done)
                if task not in self._waiting or self._closed:
                    return
                work, done = self._take(task)
        finally:
            self._taken -= 1
            self._serving[task] -= 1
            self._start()


async def _settle(work: Callable[[], Awaitable[Any]], done: asyncio.Future[Any]) -> None:
    """An error is its asker's alone; work whose asker has gone is not begun."""
    if done.done():
        return
    try:
        found = await work()
    except asyncio.CancelledError:
        done.cancel()
        raise
    except Exception as error:
        if not done.done():
            done.set_exception(error)
    else:
        if not done.done():
            done.set_result(found)
