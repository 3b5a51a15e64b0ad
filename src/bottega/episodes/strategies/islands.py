"""The state of an evolution: islands with their archives, what operators and instructions have brought, and what was learned.

It is a function of the log alone: a search takes children in as they come, a report takes the same ones from the events.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bottega.core.event import Bred, Event, Reworded
from bottega.episodes.attempts import attempts_of
from bottega.episodes.node import SearchNode, ranked
from bottega.episodes.strategies.behaviour import Behaviour, behaviour_of
from bottega.episodes.strategies.instructions import InstructionPopulation
from bottega.episodes.strategies.operators import OperatorYield
from bottega.episodes.tuning import KNOB_SEARCH

MIGRATION = 3
"""Generations between exchanges."""
PROGRESS = 1.02
"""A child improves on its parents when it is faster by this factor."""
INSIGHTS = 6


@dataclass
class Island:
    number: int
    archive: dict[Behaviour, SearchNode] = field(default_factory=dict)
    """The fastest kernel of each kind that is right."""
    failed: SearchNode | None = None
    """The last that was not, while no other is there."""
    replaced: int = 0

    def keep(self, node: SearchNode, baseline: str) -> bool:
        """Put a kernel into its cell if it is the best of its kind."""
        score = node.score(baseline)
        if score <= 0:
            self.failed = node
            return False
        cell = behaviour_of(node.verdict)
        known = self.archive.get(cell)
        if known is not None and score <= known.score(baseline):
            return False
        self.replaced += known is not None
        self.archive[cell] = node
        return True

    def parent(self, draw: random.Random, baseline: str) -> SearchNode | None:
        """The better of two at random: pressure without greed."""
        kept = ranked(self.archive.values(), baseline)
        return kept[min(draw.randrange(len(kept)), draw.randrange(len(kept)))] if kept else self.failed

    def mate(self, parent: SearchNode, draw: random.Random) -> SearchNode:
        """A kernel of another kind."""
        return draw.choice([node for _, node in sorted(self.archive.items()) if node.id != parent.id])


@dataclass
class EvolutionState:
    baseline: str
    islands: list[Island]
    instructions: InstructionPopulation = field(default_factory=InstructionPopulation)
    yields: dict[str, OperatorYield] = field(default_factory=lambda: defaultdict(OperatorYield))
    insights: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, baseline: str, islands: int, drafts: Sequence[SearchNode]) -> EvolutionState:
        """Drafts are founders, one island after the other."""
        state = cls(baseline, [Island(number) for number in range(islands)])
        for number, node in enumerate(drafts):
            state.islands[number % islands].keep(node, baseline)
        return state

    def take(self, bred: Bred, node: SearchNode, known: Mapping[str, SearchNode]) -> None:
        """A child that was judged."""
        score, right = node.score(self.baseline), node.score(self.baseline) > 0
        parents = [known[name] for name in bred.parents if name in known]
        before = max((parent.score(self.baseline) for parent in parents), default=1.0)
        kept = self.islands[bred.island].keep(node, self.baseline)
        found, instruction = self.yields[bred.operator], self.instructions.every[bred.instruction]
        found.tried += 1
        found.right += right
        found.improved += right and score > before * PROGRESS
        instruction.tried += 1
        instruction.right += right
        instruction.kept += kept
        if node.turn.summary and before > 0:
            told = f"{score / before:.2f}x as fast as its parent" if right else "not right"
            self.insights = [*self.insights, f"- {told}: {node.turn.summary}"][-INSIGHTS:]

    def end_generation(self, generation: int) -> None:
        """Now and then each island's best goes to the next one in the ring."""
        if (generation + 1) % MIGRATION == 0:
            best = [ranked(island.archive.values(), self.baseline)[:1] for island in self.islands]
            for number, nodes in enumerate(best):
                for node in nodes:
                    self.islands[(number + 1) % len(self.islands)].keep(node, self.baseline)

    def reword(self, event: Reworded) -> None:
        if event.text:
            self.instructions.replace(event.replaces, event.text, event.mutated_from, event.by)


def evolution_of(events: Sequence[Event], episode: str, baseline: str, islands: int) -> EvolutionState | None:
    """The state that a log's evolution came to; None where there was none."""
    bred: dict[int, list[Bred]] = defaultdict(list)
    for event in events:
        if isinstance(event, Bred) and event.episode == episode:
            bred[event.generation].append(event)
    if not bred:
        return None
    nodes = {attempt.node.id: attempt.node for attempt in attempts_of(events, episode)}
    reworded = {event.key: event for event in events if isinstance(event, Reworded) and event.episode == episode}
    founders = [best_setting(node, nodes.values(), baseline) for node in drafts_of(nodes.values())]
    state = EvolutionState.begin(baseline, islands, founders)
    for generation in sorted(bred):
        for event in sorted(bred[generation], key=lambda one: one.node):
            node = nodes.get(event.node)
            if node is not None and (node.verdict is not None or node.turn.fault):
                state.take(event, best_setting(node, nodes.values(), baseline), nodes)
        state.end_generation(generation)
        if (changed := reworded.get(reword_key(episode, generation))) is not None:
            state.reword(changed)
    return state


def drafts_of(nodes: Iterable[SearchNode]) -> list[SearchNode]:
    return [node for node in nodes if node.author and node.parent is None]


def best_setting(node: SearchNode, nodes: Iterable[SearchNode], baseline: str) -> SearchNode:
    """The kernel, or the one with tuned knobs that was made of it where that is better."""
    tuned = [one for one in nodes if one.author == KNOB_SEARCH and one.parent == node.id]
    return max([node, *tuned], key=lambda one: one.score(baseline))


def reword_key(episode: str, generation: int) -> str:
    return f"{episode}/instruct/{generation}"
