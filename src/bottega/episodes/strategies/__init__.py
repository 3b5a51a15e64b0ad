"""Search strategies over one episode, by name. Each spends kernels on the same search and differs only in what a kernel sees.

A strategy is an async function `(search) -> None`: it asks the search to grow nodes until its plan is done or the search is finished.
"""

from __future__ import annotations

from bottega.core.plugins import Plugins

STRATEGIES = Plugins(
    "strategies",
    "strategy",
    {
        "serial": "bottega.episodes.strategies.serial:serial",
        "parallel": "bottega.episodes.strategies.parallel:parallel",
        "beam": "bottega.episodes.strategies.beam:beam",
        "evolve": "bottega.episodes.strategies.evolve:evolve",
        "critic": "bottega.episodes.strategies.critic:critic",
        "tree": "bottega.episodes.strategies.tree:tree",
        "scientist": "bottega.episodes.strategies.scientist:scientist",
        "agent": "bottega.episodes.strategies.agent:agent",
    },
)
