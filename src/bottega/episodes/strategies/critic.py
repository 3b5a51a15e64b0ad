"""Writer and critic in turns (CudaForge): each kernel is judged with a profile, a critic says the one thing to change, and the writer sees both.

The writer sees the last kernel alone, with the advice behind its diagnosis: short prompts, and no quarrel between old advice and new. A kernel that
is worse than the best so far is not built upon: the critic is asked about the best one again, with another seed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from bottega.agents import critic as critic_agent
from bottega.agents.answers.answer import AnswerError
from bottega.agents.earlier_turn import earlier_turn_of
from bottega.core.event import Criticised
from bottega.episodes.node import SearchNode, best_of
from bottega.episodes.strategies.lanes import grown, schemes_in_use, side_by_side
from bottega.episodes.writing import EpisodeSearch

ADVICE = "Change this next. "


async def critic(search: EpisodeSearch) -> None:
    search.judging["profile"] = True
    settings = search.settings
    await side_by_side(
        search, (_line(search, scheme, sample) for sample in range(settings.samples) for scheme in schemes_in_use(search))
    )


async def _line(search: EpisodeSearch, scheme: int, sample: int) -> None:
    line: list[SearchNode] = []
    for turn in range(search.settings.turns):
        if search.finished():
            return
        name = f"s{scheme}r{sample}t{turn}"
        base = best_of(line, search.settings.baseline) or (line[-1] if line else None)
        history = [await _criticised(search, base, name)] if base is not None else []
        line.append(await grown(search, name, history, scheme))


async def _criticised(search: EpisodeSearch, node: SearchNode, name: str) -> SearchNode:
    """The node as the writer will see it: the critic's advice stands behind the judge's diagnosis."""
    key = f"{search.episode}/criticise/{name}"
    said = await search.context.once(key, Criticised, lambda: _asked(search, node, key))
    verdict = node.verdict
    if not said.advice:
        return node
    if verdict is None:
        return replace(node, turn=replace(node.turn, fault=f"{node.turn.fault}\n{ADVICE}{said.advice}"))
    return replace(
        node, turn=replace(node.turn, verdict=replace(verdict, diagnosis=f"{ADVICE}{said.advice}\n{verdict.diagnosis}"))
    )


async def _asked(search: EpisodeSearch, node: SearchNode, key: str) -> Criticised:
    context, settings, verdict = search.context, search.settings, node.verdict
    given = critic_agent.CriticInput(
        search.task,
        settings.language,
        context.device,
        earlier_turn_of(node.turn, settings.baseline),
        verdict is not None and verdict.outcome.accepted,
        verdict.profile if verdict is not None else {},
        settings.baseline,
        settings.stopping.target,
    )
    messages = critic_agent.messages(given, context.prompts, context.room(settings))
    found = {"advice": ""}

    def read(text: str) -> dict[str, Any]:
        try:
            found["advice"] = critic_agent.parse(text)
        except AnswerError as error:
            return {"fault": str(error)}
        return {}

    async with context.phases.generating():
        begun = time.monotonic()
        turn = await context.generate("criticise", messages, settings, key, read)
    seconds = round(time.monotonic() - begun, 3)
    return Criticised(key, search.episode, node.id, given.mode, turn, found["advice"], seconds)
