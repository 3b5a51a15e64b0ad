"""Reward of the selector: the rewards of the kernels that were written with its selection.

A scheme's reward is the mean over its rollouts of the best turn. Schemes that chose the same set are the same choice, so their
rollouts are pooled, and a selector that chose nothing is pooled with the empty scheme, which is always among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bottega.core.episode import Episode
from bottega.core.turn import Turn
from bottega.train.rewards.verdict_reader import Reward, judged


def turn_rewards(turns: Sequence[Turn], reward: Reward) -> list[float | None]:
    """One for each turn; None where nobody could judge it. An agent that came to no kernel at all failed with its last step."""
    found = [reward(turn.verdict) if judged(turn) else None for turn in turns]
    if turns and not any(turn.is_kernel for turn in turns):
        found[-1] = reward(None)
    return found


def best_turn(rewards: Iterable[float | None]) -> float | None:
    return max((value for value in rewards if value is not None), default=None)


def selection_rewards(schemes: Sequence[Sequence[str]], rollouts: Sequence[Sequence[float | None]]) -> list[float | None]:
    """One for each scheme, from the best turns of its rollouts. None for a scheme whose rollouts nobody could judge."""
    if len(schemes) != len(rollouts):
        raise ValueError(f"{len(schemes)} schemes and rollouts of {len(rollouts)}")
    pooled: dict[frozenset[str], list[float]] = {}
    for names, best in zip(schemes, rollouts):
        pooled.setdefault(frozenset(names), []).extend(value for value in best if value is not None)
    means = {names: sum(values) / len(values) if values else None for names, values in pooled.items()}
    return [means[frozenset(names)] for names in schemes]


def selection_rewards_of(episode: Episode, reward: Reward) -> list[float | None]:
    rollouts: list[list[float | None]] = [[] for _ in episode.schemes]
    for trace in episode.of("write"):
        rollouts[trace.scheme].append(best_turn(turn_rewards(trace.turns, reward)))
    return selection_rewards(episode.schemes, rollouts)
