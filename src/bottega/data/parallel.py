"""Work on many judged tasks in as many processes as there are cores: the same functions on the same pieces in the same order.

A small piece of work stays in this process, because a process takes seconds to begin. Each process has a pipe to this one and nothing else, so that
it ends with it: the workers of `ProcessPoolExecutor` outlive a killed parent, and its semaphores stay in shared memory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import SimpleQueue
from traceback import format_exc
from typing import Any, TypeVar

from bottega.core.closing import Closing
from bottega.core.errors import BottegaError
from bottega.data.examples_writing import ExampleContext
from bottega.data.store import JudgedStore, JudgeSetup
from bottega.data.tokens import Count
from bottega.data.unjudged import Endings

FEW = 500
"""Tasks that one process does by itself."""
PIECE = 24
"""Tasks, or examples, that are handed over at a time."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ExampleJob:
    """What the work on a judged task needs. Another process gets store and library by their folders, and opens them anew."""

    store: JudgedStore
    judge_setup: JudgeSetup
    context: ExampleContext
    count: Count
    endings: Endings
    proofs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Of cards that were admitted, by task."""


class ProcessMap(Closing):
    """Where the pieces are worked on: `processes` others, or here where that is 1."""

    def __init__(self, job: ExampleJob, tasks: int, processes: int | None = None) -> None:
        number = (os.cpu_count() or 1) if processes is None else processes
        self.job = job
        self._threads: ThreadPoolExecutor | None = None
        self._workers: list[Connection] = []
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        if number > 1 and (tasks >= FEW or processes):
            self._threads = ThreadPoolExecutor(number, thread_name_prefix="examples")
            self._workers = [_worker(job) for _ in range(number)]
            for worker in self._workers:
                self._idle.put(worker)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def begin(self, work: Callable[[ExampleJob, Item], Result], item: Item) -> Callable[[], Result]:
        """One thing beside the pieces; what is returned waits for it."""
        if self._threads is None:
            found = work(self.job, item)
            return lambda: found
        return self._threads.submit(self._handed_over, work, item).result

    def pieces(self, work: Callable[[ExampleJob, Sequence[Item]], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results in the order of the items, whoever was ready first."""
        parts = [items[start : start + PIECE] for start in range(0, len(items), PIECE)]
        if self._threads is None:
            yield from (work(self.job, part) for part in parts)
            return
        futures = [self._threads.submit(self._handed_over, work, part) for part in parts]
        for place, future in enumerate(futures):
            yield future.result()
            futures[place] = None  # type: ignore[call-overload]  # what was taken need not be kept

    def _handed_over(self, work: Callable[[ExampleJob, Item], Result], item: Item) -> Result:
        worker = self._idle.get()
        try:
            worker.send((work, item))
            result, error = worker.recv()
        except (EOFError, OSError):
            raise BottegaError(
                "a process that makes examples died, perhaps for want of memory; run --stage examples again: the material is safe"
            ) from None
        finally:
            self._idle.put(worker)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def _worker(job: ExampleJob) -> Connection:
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    context.Process(target=_serve, args=(theirs, job), daemon=True).start()
    theirs.close()
    return ours


def _serve(connection: Connection, job: ExampleJob) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # every core has a process already
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    with suppress(EOFError, OSError):  # the process that asks is gone
        while True:
            work, item = connection.recv()
            try:
                answer: tuple[Any, Exception | None] = work(job, item), None
            except Exception as error:
                error.add_note(format_exc())
                answer = None, error
            connection.send(answer)
