"""The admission gate as a pure decision: from paired attempts to admit, refuse, or go on.

An attempt is worth what its user gains: the logarithm of its speedup, capped, and nothing when it is wrong, slower, or fails, since
then the module stays as it was, nor when it leaves the work to a library: a card that has it do so teaches no kernel. Attempts with and
without the card are paired by seed; a round is one pair on every task. Every pair counts, so that many siblings decide in few rounds, and
the gain is the mean over the tasks, so that a card must help where it was not drawn from too. The bound on the gain holds after every
round, which is what allows stopping early.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bottega.core.trial import GainInterval
from bottega.core.verdict import Verdict
from bottega.skills.confidence_sequence import Bounds, bounds


@dataclass(frozen=True)
class Rules:
    threshold: float = 1.05
    """The gain's lower bound must be above this factor."""
    alpha: float = 0.05
    """How often a card without a gain may be admitted."""
    cap: float = 3.0
    """Speedups count up to here: one lucky 50x must not carry a card, and a tight bound needs few rounds."""
    least_rounds: int = 4
    most_rounds: int = 32
    baseline: str = "eager"

    def __post_init__(self) -> None:
        if not 1 <= self.threshold < self.cap:
            raise ValueError("the threshold is a factor of at least 1 and below the cap")
        if not 1 <= self.least_rounds <= self.most_rounds:
            raise ValueError("at least one round, and no fewer at most than at least")


@dataclass(frozen=True)
class GatePair:
    """What one seed was worth on one task, with the card and without it."""

    with_skill: float
    without_skill: float

    @property
    def gain(self) -> float:
        return self.with_skill - self.without_skill


@dataclass(frozen=True)
class Decision:
    step: Literal["go on", "admit", "refuse"]
    reason: str
    gain: GainInterval
    by_task: Mapping[str, GainInterval] = field(default_factory=dict)
    rounds: int = 0


def worth(verdict: Verdict, rules: Rules) -> float:
    """The logarithm of what its user gains."""
    speedup = verdict.speedup.get(rules.baseline)
    if not (verdict.outcome.accepted and verdict.does_own_work) or speedup is None or not math.isfinite(speedup.point):
        return 0.0
    return math.log(min(max(speedup.point, 1.0), rules.cap))


def decide(pairs: Mapping[str, Sequence[GatePair]], own: str, rules: Rules) -> Decision:
    """After whole rounds: every task has the same number of pairs, in the order of their seeds."""
    rounds = len(pairs[own])
    if len(pairs) < 2 or any(len(of_task) != rounds for of_task in pairs.values()):
        raise ValueError("the gate needs whole rounds on the card's own task and at least one sibling")
    largest = math.log(rules.cap)
    pooled = [of_task[number].gain for number in range(rounds) for of_task in pairs.values()]
    total = bounds(pooled, largest, rules.alpha, every=len(pairs))
    by_task = {task: factor(bounds([pair.gain for pair in of_task], largest, rules.alpha)) for task, of_task in pairs.items()}
    siblings = [pair.gain for task, of_task in pairs.items() if task != own for pair in of_task]
    on_siblings = sum(siblings) / len(siblings) if siblings else 0.0
    wanted, gain = math.log(rules.threshold), factor(total)

    def say(step: Literal["go on", "admit", "refuse"], reason: str) -> Decision:
        return Decision(step, reason, gain, by_task, rounds)

    if rounds < rules.least_rounds:
        return say("go on", f"{rounds} of at least {rules.least_rounds} rounds")
    if total.low > wanted:
        if on_siblings > wanted:
            return say(
                "admit", f"gain {gain.point:.3f}x, above {gain.low:.3f}x at {1 - rules.alpha:.0%}, after {rounds} rounds"
            )
        if rounds >= rules.most_rounds:
            return say("refuse", f"it helps its own task only: {math.exp(on_siblings):.3f}x on siblings after {rounds} rounds")
        return say("go on", "it helps its own task; its siblings do not show it yet")
    if total.high < wanted:
        return say(
            "refuse", f"gain below {rules.threshold}x: {gain.point:.3f}x, at most {gain.high:.3f}x, after {rounds} rounds"
        )
    if rounds >= rules.most_rounds:
        return say("refuse", f"not proved: gain {gain.point:.3f}x, only above {gain.low:.3f}x after {rounds} rounds")
    if hopeless(pooled, rules):
        return say("refuse", f"no sign of a gain: {gain.point:.3f}x after {rounds} rounds")
    return say("go on", f"gain {gain.point:.3f}x, between {gain.low:.3f}x and {gain.high:.3f}x, after {rounds} rounds")


def hopeless(gains: Sequence[float], rules: Rules) -> bool:
    """Even two standard errors above its mean it would not pass. Stopping here can only refuse, so it needs no guarantee."""
    count = len(gains)
    mean = sum(gains) / count
    spread = math.sqrt(sum((value - mean) ** 2 for value in gains) / max(1, count - 1))
    return mean + 2 * spread / math.sqrt(count) < math.log(rules.threshold)


def factor(of: Bounds) -> GainInterval:
    return GainInterval(math.exp(of.mean), math.exp(of.low), math.exp(of.high))
