"""Rollouts ahead of learning: while a step is learned from, the next ones are drawn and judged, by weights that are at most `staleness` updates
older than they would be one after the other.

Steps are rolled out in order, by one thread. The weights that a step is drawn by are taken when it begins and stay until it ends, so with a
staleness of 1 every step is drawn by the weights of the step before the last, whatever the clock says. What older weights draw is corrected by
the loss, which weighs each token by what the trainer gives it against what it was drawn with. With a staleness of 0 nothing runs ahead.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Wait = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs what is asynchronous, to its end."""
RollOut = Callable[[int, Callable[[], None], Wait], Result]
"""(step, what to call once its weights are there, how to wait) to what the step came to."""


class RolloutsAhead(Generic[Result]):
    def __init__(self, roll_out: RollOut[Result], staleness: int, last: int) -> None:
        self._roll_out, self._staleness, self._last = roll_out, staleness, last
        self._thread = ThreadPoolExecutor(1, "rollouts") if staleness else None
        self._steps: dict[int, Future[Result]] = {}
        self._lock = threading.Lock()
        self._under_way: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        self._closing = False

    def take(self, step: int) -> Result:
        """The rollouts of a step, when they are done; the ones after it go on meanwhile. To be called with one step after the other."""
        if self._thread is None:
            return self._roll_out(step, lambda: None, asyncio.run)
        self._begin(step)
        found = self._steps.pop(step).result()
        idle = not self._steps
        begun = [self._begin(number) for number in range(step + 1, min(step + self._staleness, self._last) + 1)]
        if idle and begun and begun[0] is not None:  # it takes its weights now, before the next update
            begun[0].wait()
        return found

    def close(self, drop: Callable[[Result], None] = lambda rolled: None) -> None:
        """End what is under way. `drop` is given what was rolled out and not taken."""
        if self._thread is None:
            return
        with self._lock:
            self._closing = True
            if self._under_way is not None:
                loop, task = self._under_way
                loop.call_soon_threadsafe(task.cancel)
        self._thread.shutdown(cancel_futures=True)
        for future in self._steps.values():
            if not future.cancelled() and future.exception() is None:
                drop(future.result())

    def _begin(self, step: int) -> threading.Event | None:
        if step in self._steps or self._thread is None:
            return None
        begun = threading.Event()

        def work() -> Result:
            try:
                return self._roll_out(step, begun.set, self._waited)
            finally:
                begun.set()

        self._steps[step] = self._thread.submit(work)
        return begun

    def _waited(self, work: Coroutine[Any, Any, Any]) -> Any:
        """As `asyncio.run`, and `close` can end it."""

        async def cancellable() -> Any:
            task = asyncio.ensure_future(work)
            with self._lock:
                if self._closing:
                    task.cancel()
                self._under_way = asyncio.get_running_loop(), task
            try:
                return await task
            finally:
                with self._lock:
                    self._under_way = None

        try:
            return asyncio.run(cancellable())
        except asyncio.CancelledError:
            raise CancelledError from None
