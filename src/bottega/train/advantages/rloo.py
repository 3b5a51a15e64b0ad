"""RLOO over whole episodes: one value for an episode, leave-one-out, and every turn of it gets the same advantage.

An episode is worth its first return that exists, which by the discounted sum or maximum holds everything that came after.
"""

from __future__ import annotations

from bottega.train.advantages.group import Advantages, Returns, known, leave_one_out


def rloo(returns: Returns, alone: bool = False) -> Advantages:
    worth = [next((value for value in episode if known(value)), None) for episode in returns]
    shared = leave_one_out(worth, alone)
    return [
        [advantage if known(value) else None for value in episode] for episode, advantage in zip(returns, shared, strict=True)
    ]
