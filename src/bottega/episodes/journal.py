"""The run directory's log: append-only, one event a line, on the disk before anyone is told that something is done.

Whatever has a key is done once. A run that died is started again with the same settings, walks the same control flow, and takes
from here what was finished. A last line that was cut by a kill is dropped: it was never reported.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from bottega.core.errors import BottegaError, UsageError
from bottega.core.event import Event, from_json, to_json

FILE = "events.jsonl"
Kind = TypeVar("Kind", bound=Any)
Listener = Callable[[Event], None]


class EpisodeJournal:
    """One process writes a run at a time; any number may read it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE
        self.listeners: list[Listener] = []
        self._done: dict[str, Event] = {}
        self._under_way: dict[str, asyncio.Future[Any]] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(self.path, "ab")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{folder}: no run can be kept there: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UsageError(f"{folder}: another process is writing this run; wait for it, or give another folder") from None
        try:
            self.events = list(read_events(folder, mend=True))
        except BaseException:
            self._file.close()
            raise
        self._done = {event.key: event for event in self.events if event.key}

    def __enter__(self) -> EpisodeJournal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def write(self, event: Kind) -> Kind:
        """Keep an event, then tell the listeners."""
        event = replace(event, at=time.time())
        line = json.dumps(to_json(event), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise BottegaError(
                f"{self.path}: cannot be written ({error.strerror}); the run stops here and can be resumed"
            ) from None
        self.events.append(event)
        if event.key:
            self._done[event.key] = event
        for listener in self.listeners:
            listener(event)
        return event

    def done(self, key: str, kind: type[Kind]) -> Kind | None:
        event = self._done.get(key)
        return event if isinstance(event, kind) else None

    async def once(self, key: str, kind: type[Kind], make: Callable[[], Awaitable[Kind]]) -> Kind:
        """The event with this key: from the log, from whoever is making it right now, or made and written."""
        found = self.done(key, kind)
        if found is not None:
            return found
        if key in self._under_way:
            return await asyncio.shield(self._under_way[key])  # type: ignore[no-any-return]
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._under_way[key] = future
        try:
            event = self.write(await make())
            future.set_result(event)
            return event
        except BaseException as error:
            future.set_exception(error)
            future.exception()  # whoever waits gets it; nobody waiting is no fault
            raise
        finally:
            del self._under_way[key]


def read_events(folder: Path, *, mend: bool = False) -> Iterator[Event]:
    """The events of a run, oldest first. A cut last line is left out, and cut off when the reader may mend."""
    path = folder / FILE
    if not path.exists():
        raise UsageError(f"{folder}: no run there (it has no {FILE})")
    good = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError("the line is cut")
                event = from_json(json.loads(line.decode("utf-8", "surrogatepass")))
            except (ValueError, KeyError, TypeError) as error:
                if file.read(1):
                    raise UsageError(
                        f"{path}: line {number} is damaged ({error}); remove it to go on without what it held"
                    ) from None
                break
            good += len(line)
            yield event
    if mend and path.stat().st_size > good:
        os.truncate(path, good)
