"""Serial refinement: each rollout is one line of turns, and each turn sees the ones before it."""

from __future__ import annotations

from bottega.episodes.node import Node, best_of
from bottega.episodes.strategies.lanes import schemes_in_use, side_by_side
from bottega.episodes.writing import Bench


async def serial(bench: Bench) -> None:
    settings = bench.settings
    await side_by_side(
        bench, (_line(bench, scheme, sample) for sample in range(settings.samples) for scheme in schemes_in_use(bench))
    )


async def _line(bench: Bench, scheme: int, sample: int) -> None:
    history: list[Node] = []
    for turn in range(bench.settings.turns):
        if bench.finished():
            return
        parent = best_of(history, bench.settings.baseline) if bench.settings.refine == "best" else None
        history.append(await bench.grow(f"s{scheme}r{sample}t{turn}", history, scheme, parent))
