"""Continuous batching in one worker thread: waiting generations join the batch as others end, and each one's future is resolved when it ends.

The thread is the only one that touches the runner, so nothing in there needs a lock, and the asyncio loop stays free. A window
of steps is put on the device before the one before it is looked at: the device never waits for Python.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from bottega.backbone.chat import StopReason
from bottega.backbone.generation import ActiveGeneration
from bottega.backbone.runner import BatchRunner, Sampled, StepWindow
from bottega.core.errors import BackboneError, BottegaError

T = TypeVar("T")

LEAST_STAY = 0.2
"""Seconds that the engine keeps a device before it lets another process time something there: it must come on too."""


class DeviceLease(Protocol):
    def enter(self) -> None:
        """Share the device with other processes; waits while one of them times something."""
        ...

    def leave(self) -> None: ...
    def wanted(self) -> bool:
        """Whether another process waits to time something."""
        ...


class DeviceLock(Protocol):
    """A device on which kernels are timed as well: by this process in phases of its own, by other processes at any moment."""

    wake: Callable[[], None]
    """Called, from any thread, when what the methods say may have changed."""

    @property
    def lease(self) -> DeviceLease | None: ...

    def acquire(self) -> bool:
        """Begin or join a phase of generation; whether that could be done now."""
        ...

    def asked(self) -> bool:
        """Whether the phase is ours, somebody waits to judge, and nobody is left in it who may still ask for an answer."""
        ...

    def release(self) -> None:
        """Nothing of the model is under way: who waits to judge may begin."""
        ...

    def expected(self) -> int:
        """How many callers are in this phase, with a request or about to make one."""
        ...


class Engine:
    def __init__(self, runner: BatchRunner, ends: Collection[int]) -> None:
        self.runner = runner
        self.version = 0
        self._ends = frozenset(ends)
        self._changed = (
            threading.Condition()
        )  # reentrant: a backbone that is thrown away closes its engine wherever that happens
        self._waiting: deque[ActiveGeneration] = deque()
        self._actions: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._closing = False
        self._running: dict[ActiveGeneration, None] = {}  # in the order in which they came
        self._windows: deque[StepWindow] = deque()
        self._lock: DeviceLock | None = None
        self._acquired = False
        """Whether a phase of generation is ours. Kept while idle, until somebody asks: phases are not to change for a pause of a moment."""
        self._entered: float | None = None
        """Since when the device is shared with other processes."""
        self._thread = threading.Thread(target=self._run, name="backbone", daemon=True)
        self._thread.start()

    # called from any thread

    def submit(self, generations: Sequence[ActiveGeneration]) -> None:
        with self._changed:
            if self._closing:
                raise BackboneError("the backbone is closed")
            self._waiting.extend(generations)
            self._changed.notify()

    def cancel(self, generations: Sequence[ActiveGeneration]) -> None:
        """Their slots are free after the window that is under way."""
        for generation in generations:
            generation.cancelled = True
        with self._changed:
            self._changed.notify()

    def between(self, action: Callable[[], T]) -> T:
        """Run something on the worker thread between two windows, and wait for it."""
        done: Future[T] = Future()
        with self._changed:
            if self._closing:
                raise BackboneError("the backbone is closed")
            self._actions.append((action, done))
            self._changed.notify()
        return done.result()

    def share(self, lock: DeviceLock) -> DeviceLock:
        """Use the device only as the lock allows it, from now on."""
        with self._changed:
            lock.wake = self._wake
            self._lock = lock
        return lock

    @property
    def lock(self) -> DeviceLock | None:
        return self._lock

    def close(self, wait: bool = True) -> None:
        """What is under way ends as `cancelled`, with what it has."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if wait and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def load(self) -> tuple[int, int]:
        """How many generations run, and how many wait."""
        return len(self._running), len(self._waiting)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    # the worker thread

    def _run(self) -> None:
        try:
            with self.runner.session():
                while self._await_work():
                    try:
                        self._let_others_time()
                        self._turn()
                    except Exception as error:
                        self._fail(error)
        except Exception as error:  # the session itself: no stream, no device
            with self._changed:
                self._closing = True
            self._fail(error)
        finally:
            self._end()

    def _await_work(self) -> bool:
        """Wait until there is something to do and the device may be used for it; false when the engine is closed."""
        while True:
            with self._changed:
                while not (self._closing or self._may_work() or self._is_asked()):
                    self._leave()
                    self._changed.wait()
                if self._closing:
                    return False
                if self._has_work():
                    return True
            self._hand_over()

    def _has_work(self) -> bool:
        return bool(self._waiting or self._running or self._windows or self._actions)

    def _may_work(self) -> bool:
        if self._has_work() and self._lock is not None and not self._acquired:
            self._acquired = self._lock.acquire()
        return self._has_work() and (self._lock is None or self._acquired)

    def _is_asked(self) -> bool:
        return self._lock is not None and self._lock.asked()

    def _hand_over(self) -> None:
        """End our phase. The cache's memory goes with it; the weights stay."""
        self._leave()
        with suppress(Exception):  # what could not be given back is no reason to keep the judge waiting
            self.runner.hand_back()
        self._release()

    def _release(self) -> None:
        self._acquired = False
        if self._lock is not None:
            self._lock.release()

    def _let_others_time(self) -> None:
        """Another process that waits to time something goes first, and finds the device quiet."""
        lease = self._lock.lease if self._lock is not None else None
        if lease is None:
            return
        if self._entered is not None and time.monotonic() - self._entered > LEAST_STAY and lease.wanted():
            while self._windows:
                self._collect()
            self._leave()
        if self._entered is None:
            lease.enter()
            self._entered = time.monotonic()

    def _leave(self) -> None:
        if self._lock is not None and self._lock.lease is not None and self._entered is not None:
            self._lock.lease.leave()
            self._entered = None

    def _turn(self) -> None:
        while self._actions:
            action, done = self._actions.popleft()
            try:
                done.set_result(action())
            except Exception as error:
                done.set_exception(error)
        for generation in [generation for generation in self._running if generation.cancelled]:
            self._finish(generation, "cancelled")
        self._admit()
        launched = bool(self._running) and (
            not self._windows or any(generation.launched < generation.limit for generation in self._running)
        )
        if launched:
            window = self.runner.launch()
            for generation in self._running:
                generation.launched += window.draws
            self._windows.append(window)
        if self._windows and (not launched or len(self._windows) > self.runner.lag):
            self._collect()

    def _collect(self) -> None:
        for sampled in self._windows.popleft().collect():
            self._settle(sampled)

    def _admit(self) -> None:
        """First come, first served: one that does not fit now holds back those behind it, or it might wait forever."""
        taken: list[ActiveGeneration] = []
        if self._waiting:
            lengths = [generation.length for generation in (*self._waiting.copy(), *self._running)]
            expected = self._lock.expected() if self._lock is not None else 0
            self.runner.reserve([*lengths, *([max(lengths)] * (expected - len(lengths)))])
        while self._waiting:  # others only add to its end, so that the lock is not needed for long
            generation = self._waiting[0]
            if generation.cancelled:
                self._resolve(generation, "cancelled")
            elif not self.runner.take(generation):
                break
            else:
                generation.version = self.version
                taken.append(generation)
            with self._changed:
                self._waiting.popleft()
        self._running.update(dict.fromkeys(taken))
        if taken:
            self.runner.prefill(taken)

    def _settle(self, sampled: Sampled) -> None:
        generation = sampled.generation
        if generation not in self._running:
            return
        try:
            reason = generation.extend(sampled.ids, sampled.logprobs, self._ends) or ("stop" if sampled.over else None)
        except BottegaError as error:
            del self._running[generation]
            self.runner.drop(generation)
            with suppress(InvalidStateError):
                generation.future.set_exception(error)
            return
        if reason is not None:
            self._finish(generation, reason)

    def _finish(self, generation: ActiveGeneration, reason: StopReason) -> None:
        del self._running[generation]
        self.runner.drop(generation)
        self._resolve(generation, reason)

    @staticmethod
    def _resolve(generation: ActiveGeneration, reason: StopReason) -> None:
        with suppress(InvalidStateError):  # the asker cancelled it in this moment
            generation.future.set_result(generation.completion(reason))

    def _fail(self, error: Exception) -> None:
        """Every generation gets the error; the next ones may have more luck."""
        told = error if isinstance(error, BottegaError) else BackboneError(_explained(error))
        if told is not error:
            told.__cause__ = error
        with self._changed:
            lost = [*self._running, *self._waiting]
            self._waiting.clear()
        self._running.clear()
        self._windows.clear()
        for generation in lost:
            with suppress(InvalidStateError):
                generation.future.set_exception(told)
        with suppress(Exception):  # a device that is lost stays lost, and the next generation is told so in turn
            self.runner.reset()

    def _end(self) -> None:
        self._leave()
        self._release()
        with self._changed:
            left = [*self._running, *self._waiting]
            self._waiting.clear()
            actions = list(self._actions)
            self._actions.clear()
        self._running.clear()
        for generation in left:
            self._resolve(generation, "cancelled")
        for _, done in actions:
            done.set_exception(BackboneError("the backbone was closed"))
        self._windows.clear()


def _explained(error: Exception) -> str:
    name = type(error).__name__
    first = (str(error).strip().splitlines() or [""])[0]
    if name == "OutOfMemoryError" or "not enough memory" in first or "alloc" in first.lower():
        return f"not enough memory to generate: give the backbone fewer slots or cache_tokens ({first})"
    return f"generating failed: {name}: {first}"
