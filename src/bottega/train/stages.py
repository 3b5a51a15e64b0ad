"""Stages of an RL run, in this order: one turn only, own answers that were right (rejection-sampling fine-tuning), the critic alone, and then RL.

CUDA Agent's agentic PPO collapsed at step 17 without the first three. They are steps of the same loop, with the same rollouts, logs and checkpoints;
what differs is how many turns are taken, and which of its streams a row is learned by.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from bottega.core.episode import Episode
from bottega.episodes.settings import EpisodeSettings
from bottega.train.rewards.selection import turn_rewards
from bottega.train.rewards.verdict_reader import Reward
from bottega.train.rows import TrainRow
from bottega.train.settings import StageSettings

RlStage = Literal["single_turn", "own_answers", "critic", "rl"]


def stage_of(settings: StageSettings, step: int) -> RlStage:
    """Of a step, counted from 1."""
    last = 0
    stages: tuple[RlStage, ...] = ("single_turn", "own_answers", "critic")
    for stage in stages:
        last += getattr(settings, stage)
        if step <= last:
            return stage
    return "rl"


def episode_settings_of(settings: EpisodeSettings, stage: RlStage) -> EpisodeSettings:
    """With one turn no kernel can beat an earlier one, so there is nothing to summarise."""
    return replace(settings, turns=1, summaries=0) if stage == "single_turn" else settings


def own_answers(episodes: Sequence[Episode], reward: Reward) -> frozenset[tuple[str, int]]:
    """Turns to imitate, by trace and number: of traces whose last kernel earned something, those that earned something themselves and do not
    repeat an earlier one."""
    found: set[tuple[str, int]] = set()
    for trace in (trace for episode in episodes for trace in episode.of("write")):
        earned = turn_rewards(trace.turns, reward)
        judged = [value for value in earned if value is not None]
        if not judged or judged[-1] <= 0:
            continue
        seen: set[tuple[int, ...]] = set()
        for number, (turn, value) in enumerate(zip(trace.turns, earned)):
            tokens = tuple(turn.output_ids or ())
            if value is not None and value > 0 and tokens not in seen:
                found.add((trace.id, number))
            seen.add(tokens)
    return frozenset(found)


def imitating(rows: Sequence[TrainRow], chosen: Collection[tuple[str, int]]) -> list[TrainRow]:
    """Rows in which only these turns are learned, by their likelihood; rows without one are left out."""
    found = []
    for row in rows:
        spans = tuple(span for span in row.spans if span[:2] in chosen)
        if not spans:
            continue
        imitation = np.zeros(len(row), np.float32)
        for _, _, begin, end in spans:
            imitation[begin:end] = 1.0
        found.append(replace(row, imitation=imitation, policy=np.zeros(len(row), np.float32), answers=len(spans), spans=spans))
    return found
