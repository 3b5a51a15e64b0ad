"""Selection: retrieve once, then draw several schemes of at most a few skills each. The empty scheme is always the first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bottega.agents import selector
from bottega.agents.answers.answer import AnswerError
from bottega.core.event import Selected
from bottega.core.skill import Skill, State
from bottega.core.task import Task
from bottega.core.trace import Trace
from bottega.episodes.context import Workshop
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.query import query_for
from bottega.skills.rerank import selection
from bottega.skills.retrieve import Filter


def retrieve(workshop: Workshop, task: Task, settings: EpisodeSettings, at: int) -> list[Skill]:
    """Cards that may fit the task, best first."""
    if workshop.library is None or settings.select == "none" or not settings.retrieved:
        return []
    states = (State.ADMITTED, State.PROPOSED) if settings.unproved else (State.ADMITTED,)
    only = Filter(states, settings.language, "cpu" if settings.device == "cpu" else "cuda")
    current = workshop.library.version
    hits = workshop.library.search(query_for(task), settings.retrieved, only, at=None if at == current else at)
    return [hit.skill for hit in hits]


async def select(
    workshop: Workshop, episode: str, task: Task, offered: Sequence[Skill], settings: EpisodeSettings
) -> tuple[list[tuple[Skill, ...]], list[Trace]]:
    """The schemes, the empty one first, and the selector's traces. A selector that fails selects nothing."""
    count = settings.schemes if offered and settings.skills else 0
    if settings.select == "bm25":
        count = min(count, 1)

    async def scheme(number: int) -> Selected:
        key = f"{episode}/select/{number}"
        known = workshop.journal.done(key, Selected)
        if known is not None:
            workshop.recall(known.turn)
            return known
        if settings.select == "bm25":
            names = tuple(skill.name for skill in offered[: settings.skills])
            return await workshop.journal.once(key, Selected, lambda: _done(Selected(key, episode, number, names)))
        return await workshop.journal.once(key, Selected, lambda: _ask(workshop, key, episode, number, task, offered, settings))

    drawn = await asyncio.gather(*(scheme(number) for number in range(1, count + 1)))
    by_name = {skill.name: skill for skill in offered}
    schemes = [(), *(tuple(by_name[name] for name in event.names if name in by_name) for event in drawn)]
    traces = [Trace(event.key, "select", (event.turn,), event.scheme) for event in drawn if event.turn is not None]
    return schemes, traces


async def _ask(
    workshop: Workshop, key: str, episode: str, number: int, task: Task, offered: Sequence[Skill], settings: EpisodeSettings
) -> Selected:
    asked = selector.SelectorInput(
        task,
        tuple(skill.header for skill in offered),
        settings.skills,
        workshop.device.kind,
        settings.language,
        await workshop.sketch(task, "select"),
    )
    messages = selector.messages(asked, workshop.prompts, workshop.room(settings))
    found: dict[str, Any] = {"names": (), "reasons": (), "unknown": 0}

    def read(text: str) -> dict[str, Any]:
        try:
            chosen = selection(selector.parse(text, settings.skills), offered, settings.skills)
        except AnswerError as error:
            return {"fault": str(error)}
        found.update(names=tuple(skill.name for skill in chosen.skills), reasons=chosen.reasons, unknown=chosen.unknown)
        return {}

    async with workshop.phases.generating():
        turn = await workshop.say("select", messages, settings, key, read)
    return Selected(key, episode, number, turn=turn, **found)


async def _done(event: Selected) -> Selected:
    return event
