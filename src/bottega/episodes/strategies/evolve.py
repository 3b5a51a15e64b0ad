"""Evolution: islands that each keep an archive of their best kernels by behaviour, breed from it, and now and then exchange.

An archive has one cell for each kind of kernel (how much of the work its own kernels do, how long it is, which means it uses) and keeps the
fastest of each kind. A slow kernel of a new kind survives beside a fast one of a known kind, so the search does not settle on
the first thing that worked.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from bottega.episodes.context import seed_of
from bottega.episodes.node import SearchNode, ranked
from bottega.episodes.strategies.lanes import schemes_in_use, side_by_side
from bottega.episodes.writing import EpisodeSearch

MIGRATION = 3
"""Generations between exchanges."""
HISTORY = 3
"""Kernels that a child sees: an inspiration of another kind, then its parent's line, the parent last."""

Cell = tuple[int, int, str]
_MEANS = {
    "blocked": r"shared|smem|BLOCK|tile|block",
    "vectorised": r"float4|float2|simd|__m\d+|eviction|vec",
    "atomic": r"atomic",
    "two-stage": r"partial|workspace|scratch|stage",
}


@dataclass
class Island:
    number: int
    archive: dict[Cell, SearchNode] = field(default_factory=dict)

    def keep(self, node: SearchNode, baseline: str) -> None:
        """Put a kernel into its cell if it is the best of its kind. One that cannot be used is kept only while there is no other."""
        if node.score(baseline) <= 0 and self.archive:
            return
        if node.score(baseline) > 0:
            self.archive = {cell: kept for cell, kept in self.archive.items() if kept.score(baseline) > 0}
        cell = behaviour(node)
        if cell not in self.archive or node.score(baseline) > self.archive[cell].score(baseline):
            self.archive[cell] = node

    def parent(self, draw: random.Random, baseline: str) -> SearchNode | None:
        """The better of two at random: pressure without greed."""
        kept = ranked(self.archive.values(), baseline)
        return kept[min(draw.randrange(len(kept)), draw.randrange(len(kept)))] if kept else None


async def evolve(search: EpisodeSearch) -> None:
    """`samples` islands, `turns` generations, `branch` children an island and generation."""
    settings, schemes = search.settings, schemes_in_use(search)
    islands = [Island(number) for number in range(settings.samples)]
    for generation in range(settings.turns):
        if search.finished():
            return
        born: dict[str, tuple[Island, SearchNode]] = {}

        async def child(
            island: Island, name: str, scheme: int, history: list[SearchNode], born: dict[str, tuple[Island, SearchNode]] = born
        ) -> None:
            if not search.finished():
                born[name] = (island, await search.grow(name, history, scheme))

        lanes = []
        for island in islands:
            for number in range(settings.branch):
                name = f"i{island.number}g{generation}n{number}"
                draw = random.Random(seed_of(settings.seed, f"{search.episode}/{name}"))
                history = _history(search, island, draw)
                scheme = schemes[(island.number + number + generation) % len(schemes)]
                lanes.append(child(island, name, scheme, history))
        await side_by_side(search, lanes)
        # In the order of their names, not of their arrival: the same seed breeds the same islands.
        for name in sorted(born):
            island, node = born[name]
            island.keep(node, settings.baseline)
        if (generation + 1) % MIGRATION == 0:
            _migrate(islands, settings.baseline)


def behaviour(node: SearchNode) -> Cell:
    """What kind of kernel it is: coverage in thirds, length in doublings, and the means that its text shows."""
    share = (node.verdict.coverage.get("share") if node.verdict is not None else None) or 0.0
    means = "+".join(name for name, pattern in _MEANS.items() if re.search(pattern, node.turn.source))
    return (min(2, int(share * 3)), len(node.turn.source).bit_length(), means)


def _history(search: EpisodeSearch, island: Island, draw: random.Random) -> list[SearchNode]:
    parent = island.parent(draw, search.settings.baseline)
    if parent is None:
        return []
    others = [node for cell, node in sorted(island.archive.items()) if node.id != parent.id]
    line, by_id = [parent], {node.id: node for node in search.nodes}
    while len(line) < HISTORY - 1 and line[0].parent in by_id:
        line.insert(0, by_id[line[0].parent])  # type: ignore[index]
    return [*([draw.choice(others)] if others else []), *line]


def _migrate(islands: list[Island], baseline: str) -> None:
    """Each island's best goes to the next one in the ring."""
    best = [ranked(island.archive.values(), baseline)[:1] for island in islands]
    for number, nodes in enumerate(best):
        for node in nodes:
            islands[(number + 1) % len(islands)].keep(node, baseline)
