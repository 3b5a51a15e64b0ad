"""Independent samples: as many kernels as serial refinement would write, none of which sees another."""

from __future__ import annotations

from bottega.episodes.strategies.lanes import schemes_in_use, side_by_side
from bottega.episodes.writing import EpisodeSearch


async def parallel(search: EpisodeSearch) -> None:
    async def one(scheme: int, sample: int) -> None:
        if not search.finished():
            await search.grow(f"s{scheme}p{sample}", (), scheme)

    count = search.settings.samples * search.settings.turns
    await side_by_side(search, (one(scheme, sample) for sample in range(count) for scheme in schemes_in_use(search)))
