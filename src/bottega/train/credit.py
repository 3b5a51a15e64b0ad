"""Credit: which turn of which trace gets which advantage, role by role.

Roles never share a baseline: a selection is compared with selections, a kernel with kernels. Their advantages are weighed afterwards,
0.3 for selections and 0.5 for summaries by default, because there are few of them and their rewards are noisy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bottega.core.episode import Episode
from bottega.core.trace import Trace
from bottega.core.turn import Role
from bottega.train.advantages.group import Advantage, leave_one_out
from bottega.train.returns import Kind, returns
from bottega.train.rewards.selection import selection_rewards_of, turn_rewards
from bottega.train.rewards.verdict_reader import Reward

LEAST_SIZE = 0.05
"""Of advantages that are evened out: rewards are speedups, and a verdict tells a few per cent apart."""
WEIGHTS: Mapping[str, float] = {"write": 1.0, "select": 0.3, "summarise": 0.5}


@dataclass(frozen=True)
class Credit:
    trace: str
    """The trace's id."""
    turn: int
    role: Role
    reward: float
    advantage: float


def writing_credits(
    episodes: Sequence[Episode], reward: Reward, advantage: Advantage, kind: Kind = "sum", gamma: float = 1.0
) -> list[Credit]:
    """Of all rollouts of one task, whatever skills they had: comparing across schemes is what tells good skills from bad ones."""
    if len({episode.task_id for episode in episodes}) > 1:
        raise ValueError("a group holds episodes of one task")
    traces = [trace for episode in episodes for trace in episode.of("write")]
    rewards = [_kernel_rewards(trace, reward) for trace in traces]
    advantages = advantage([returns(of_trace, kind, gamma) for of_trace in rewards])
    return [
        Credit(trace.id, turn, "write", own, value)
        for trace, of_trace, values in zip(traces, rewards, advantages)
        for turns, own, value in zip(trace.by_kernel, of_trace, values)
        if own is not None and value is not None
        for turn in turns
        if turn == turns[-1] or not trace.turns[turn].fault
    ]


def _kernel_rewards(trace: Trace, reward: Reward) -> list[float | None]:
    """One for each kernel. The steps by which an agent came to one share its credit, but for those whose calls could not be read: kernels are what
    traces of one task can be compared by, and a good one must not praise a broken call."""
    rewards = turn_rewards(trace.turns, reward)
    return [rewards[turns[-1]] for turns in trace.by_kernel]


def selecting_credits(episode: Episode, reward: Reward, alone: bool = False) -> list[Credit]:
    """The empty scheme has no trace and so no credit, but it is in everyone's baseline: a selection must beat choosing nothing."""
    worth = selection_rewards_of(episode, reward)
    for trace in episode.of("select"):
        if trace.turns[0].fault:  # it chose nothing because it could not be read: that is a failure, not a choice
            worth[trace.scheme] = reward(None)
    advantages = leave_one_out(worth, alone)
    found = []
    for trace in episode.of("select"):
        own, value = worth[trace.scheme], advantages[trace.scheme]
        if own is not None and value is not None:
            found.append(Credit(trace.id, 0, "select", own, value))
    return found


def summarising_credits(traces: Sequence[Trace], rewards: Sequence[float | None], alone: bool = False) -> list[Credit]:
    """Of the summaries that were drawn from one winning trace, with what the gate found for each."""
    advantages = leave_one_out(rewards, alone)
    return [
        Credit(trace.id, 0, "summarise", own, value)
        for trace, own, value in zip(traces, rewards, advantages, strict=True)
        if own is not None and value is not None
    ]


def weighted(credits: Iterable[Credit], weights: Mapping[str, float] = WEIGHTS) -> list[Credit]:
    return [replace(credit, advantage=credit.advantage * weights[credit.role]) for credit in credits]


def evened(credits: Sequence[Credit]) -> list[Credit]:
    """A task's writing, divided by its mean size, so that large returns do not outweigh others (daVinci-kernel's scripts do this).

    The published code takes the mean over tokens, by which long answers shrink everyone's advantage; here every turn counts once. A mean
    size below what timing can tell apart is no signal, and is not made one.
    """
    size = math.fsum(abs(credit.advantage) for credit in credits) / len(credits) if credits else 0.0
    return [replace(credit, advantage=credit.advantage / max(size, LEAST_SIZE)) for credit in credits]


def advantages_by_turn(credits: Iterable[Credit]) -> dict[tuple[str, int], float]:
    return {(credit.trace, credit.turn): credit.advantage for credit in credits}


def statistics(credits: Sequence[Credit]) -> dict[str, float]:
    """For each role: how many, their mean reward, and mean, deviation and share of zeros of their advantages."""
    found: dict[str, float] = {}
    for role in sorted({credit.role for credit in credits}):
        own = [credit for credit in credits if credit.role == role]
        values = [credit.advantage for credit in own]
        centre = math.fsum(values) / len(values)
        found |= {
            f"{role}/count": float(len(own)),
            f"{role}/reward": math.fsum(credit.reward for credit in own) / len(own),
            f"{role}/advantage_mean": centre,
            f"{role}/advantage_deviation": math.sqrt(math.fsum((value - centre) ** 2 for value in values) / len(values)),
            f"{role}/advantage_zero": sum(value == 0 for value in values) / len(values),
        }
    return found
