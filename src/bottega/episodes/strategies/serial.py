"""Serial refinement: each rollout is one line of turns, and each turn sees the ones before it.

A line may be longer than a prompt. `kept` is Dr. Kernel's sequential test-time scaling: of what was written before, a turn sees the best and the last
alone, where else the oldest would leave the prompt first, the best ones among them.
"""

from __future__ import annotations

from collections.abc import Sequence

from bottega.episodes.node import SearchNode, ranked
from bottega.episodes.strategies.lanes import grown, schemes_in_use, side_by_side
from bottega.episodes.writing import EpisodeSearch


async def serial(search: EpisodeSearch) -> None:
    settings = search.settings
    await side_by_side(
        search, (_line(search, scheme, sample) for sample in range(settings.samples) for scheme in schemes_in_use(search))
    )


async def _line(search: EpisodeSearch, scheme: int, sample: int) -> None:
    history: list[SearchNode] = []
    for turn in range(search.settings.turns):
        if search.finished():
            return
        seen = kept_of(history, search.settings.kept, search.settings.baseline)
        history.append(await grown(search, f"s{scheme}r{sample}t{turn}", seen, scheme))


def kept_of(history: Sequence[SearchNode], kept: int, baseline: str) -> Sequence[SearchNode]:
    """The last one, and the best of those before it, so many in all, in the order in which they came."""
    if not kept or len(history) <= kept:
        return history
    *before, last = history
    best = {node.id for node in ranked(before, baseline)[: kept - 1]}
    return [*(node for node in before if node.id in best), last]
