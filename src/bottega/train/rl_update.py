"""One update of RL from a step's batch, all roles together; or none, and why. A critic, where there is one, learns first.

A batch of which nothing is left, or nothing that says more of one answer than of another, changes nothing: momentum and weight decay alone would
move the weights, and towards nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bottega.train.batch import TrainBatch
from bottega.train.learner import Learner
from bottega.train.loss import means, measures
from bottega.train.packing import TrainPack
from bottega.train.policy import with_logprobs
from bottega.train.rows import TrainRow
from bottega.train.stages import imitating, stage_of

ALL_ALIKE = "every advantage is 0: no answer that could be learned from was better than another"


def learn_batch(
    learner: Learner, batch: TrainBatch, step: int, steps: int, chosen: Collection[tuple[str, int]] = ()
) -> tuple[dict[str, float], str]:
    """Figures, and what a reader must know of it. Steps are counted from 1. `chosen`: turns to imitate, in the stage that does so."""
    if not batch.rows:
        return {}, f"no update, nothing is left to learn from: {batch.rejection_report}"
    config = learner.config
    stage = stage_of(config.stages, step)
    if stage == "own_answers":
        return _imitate(learner, imitating(batch.rows, chosen), step, steps)
    rows, size = batch.rows, config.data.pack_tokens
    if config.loss.kl:
        rows = with_logprobs(rows, learner.row_logprobs(rows, size, reference=True), "reference")
    packs = learner.policy.packs(rows, size)
    told = _learn_values(learner, packs, step, steps)
    if stage == "critic":
        return {
            **_measured(learner, packs),
            **told,
            "tokens/learned": 0.0,
        }, "no update of the policy, the critic is trained first"
    alike = not any(pack.streams["advantage"][pack.streams["policy"] != 0].any() for pack in packs)
    if alike and not config.loss.kl:
        return {**_measured(learner, packs), **told, "tokens/learned": 0.0}, f"no update, {ALL_ALIKE}"
    again = config.rollout.updates
    for time in range(again):
        done = learner.update(packs, (step - 1) * again + time, steps * again)
    values = {name: value for name, value in done.values.items() if name != "tokens_per_second"}
    rate = done.tokens / done.seconds if done.seconds else 0.0
    note = done.skipped or (f"{ALL_ALIKE}, so the update only drew towards the reference" if alike else "")
    return {**values, **told, "training_tokens_per_second": rate, "tokens/learned": float(done.learned)}, note


def _imitate(learner: Learner, rows: Sequence[TrainRow], step: int, steps: int) -> tuple[dict[str, float], str]:
    """Rejection-sampling fine-tuning: the likelihood of the run's own answers that were right."""
    if not rows:
        return {}, "no update, no answer of the step was right"
    again = learner.config.rollout.updates
    packs = learner.policy.packs(rows, learner.config.data.pack_tokens)
    for time in range(again):
        done = learner.update(packs, (step - 1) * again + time, steps * again)
    values = {name: value for name, value in done.values.items() if name != "tokens_per_second"}
    note = done.skipped or f"{sum(row.answers for row in rows)} own answers that were right were imitated"
    return {**values, "tokens/learned": float(done.learned)}, note


def _learn_values(learner: Learner, packs: Sequence[TrainPack], step: int, steps: int) -> dict[str, float]:
    told: dict[str, float] = {}
    if learner.critic is not None:
        again = learner.config.critic.updates
        for time in range(again):
            told = learner.critic.update(packs, (step - 1) * again + time, steps * again)
    return told


def _measured(learner: Learner, packs: Sequence[TrainPack]) -> dict[str, float]:
    """What an update tells of its tokens, without one: a run whose answers have become alike is one that alarms are there for."""
    sums: dict[str, float] = {}
    for pack, (logprobs, entropy) in zip(packs, learner.logprobs(packs), strict=True):
        for name, value in measures(logprobs, entropy, pack.streams, learner.config.loss).items():
            sums[name] = sums.get(name, 0.0) + float(value)
    return means(sums)
