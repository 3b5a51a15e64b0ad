"""Summaries: when a later kernel of a trace beats the first by a margin, the backbone says what made the difference, as cards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bottega.agents import summariser
from bottega.agents.answers.answer import AnswerError
from bottega.agents.earlier_turn import earlier_turn_of
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.core.device import DeviceFacts
from bottega.core.event import Summarised
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.trace import Trace
from bottega.episodes.context import EpisodeContext
from bottega.episodes.node import SearchNode, ranked
from bottega.episodes.settings import EpisodeSettings
from bottega.skills.library import Library
from bottega.skills.query import query_for
from bottega.skills.retrieve import EVERY_STATE, Filter


@dataclass(frozen=True)
class Advance:
    """A first kernel that was right, and a later one of the same line that is clearly faster than it and than the baseline."""

    first: SearchNode
    best: SearchNode
    gain: float


def advance_of(lines: Sequence[Sequence[SearchNode]], settings: EpisodeSettings) -> Advance | None:
    """The greatest advance within one line; comparing kernels of different lines would credit luck."""
    found: list[Advance] = []
    for line in sorted(lines, key=lambda line: line[-1].id):  # not by arrival: equal gains must not depend on it
        if len(line) < 2:
            continue
        first, best = line[0], ranked(line[1:], settings.baseline)[0]
        begun, reached = first.speedup(settings.baseline), best.speedup(settings.baseline)
        if begun is None or reached is None or begun.point <= 0:
            continue
        gain = reached.point / begun.point
        if gain >= settings.margin and reached.point >= settings.margin:
            found.append(Advance(first, best, gain))
    return max(found, key=lambda advance: advance.gain, default=None)


def lines_of(nodes: Sequence[SearchNode]) -> list[list[SearchNode]]:
    """Every path from a root to a leaf, in order."""
    by_id = {node.id: node for node in nodes}
    parents = {node.parent for node in nodes}
    lines = []
    for leaf in (node for node in nodes if node.id not in parents):
        line: list[SearchNode] = []
        current: SearchNode | None = leaf
        while current is not None:
            line.append(current)
            current = by_id.get(current.parent) if current.parent else None
        lines.append(line[::-1])
    return lines


def summariser_input(
    task: Task, settings: EpisodeSettings, device: DeviceFacts, advance: Advance, library: Library | None
) -> summariser.SummariserInput:
    """With the headers of the most similar cards of any state, so that they are not proposed again."""
    hits = library.search(query_for(task), 5, Filter(EVERY_STATE, settings.language)) if library is not None else []
    return summariser.SummariserInput(
        task=task,
        language=settings.language,
        device=device,
        first=earlier_turn_of(advance.first.turn, settings.baseline),
        best=earlier_turn_of(advance.best.turn, settings.baseline),
        gain=advance.gain,
        known=tuple(hit.skill.header for hit in hits),
        most=2,
        workload=shared_tracer().workload(task, device),
    )


async def summarise(
    context: EpisodeContext, episode: str, task: Task, nodes: Sequence[SearchNode], settings: EpisodeSettings
) -> tuple[list[Skill], list[Trace]]:
    """Proposals, each validated already, and the summariser's traces."""
    advance = advance_of(lines_of(nodes), settings) if settings.summaries else None
    if advance is None:
        return [], []

    async def one(number: int) -> Summarised:
        key = f"{episode}/summarise/{number}"
        return await context.once(key, Summarised, lambda: _ask(context, key, episode, task, advance, settings))

    events = await asyncio.gather(*(one(number) for number in range(settings.summaries)))
    proposals = {skill.name: skill for event in events for skill in event.proposals}
    return list(proposals.values()), [Trace(event.key, "summarise", (event.turn,), advance.best.scheme) for event in events]


async def _ask(
    context: EpisodeContext, key: str, episode: str, task: Task, advance: Advance, settings: EpisodeSettings
) -> Summarised:
    asked = await asyncio.to_thread(summariser_input, task, settings, context.device, advance, context.library)
    messages = summariser.messages(asked, context.prompts, context.room(settings))
    found: dict[str, Any] = {}

    def read(text: str) -> dict[str, Any]:
        try:
            proposals = summariser.parse(text, asked)
        except AnswerError as error:
            return {"fault": str(error)}
        found.update(proposals=proposals.skills, refused=proposals.refused)
        return {} if proposals.skills else {"fault": "; ".join(proposals.refused) or "no card was proposed"}

    async with context.phases.generating():
        turn = await context.generate("summarise", messages, settings, key, read)
    return Summarised(key, episode, turn, **found)
