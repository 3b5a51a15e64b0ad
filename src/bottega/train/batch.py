"""Builds the training batch of a step from its episodes: credits for each role, rejection sampling, and token rows.

Whether a trace is one that the trainer could have drawn is asked with the trainer's own log-probs, which the loss needs anyway, so they
are computed once, for all turns, before anything is dropped.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bottega.core.episode import Episode
from bottega.core.trace import Trace
from bottega.train.advantages import advantage_named
from bottega.train.credit import (
    Credit,
    advantages_by_turn,
    evened,
    selecting_credits,
    summarising_credits,
    weighted,
    writing_credits,
)
from bottega.train.critic import with_token_advantages
from bottega.train.learner import Learner
from bottega.train.policy import with_logprobs
from bottega.train.rejection_sampling import Rejection, reject_by_coverage, reject_by_mismatch
from bottega.train.rewards import reward_named
from bottega.train.rewards.verdict_reader import Reward, VerdictReader
from bottega.train.rows import STREAMS, TrainRow, policy_rows
from bottega.train.settings import Config


@dataclass(frozen=True)
class TrainBatch:
    rows: list[TrainRow]
    credits: list[Credit]
    coverage: Rejection
    mismatch: Rejection
    too_long: int
    without_tokens: int

    @property
    def rejection_report(self) -> str:
        """Why nothing may be left of it."""
        parts = [f"coverage: {self.coverage}", f"mismatch: {self.mismatch}"]
        parts += [f"{self.too_long} turns longer than data.longest"] * bool(self.too_long)
        parts += [f"{self.without_tokens} traces without tokens"] * bool(self.without_tokens)
        return "; ".join(parts) if self.credits else "no turn has an advantage"


def reward_of(config: Config) -> Reward:
    reward = config.reward
    return reward_named(reward.name, VerdictReader(reward.baseline, reward.bound, reward.unmeasured), reward.cap)


def credits_of(config: Config, episodes: Sequence[Episode], summaries: Mapping[str, float | None], step: int) -> list[Credit]:
    """Of all roles, weighed. Rollouts of one task are one group, also where it came twice in a step."""
    reward, settings = reward_of(config), config.advantage
    advantage = advantage_named(settings.name, settings.alone)
    by_task: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_task.setdefault(episode.task_id, []).append(episode)
    found: list[Credit] = []
    for group in by_task.values():
        writing = writing_credits(group, reward, advantage, config.reward.returns, config.reward.gamma)
        found += evened(writing) if settings.even else writing
        for episode in group:
            traces = episode.of("summarise")
            found += selecting_credits(episode, reward, settings.alone)
            found += summarising_credits(traces, [summaries.get(trace.id) for trace in traces], settings.alone)
    found = weighted(found, settings.weights.model_dump())
    return _shuffled(found, f"{config.data.seed}/{step}") if config.ablations.shuffled_advantages else found


def _shuffled(credits: Sequence[Credit], seed: str) -> list[Credit]:
    """A control: the same advantages within each role, given to the wrong turns."""
    found = list(credits)
    for role in ("select", "write", "summarise"):
        places = [number for number, credit in enumerate(found) if credit.role == role]
        values = [found[place].advantage for place in places]
        random.Random(f"{seed}/{role}").shuffle(values)
        for place, value in zip(places, values):
            found[place] = replace(found[place], advantage=value)
    return found


def batch_of(config: Config, learner: Learner, episodes: Sequence[Episode], credits: Sequence[Credit], step: int) -> TrainBatch:
    """Rows of the roles that are trained, with the trainer's log-probs in them and without what was dropped."""
    learned = [credit for credit in credits if credit.role in config.ablations.roles]
    advantages = advantages_by_turn(learned)
    credited = {credit.trace for credit in learned}
    traces = [trace for episode in episodes for trace in episode.traces if trace.id in credited]
    everything = {
        (trace.id, turn): advantages.get((trace.id, turn), 0.0) for trace in traces for turn in range(len(trace.turns))
    }
    built = policy_rows(traces, everything, config.data.longest)
    rows = with_logprobs(built.rows, learner.row_logprobs(built.rows, config.data.pack_tokens), "old")
    if config.has_critic:
        writers = {trace.id for trace in traces if trace.role == "write"}
        returns = {
            (trace, turn): value for (trace, turn), value in advantages.items() if trace in writers and math.isfinite(value)
        }
        rows = with_token_advantages(rows, learner.row_values(rows, config.data.pack_tokens), returns, config)
    coverage = _by_coverage(config, traces, step)
    mismatch = _by_mismatch(config, traces, rows)

    def keep(trace: str, turn: int) -> bool:
        wanted = (trace, turn) in advantages and math.isfinite(advantages[trace, turn])
        return wanted and not coverage.drops(trace, turn) and not mismatch.drops(trace, turn)

    kept = [row for row in (_masked(row, keep) for row in rows) if row is not None]
    return TrainBatch(kept, list(credits), coverage, mismatch, len(built.too_long), len(built.without_tokens))


def _by_coverage(config: Config, traces: Sequence[Trace], step: int) -> Rejection:
    settings = config.rejection.coverage
    writers = [trace for trace in traces if trace.role == "write"]
    if not settings.on:
        return Rejection(0)
    return reject_by_coverage(writers, settings, config.data.seed + step)


def _by_mismatch(config: Config, traces: Sequence[Trace], rows: Sequence[TrainRow]) -> Rejection:
    """Over those turns of a trace that rows hold: one that is too long for a row cannot be looked at."""
    settings = config.rejection.mismatch
    if not settings.on:
        return Rejection(0)
    trained: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        for trace, turn, begin, end in row.spans:
            trained.setdefault(trace, {})[turn] = row.old[begin:end].tolist()
    looked_at = [
        replace(trace, turns=tuple(trace.turns[turn] for turn in sorted(trained[trace.id])))
        for trace in traces
        if trace.role in config.rejection.roles and trace.id in trained
    ]
    by_turn = {trace: [turns[turn] for turn in sorted(turns)] for trace, turns in trained.items()}
    return reject_by_mismatch(looked_at, by_turn, settings)


def _masked(row: TrainRow, keep: Callable[[str, int], bool]) -> TrainRow | None:
    """The row with only those turns learned that are kept; none where none is. The others may still be read, as part of a prompt."""
    kept = [span for span in row.spans if keep(span[0], span[1])]
    if not kept:
        return None
    policy = np.zeros(len(row), np.float32)
    for _, _, begin, end in kept:
        policy[begin:end] = 1.0
    last = max(end for _, _, _, end in kept)
    names = ("ids", *(name for name in STREAMS if name != "policy"))
    streams = {name: getattr(row, name)[:last] for name in names}
    return replace(row, **streams, policy=policy[:last], answers=len(kept), spans=tuple(kept))
