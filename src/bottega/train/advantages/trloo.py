"""TRLOO (Dr. Kernel, daVinci-kernel): leave-one-out among the returns of the same task at the same turn.

A_it = N / (N - 1) (G_it - mean_j G_jt), over the N episodes that have a return at turn t. The mean leaves the sample itself out, so
the gradient is unbiased, and nothing is divided by a deviation. Turn is compared with turn: later turns have seen feedback, and would
always beat first ones. The published code gives a group of one its whole return as advantage, which praises whatever was
done; here it gets 0 unless `alone` is set.
"""

from __future__ import annotations

from bottega.train.advantages.group import Advantages, Returns, leave_one_out


def trloo(returns: Returns, alone: bool = False) -> Advantages:
    found: Advantages = [[None] * len(episode) for episode in returns]
    for turn in range(max((len(episode) for episode in returns), default=0)):
        there = [number for number, episode in enumerate(returns) if len(episode) > turn]
        for number, value in zip(there, leave_one_out([returns[number][turn] for number in there], alone)):
            found[number][turn] = value
    return found
