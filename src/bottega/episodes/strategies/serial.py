"""Serial refinement: each rollout is one line of turns, and each turn sees the ones before it."""

from __future__ import annotations

from bottega.episodes.node import SearchNode
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
        history.append(await grown(search, f"s{scheme}r{sample}t{turn}", history, scheme))
