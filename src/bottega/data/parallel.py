"""Work on many lessons side by side: the same functions on the same pieces in the same order, in as many processes as there are cores.

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
from pathlib import Path
from typing import Any, TypeVar

from bottega.core.errors import BottegaError
from bottega.data.cards import Shelf
from bottega.data.examples_writing import Desk
from bottega.data.store import Bench, Store
from bottega.data.tokens import Count
from bottega.data.unjudged import Endings
from bottega.skills.library import Library

FEW = 500
"""Tasks that one process does by itself."""
PIECE = 24
"""Tasks, or examples, that are handed over at a time."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Room:
    """What the work on a lesson needs. In another process store and library are opened anew: connections cannot be shared."""

    store: Store
    bench: Bench
    desk: Desk
    count: Count
    endings: Endings
    proofs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Of cards that were admitted, by task."""


@dataclass(frozen=True)
class _Key:
    """To a room, for another process."""

    folder: Path
    library: Path
    version: int | None
    room: dict[str, Any]
    desk: dict[str, Any]

    def opened(self) -> Room:
        store = Store(self.folder, create=False, write=False)
        stage, device = self.desk["stage"], self.desk["device"]
        shelf = Shelf(Library(self.library, create=False), device.kind, self.version, stage.retrieved)
        return Room(store=store, desk=Desk(shelf=shelf, **self.desk), **self.room)


def _key(room: Room) -> _Key:
    desk, library = room.desk, room.desk.shelf.library
    told = {"stage": desk.stage, "prompts": desk.prompts, "device": desk.device, "sketches": desk.sketches}
    own = {"bench": room.bench, "count": room.count, "endings": room.endings, "proofs": room.proofs}
    return _Key(room.store.folder, library.folder, desk.shelf.version, own, told)


class SideBySide:
    """Where the pieces are worked on: `processes` others, or here where that is 1."""

    def __init__(self, room: Room, tasks: int, processes: int | None = None) -> None:
        number = (os.cpu_count() or 1) if processes is None else processes
        self.room = room
        self._pool: ProcessPoolExecutor | None = None
        if number > 1 and (tasks >= FEW or processes):
            context = multiprocessing.get_context("forkserver")
            self._pool = ProcessPoolExecutor(number, context, _enter, (_key(room),))

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def begin(self, work: Callable[[Room, Item], Result], item: Item) -> Callable[[], Result]:
        """One thing beside the pieces; what is returned waits for it."""
        if self._pool is None:
            found = work(self.room, item)
            return lambda: found
        future = self._pool.submit(_worked, work, item)

        def waited() -> Result:
            with _told():
                return future.result()

        return waited

    def pieces(self, work: Callable[[Room, Sequence[Item]], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results in the order of the items, whoever was ready first."""
        parts = [items[start : start + PIECE] for start in range(0, len(items), PIECE)]
        if self._pool is None:
            yield from (work(self.room, part) for part in parts)
            return
        with _told():
            futures = [self._pool.submit(_worked, work, part) for part in parts]
            for place, future in enumerate(futures):
                yield future.result()
                futures[place] = None  # type: ignore[call-overload]  # what was taken need not be kept


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise BottegaError(
            "a process that makes examples died, perhaps for want of memory; run --stage examples again: the material is safe"
        ) from None


_rooms: list[Room] = []
"""The room of a process that was started for this; the pool's way of starting leaves no other place for it."""


def _enter(key: _Key) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # every core has a process already
    _rooms.append(key.opened())


def _worked(work: Callable[[Room, Any], Result], item: Any) -> Result:
    return work(_rooms[0], item)
