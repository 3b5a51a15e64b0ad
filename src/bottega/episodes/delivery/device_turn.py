"""How whoever measures a whole model has the device: shared for work that nobody times, alone for a timed round and for a compiler's own trials."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Protocol

from bottega.judge.device_lock import Lease, open_lease


class DeviceTurn(Protocol):
    def shared(self) -> AbstractContextManager[None]: ...
    def alone(self) -> AbstractContextManager[None]: ...


class OwnTurn:
    """Of this process, by the device's lock."""

    def __init__(self, device: str) -> None:
        self.device = device

    @contextmanager
    def shared(self) -> Iterator[None]:
        with closing(Lease(open_lease(self.device))) as lease, lease.shared():
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        with closing(Lease(open_lease(self.device))) as lease, lease.exclusive():
            yield


class AskedTurn:
    """Of a process for which another one shares the device all the time, and has it alone when it is asked. May be entered again inside of itself."""

    def __init__(self, ask: Callable[[bool], None]) -> None:
        """`ask` returns when the device is this process's alone, or shared again."""
        self._ask = ask
        self._lock, self._depth = threading.RLock(), 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._lock:
            if not self._depth:
                self._ask(True)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    self._ask(False)


def time_trials_alone(turn: DeviceTurn) -> None:
    """torch's compiler, in this process, has the device alone while it times a kernel, since others beside it would have it choose the wrong one; not
    while it builds the next. Where a version of torch times elsewhere, its trials only share the device."""
    with contextlib.suppress(ImportError, AttributeError):
        benchmarker: Any = importlib.import_module("torch._inductor.runtime.benchmarking").benchmarker
        benchmarker.benchmark_gpu = _alone(benchmarker.benchmark_gpu, turn)


def _alone(run: Callable[..., Any], turn: DeviceTurn) -> Callable[..., Any]:
    def timed(*arguments: Any, **options: Any) -> Any:
        with turn.alone():
            return run(*arguments, **options)

    return timed
