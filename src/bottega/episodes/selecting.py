"""Selection: retrieve once, then draw several schemes of at most a few skills each. The empty scheme is always the first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bottega.agents import selector
from bottega.agents.answers.answer import AnswerError
from bottega.compiler.callgraph import CallGraph
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.device import DeviceFacts
from bottega.core.event import Selected
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.core.trace import Trace
from bottega.core.workload import Workload
from bottega.episodes.context import EpisodeContext
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.library import Library
from bottega.skills.query import query_for, query_from_text
from bottega.skills.relations import compatible, in_order, with_required
from bottega.skills.rerank import selection
from bottega.skills.retrieve import Filter


def offers_cards(settings: EpisodeSettings) -> bool:
    return settings.select != "none" and settings.retrieved > 0


def retrieve(library: Library, task: Task, settings: EpisodeSettings, device: DeviceFacts, at: int) -> list[Skill]:
    """Cards that may fit the task on the device, best first."""
    if not offers_cards(settings):
        return []
    states = (SkillState.ADMITTED, SkillState.PROPOSED) if settings.unproved else (SkillState.ADMITTED,)
    only = filter_for(task, settings, device, states)
    current = library.version
    version = None if at == current else at

    def bringing(feature: str) -> list[Skill]:
        words = query_from_text(feature.replace("_", " "))
        return [hit.skill for hit in library.search(words, settings.retrieved, only, at=version)]

    hits = library.search(query_for(task), settings.retrieved, only, at=version)
    return with_required([hit.skill for hit in hits], bringing, settings.retrieved)


def filter_for(task: Task, settings: EpisodeSettings, device: DeviceFacts, states: tuple[SkillState, ...]) -> Filter:
    """Cards for the episode's language and device whose typed conditions hold on its task; its calls are recorded only if a card asks."""

    def workload() -> Workload:
        return shared_tracer().workload(task, device)

    kind = "cpu" if settings.device == "cpu" else "cuda"
    return Filter(states, settings.language, kind, workload=workload)


def selector_input(
    task: Task, settings: EpisodeSettings, device: DeviceFacts, offered: Sequence[Skill], callgraph: CallGraph | None
) -> selector.SelectorInput:
    headers = tuple(skill.header for skill in offered)
    return selector.SelectorInput(task, headers, settings.skills, device.kind, settings.language, callgraph)


async def select(
    context: EpisodeContext, episode: str, task: Task, offered: Sequence[Skill], settings: EpisodeSettings
) -> tuple[list[tuple[Skill, ...]], list[Trace]]:
    """The schemes, the empty one first, and the selector's traces. A selector that fails selects nothing."""
    if not (offered and settings.skills):
        return [()] * (1 + settings.schemes if settings.even_groups else 1), []
    count = settings.schemes
    if settings.select == "bm25" and not settings.even_groups:  # one choice, so drawn again only for groups of the same size
        count = min(count, 1)

    async def scheme(number: int) -> Selected:
        key = f"{episode}/select/{number}"
        if settings.select == "bm25":
            names = tuple(skill.name for skill in in_order(compatible(offered, settings.skills)))
            return await context.once(key, Selected, lambda: _done(Selected(key, episode, number, names)))
        return await context.once(key, Selected, lambda: _ask(context, key, episode, number, task, offered, settings))

    drawn = await asyncio.gather(*(scheme(number) for number in range(1, count + 1)))
    by_name = {skill.name: skill for skill in offered}
    schemes = [(), *(tuple(by_name[name] for name in event.names if name in by_name) for event in drawn)]
    traces = [Trace(event.key, "select", (event.turn,), event.scheme) for event in drawn if event.turn is not None]
    return schemes, traces


async def _ask(
    context: EpisodeContext,
    key: str,
    episode: str,
    number: int,
    task: Task,
    offered: Sequence[Skill],
    settings: EpisodeSettings,
) -> Selected:
    asked = selector_input(task, settings, context.device, offered, await context.callgraph(task, "select"))
    messages = selector.messages(asked, context.prompts, context.room(settings))
    found: dict[str, Any] = {"names": (), "reasons": (), "unknown": 0}

    def read(text: str) -> dict[str, Any]:
        try:
            chosen = selection(selector.parse(text, settings.skills), offered, settings.skills)
        except AnswerError as error:
            return {"fault": str(error)}
        found.update(names=tuple(skill.name for skill in chosen.skills), reasons=chosen.reasons, unknown=chosen.unknown)
        if not chosen.skills and (chosen.unknown or not text.strip()):  # choosing nothing is said with a word
            return {"fault": f"The answer names no skill that was offered. {selector.FORM}"}
        return {}

    async with context.phases.generating():
        turn = await context.generate("select", messages, settings, key, read)
    return Selected(key, episode, number, turn=turn, **found)


async def _done(event: Selected) -> Selected:
    return event
