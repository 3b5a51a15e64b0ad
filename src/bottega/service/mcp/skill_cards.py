"""The library for agents. A search takes a tenth of a second: it has a thread, or nobody else would be answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from bottega.core.errors import LibraryError, UsageError
from bottega.skills.agent_skills import markdown
from bottega.skills.library import Library
from bottega.skills.query import query_from_text
from bottega.skills.retrieve import EVERY_STATE, Filter

T = TypeVar("T")


class SkillCards:
    def __init__(self, library: Callable[[], Library]) -> None:
        """`library` is called when it is first asked for."""
        self._library = library
        self._lock = threading.Lock()

    async def search(self, query: str, language: str, device: str, count: int) -> list[dict[str, Any]]:
        """Headers, the best first, with state, score and the uplift of every trial."""

        def found(library: Library) -> list[dict[str, Any]]:
            chosen = Filter(EVERY_STATE[:2], language or None, device or None)
            rows = []
            for hit in library.search(query_from_text(query), count, chosen):
                uplift = [round(trial.gain.point, 3) for trial in library.evidence.trials(hit.skill.name)]
                told = {"state": hit.skill.state.value, "score": round(hit.score, 3), "measured_uplift": uplift}
                rows.append({**hit.skill.header, **told})
            return rows

        return await self._apart(found)

    async def text(self, name: str) -> str:
        """One card, whole."""

        def shown(library: Library) -> str:
            try:
                return markdown(library.get(name), library.evidence.trials(name))
            except LibraryError:  # its own words name the library's folder, which is nobody's business over HTTP
                raise UsageError(f"no skill card is named {name!r}; search_skills finds names") from None

        return await self._apart(shown)

    async def _apart(self, work: Callable[[Library], T]) -> T:
        def locked() -> T:
            with self._lock:
                return work(self._library())

        return await asyncio.to_thread(locked)
