"""What Ctrl-C and SIGTERM do, for every long command: the first asks, a later one ends the process.

`optimize` ends its search and judges the best kernels again; `bench` leaves what is under way, and the same command goes on; `sft` and
`train` finish their step and keep a checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
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
def stop_after_step(say: Callable[[str], None]) -> Iterator[list[int]]:
    """A list that the first signal fills; a second one raises `KeyboardInterrupt`."""
    asked: list[int] = []
    first = 0.0

    def handle(number: int, frame: object) -> None:
        nonlocal first
        if asked:
            if time.monotonic() - first < ONE_SIGNAL_S:
                return
            raise KeyboardInterrupt
        first = time.monotonic()
        asked.append(number)
        say("stopping after this step; once more to stop at once")

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def cancelled_by_signal(work: Coroutine[Any, Any, Result]) -> Result | None:
    """The work's result, or None after a signal, which cancels it. A second signal ends the process."""
    task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

    def handle() -> None:
        on_signals(loop, None)
        task.cancel()

    on_signals(loop, handle)
    try:
        return await task
    except asyncio.CancelledError:
        return None


def on_signals(loop: asyncio.AbstractEventLoop, handle: Callable[[], None] | None) -> None:
    """Have the loop call `handle` on a signal; None lets the next one end the process."""
    for number in _SIGNALS:
        if handle is None:
            loop.remove_signal_handler(number)
        else:
            loop.add_signal_handler(number, handle)
