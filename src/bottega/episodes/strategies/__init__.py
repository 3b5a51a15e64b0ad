"""Search strategies over one episode, by name. Each spends kernels on the same search and differs only in what a kernel sees.

A strategy is an async function `(search) -> None`: it asks the search to grow nodes until its plan is done or the search is finished.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bottega.episodes.settings import StrategyName
from bottega.episodes.strategies.beam import beam
from bottega.episodes.strategies.evolve import evolve
from bottega.episodes.strategies.parallel import parallel
from bottega.episodes.strategies.serial import serial
from bottega.episodes.writing import EpisodeSearch

STRATEGIES: dict[StrategyName, Callable[[EpisodeSearch], Awaitable[None]]] = {
    "serial": serial,
    "parallel": parallel,
    "beam": beam,
    "evolve": evolve,
}
