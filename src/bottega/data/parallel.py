"""Work on many judged tasks in as many processes as there are cores: the same functions on the same pieces in the same order.

A small piece of work stays in this process, because a process takes seconds to begin.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

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


class ProcessMap:
    """Where the pieces are worked on: `processes` others, or here where that is 1."""

    def __init__(self, job: ExampleJob, tasks: int, processes: int | None = None) -> None:
        number = (os.cpu_count() or 1) if processes is None else processes
        self.job = job
        self._pool: ProcessPoolExecutor | None = None
        if number > 1 and (tasks >= FEW or processes):
            context = multiprocessing.get_context("forkserver")
            self._pool = ProcessPoolExecutor(number, context, _open_job, (job,))

    def __enter__(self) -> ProcessMap:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def begin(self, work: Callable[[ExampleJob, Item], Result], item: Item) -> Callable[[], Result]:
        """One thing beside the pieces; what is returned waits for it."""
        if self._pool is None:
            found = work(self.job, item)
            return lambda: found
        future = self._pool.submit(_run, work, item)

        def waited() -> Result:
            with _explained_failure():
                return future.result()

        return waited

    def pieces(self, work: Callable[[ExampleJob, Sequence[Item]], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results in the order of the items, whoever was ready first."""
        parts = [items[start : start + PIECE] for start in range(0, len(items), PIECE)]
        if self._pool is None:
            yield from (work(self.job, part) for part in parts)
            return
        with _explained_failure():
            futures = [self._pool.submit(_run, work, part) for part in parts]
            for place, future in enumerate(futures):
                yield future.result()
                futures[place] = None  # type: ignore[call-overload]  # what was taken need not be kept


@contextmanager
def _explained_failure() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise BottegaError(
            "a process that makes examples died, perhaps for want of memory; run --stage examples again: the material is safe"
        ) from None


_jobs: list[ExampleJob] = []
"""The job of a worker process: a process pool's initializer can only leave it in a global."""


def _open_job(job: ExampleJob) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # every core has a process already
    _jobs.append(job)


def _run(work: Callable[[ExampleJob, Any], Result], item: Any) -> Result:
    return work(_jobs[0], item)
