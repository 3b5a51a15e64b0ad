"""What Ctrl-C and SIGTERM do, for every long command: the first asks, a later one ends the process.

`optimize` ends its search and judges the best kernels again; `bench` leaves what is under way, and the same command goes on; `sft` and
`train` finish their step and keep a checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

INTERRUPTED = 130
"""The exit code of a command that was interrupted."""
ONE_SIGNAL_S = 1.0
"""Signals within so many seconds are one: `timeout` sends its signal to the process and to its group."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
Result = TypeVar("Result")


@contextlib.contextmanager
def hearing_signals(handle: Callable[[], bool]) -> Iterator[None]:
    """A signal calls `handle`, which says whether to go on hearing; else the next one ends the process. Only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    last = -ONE_SIGNAL_S

    def heard(number: int, frame: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        if last - before >= ONE_SIGNAL_S and not handle():
            for each in _SIGNALS:
                signal.signal(each, signal.SIG_DFL)

    before = {number: signal.signal(number, heard) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def stop_after_step(say: Callable[[str], None]) -> Iterator[list[bool]]:
    """A list that the first signal fills; a second one raises `KeyboardInterrupt`."""
    asked: list[bool] = []

    def handle() -> bool:
        if asked:
            say("stopped at once; the same command with --resume goes on from the last checkpoint")
            raise KeyboardInterrupt
        asked.append(True)
        say("stopping after this step, which may take minutes; once more to stop at once")
        return True

    with hearing_signals(handle):
        yield asked


async def cancelled_by_signal(work: Coroutine[Any, Any, Result]) -> Result | None:
    """The work's result, or None after a signal, which cancels it. A second signal ends the process."""
    task = asyncio.ensure_future(work)
    on_first_signal(task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return None


def on_first_signal(handle: Callable[[], object]) -> None:
    """Have the running event loop call `handle` on the first signal; the next one ends the process."""
    loop = asyncio.get_running_loop()

    def heard() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        handle()

    for number in _SIGNALS:
        loop.add_signal_handler(number, heard)
