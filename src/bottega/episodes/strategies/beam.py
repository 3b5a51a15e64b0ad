"""Beam search: in each generation every kernel of the beam has children, and the best of parents and children go on."""

from __future__ import annotations

from bottega.episodes.node import SearchNode, ranked
from bottega.episodes.strategies.lanes import grown, schemes_in_use, side_by_side
from bottega.episodes.writing import EpisodeSearch


async def beam(search: EpisodeSearch) -> None:
    """`samples` wide, `branch` children each, `turns` generations. The first generation takes the schemes in turn."""
    settings, schemes = search.settings, schemes_in_use(search)
    kept: list[list[SearchNode]] = []
    for generation in range(settings.turns):
        if search.finished():
            return
        born: list[list[SearchNode]] = []

        async def child(line: list[SearchNode], scheme: int, name: str, born: list[list[SearchNode]] = born) -> None:
            if not search.finished():
                born.append([*line, await grown(search, name, line, scheme)])

        if generation == 0:
            wide = settings.samples * settings.branch
            lanes = [child([], schemes[number % len(schemes)], f"g0n{number}") for number in range(wide)]
        else:
            lanes = [
                child(line, line[-1].scheme, f"g{generation}n{place * settings.branch + number}")
                for place, line in enumerate(kept)
                for number in range(settings.branch)
            ]
        await side_by_side(search, lanes)
        kept = _survivors(kept + sorted(born, key=lambda line: line[-1].id), settings.samples, settings.baseline)


def _survivors(lines: list[list[SearchNode]], width: int, baseline: str) -> list[list[SearchNode]]:
    """The best by their last kernel. A kernel that equals another's text stands once, or the beam would fill with copies."""
    by_node = {line[-1].id: line for line in lines}
    seen: set[str] = set()
    kept = []
    for node in ranked((line[-1] for line in lines), baseline):
        text = node.turn.source or node.id
        if text not in seen:
            seen.add(text)
            kept.append(by_node[node.id])
    return kept[:width]
