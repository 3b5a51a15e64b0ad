"""The run directory's log: append-only, one event a line, on the disk before anyone is told that something is done.

Whatever has a key is done once. A run that died is started again with the same settings, walks the same control flow, and takes
from here what was finished.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bottega.core.append_log import AppendLog, read_lines
from bottega.core.closing import Closing
from bottega.core.errors import UsageError
from bottega.core.event import Event, from_json, to_json
from bottega.core.shared_work import SharedWork
from bottega.core.steady_clock import SteadyClock

FILE = "events.jsonl"
Kind = TypeVar("Kind", bound=Any)
Listener = Callable[[Event], None]


class EpisodeJournal(Closing):
    """One process writes a run at a time; any number may read it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / FILE
        self.listeners: list[Listener] = []
        self._done: dict[str, Event] = {}
        self._shared, self._clock = SharedWork(), SteadyClock()
        self._log = AppendLog(self.path)
        try:
            self._log.cut_partial_line()
            self.events = list(read_events(folder))
        except BaseException:
            self._log.close()
            raise
        self._done = {event.key: event for event in self.events if event.key}

    def close(self) -> None:
        self._log.close()

    def write(self, event: Kind) -> Kind:
        """Keep an event, then tell the listeners."""
        event = replace(event, at=self._clock.now())
        self._log.append(to_json(event))
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

        async def written() -> Kind:
            return self.write(await make())

        return await self._shared.once(key, written)


def read_events(folder: Path) -> Iterator[Event]:
    """The events of a run, oldest first."""
    path = folder / FILE
    if not path.exists():
        raise UsageError(f"{folder}: no run there (it has no {FILE})")
    return (event for _, event in read_lines(path, from_json))
