"""Independent samples: as many kernels as serial refinement would write, none of which sees another."""

from __future__ import annotations

from bottega.episodes.strategies.lanes import schemes_in_use, side_by_side
from bottega.episodes.writing import Bench


async def parallel(bench: Bench) -> None:
    async def one(scheme: int, sample: int) -> None:
        if not bench.finished():
            await bench.grow(f"s{scheme}p{sample}", (), scheme)

    count = bench.settings.samples * bench.settings.turns
    await side_by_side(bench, (one(scheme, sample) for sample in range(count) for scheme in schemes_in_use(bench)))
