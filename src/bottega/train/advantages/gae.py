"""GAE (PPO, CUDA Agent): a critic says token by token what to expect, and an advantage is how much better it came than that.

    delta_t = r_t + g_t V_(t+1) - V_t        A_t = delta_t + lambda g_t A_(t+1)        target of V_t: A_t + V_t

The tokens of a trace's turns are one sequence. A turn's reward stands at its last token: its return less what the next turn's return contributes to
it, so that discounted sum, maximum and last reward all fit. g is 1 within a turn, and the discount of the rewards between turns. V is 0 behind the
last token. Other traces of the group have no say: a baseline that was learned takes their place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bottega.train.advantages.group import Advantages, Returns


def undivided(returns: Returns) -> Advantages:
    """The returns as they are; `token_advantages` makes advantages of them, once the critic was asked."""
    return [list(episode) for episode in returns]


def token_advantages(
    values_T: Sequence[np.ndarray], returns_T: Sequence[float], discounts_T: Sequence[float], trust: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Advantages of the tokens and targets of the critic, turn by turn. `values_T`: what the critic expects before each token of a turn;
    `discounts_T`: between a turn and the next one of those given; the last one is not read."""
    advantages, targets = [np.zeros(len(values)) for values in values_T], [np.zeros(len(values)) for values in values_T]
    advantage = value_after = return_after = 0.0
    for turn in reversed(range(len(values_T))):
        discount = discounts_T[turn] if turn + 1 < len(values_T) else 0.0
        reward = returns_T[turn] - discount * return_after
        return_after = returns_T[turn]
        for token in reversed(range(len(values_T[turn]))):
            value = float(values_T[turn][token])
            delta = reward + discount * value_after - value
            advantage = delta + trust * discount * advantage
            advantages[turn][token], targets[turn][token] = advantage, advantage + value
            reward, discount, value_after = 0.0, 1.0, value
    return advantages, targets
