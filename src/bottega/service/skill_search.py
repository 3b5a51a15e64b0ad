"""Search in a skill library for clients of a server: the cards that `bottega skills search --json` prints."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from bottega.core.files import strict
from bottega.core.skill import SkillState
from bottega.skills.library import Library
from bottega.skills.query import query_from_text
from bottega.skills.retrieve import Filter
from bottega.skills.shipped import add_starter

STATES = {
    "admitted": (SkillState.ADMITTED,),
    "proposed": (SkillState.PROPOSED,),
    "all": (SkillState.ADMITTED, SkillState.PROPOSED),
}


class SkillSearch:
    """Opened at the first search: most servers are never asked. Every method may be called from any thread."""

    def __init__(self, library: Path | None, folder: Path) -> None:
        """`library`: its folder; None for the cards that come along, which are put into `folder`."""
        self._named, self._folder = library, folder
        self._library: Library | None = None
        self._lock = threading.Lock()

    def search(self, words: str, count: int, state: str) -> list[dict[str, Any]]:
        with self._lock:
            if self._library is None:
                self._library = self._opened()
            hits = self._library.search(query_from_text(words), count, Filter(STATES[state]))
        return [strict({"score": hit.score, **hit.skill.to_json()}) for hit in hits]

    def close(self) -> None:
        with self._lock:
            if self._library is not None:
                self._library.close()
                self._library = None

    def _opened(self) -> Library:
        if self._named is not None:
            return Library(self._named, create=False)
        library = Library(self._folder)
        if library.version == 0:
            add_starter(library)
        return library
