"""Evolution (MAP-Elites on islands, after KernelFoundry and EvoEngineer): archives by measured behaviour, named operators, prompts that evolve.

Each island keeps the fastest kernel of every kind that was measured (`behaviour`), so that a slow kernel of a new kind survives beside a fast one of
a known kind. A child comes from one named operator (`operators`) and one instruction of a population with credit (`instructions`). What is drawn for
a child is in the log before it is written.
"""

from __future__ import annotations

import random
from typing import Any

from bottega.agents import instructor
from bottega.agents.answers.answer import AnswerError
from bottega.core.event import Bred, Reworded
from bottega.episodes.context import seed_of
from bottega.episodes.node import SearchNode
from bottega.episodes.strategies.islands import EvolutionState, Island, drafts_of, reword_key
from bottega.episodes.strategies.lanes import grown, schemes_in_use, side_by_side
from bottega.episodes.strategies.operators import BY_NAME, drawn_operator, usable
from bottega.episodes.tuning import tuned
from bottega.episodes.writing import EpisodeSearch


async def evolve(search: EpisodeSearch) -> None:
    """`samples` islands, `turns` generations, `branch` children an island and generation."""
    search.judging["profile"] = True
    settings, schemes = search.settings, schemes_in_use(search)
    founders = list[SearchNode]()

    async def found() -> None:
        founders.extend([await tuned(search, draft) for draft in drafts_of(search.nodes)])

    await side_by_side(search, [found()])
    state = EvolutionState.begin(settings.baseline, settings.samples, founders)
    for generation in range(settings.turns):
        if search.finished():
            return
        born: dict[str, tuple[Bred, SearchNode]] = {}

        async def child(bred: Bred, scheme: int, born: dict[str, tuple[Bred, SearchNode]] = born) -> None:
            if not search.finished():
                history, instruction = _shown(search, state, bred)
                born[bred.node] = (bred, await tuned(search, await grown(search, bred.node, history, scheme, instruction)))

        lanes, pending = [], list[int]()
        for island in state.islands:
            for number in range(settings.branch):
                bred = await _bred(search, state, island, generation, number, pending)
                pending.append(bred.instruction)
                lanes.append(child(bred, schemes[(island.number + number + generation) % len(schemes)]))
        await side_by_side(search, lanes)
        known = {node.id: node for node in search.nodes}
        # In the order of their names, not of their arrival: the same seed breeds the same islands.
        for name in sorted(born):
            state.take(*born[name], known)
        state.end_generation(generation)
        if generation + 1 < settings.turns and not search.finished():
            await side_by_side(search, [_reword(search, state, generation)])


async def _bred(
    search: EpisodeSearch, state: EvolutionState, island: Island, generation: int, number: int, pending: list[int]
) -> Bred:
    """What the next child is made of, from the log or drawn now."""
    name = f"i{island.number}g{generation}n{number}"
    key = f"{search.episode}/breed/{name}"

    async def make() -> Bred:
        draw = random.Random(seed_of(search.settings.seed, f"{search.episode}/{name}"))
        choices = usable(len(island.archive), island.failed is not None, bool(state.insights))
        operator = drawn_operator(choices, state.yields, draw)
        parents = list[str]()
        parent = island.parent(draw, state.baseline) if operator.parents else None
        if parent is not None:
            parents = [*([island.mate(parent, draw).id] if operator.parents > 1 else []), parent.id]
        instruction = state.instructions.choose(pending).number
        return Bred(key, search.episode, name, island.number, generation, operator.name, tuple(parents), instruction)

    return await search.context.journal.once(key, Bred, make)


def _shown(search: EpisodeSearch, state: EvolutionState, bred: Bred) -> tuple[list[SearchNode], str]:
    """Kernels that the writer sees, the main parent last, each with its verdict; and what it is told."""
    known, operator = {node.id: node for node in search.nodes}, BY_NAME[bred.operator]
    history = [known[name] for name in bred.parents if name in known]
    lines = [operator.ask, *(state.insights if operator.insights else ()), state.instructions.every[bred.instruction].text]
    return history, "\n".join(filter(None, lines))


async def _reword(search: EpisodeSearch, state: EvolutionState, generation: int) -> None:
    """A variation of the instruction with the most credit takes the place of the one with the least."""
    key = reword_key(search.episode, generation)
    known = search.context.journal.done(key, Reworded)
    if known is None and state.instructions.best_and_worst() is None:
        return
    state.reword(await search.context.once(key, Reworded, lambda: _reworded(search, state, key)))


async def _reworded(search: EpisodeSearch, state: EvolutionState, key: str) -> Reworded:
    context, settings, population = search.context, search.settings, state.instructions
    pair = population.best_and_worst()
    assert pair is not None
    best, worst = pair
    found = {"text": ""}
    turn = None
    if settings.instructions == "model":
        others = [one.text for one in population.active if one is not best]
        given = instructor.InstructorInput(search.task, settings.language, context.device, best.text, best.credit_text, others)
        messages = instructor.messages(given, context.prompts, context.room(settings))

        def read(text: str) -> dict[str, Any]:
            try:
                found["text"] = instructor.parse(text)
            except AnswerError as error:
                return {"fault": str(error)}
            return {}

        async with context.phases.generating():
            turn = await context.generate("instruct", messages, settings, key, read)
    fresh = found["text"] and found["text"] not in [one.text for one in population.every]
    text = found["text"] if fresh else population.next_of_list() or ""
    number = len(population.every)
    by = "model" if fresh else "list"
    return Reworded(key, search.episode, number, text, best.number, worst.number, by, turn)
