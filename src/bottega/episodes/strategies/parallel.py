"""Independent samples: as many kernels as serial refinement would write, none of which sees another.

Where a model that repeats itself is to be stopped, they are asked for a few at a time: all at once could not be stopped.
"""

from __future__ import annotations

from bottega.episodes.strategies.lanes import grown, schemes_in_use, side_by_side
from bottega.episodes.writing import EpisodeSearch


async def parallel(search: EpisodeSearch) -> None:
    async def one(scheme: int, sample: int) -> None:
        if not search.finished():
            await grown(search, f"s{scheme}p{sample}", (), scheme)

    count = search.settings.samples * search.settings.turns
    at_once = count if search.settings.stopping.repeats is None else search.settings.samples
    for first in range(0, count, at_once):
        wave = range(first, min(first + at_once, count))
        await side_by_side(search, (one(scheme, sample) for sample in wave for scheme in schemes_in_use(search)))
