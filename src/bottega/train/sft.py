"""Supervised fine-tuning, top to bottom: read conversations, plan each epoch, update, look at held-out rows, keep checkpoints, export.

The same rows, the same packs and the same loss as RL, with a weight of 1 on every token of the answers. The run's folder is its whole state:
`config.json`, `events.jsonl`, `checkpoints/`, and at the end `model/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bottega.backbone.loading import LoadedModel, Lora, load
from bottega.backbone.thinking import template_arguments
from bottega.core.errors import TrainingError, UsageError
from bottega.core.event import Checkpointed, Event, Measured, RunEnded, RunStarted
from bottega.episodes.journal import EpisodeJournal
from bottega.train.checkpoint import Checkpoints, export_model
from bottega.train.conversations import SftSample, read_samples
from bottega.train.learner import Learner
from bottega.train.memory import require_memory
from bottega.train.metrics import Metrics, TrainingStarted, require_packages
from bottega.train.model_card import data_style
from bottega.train.packing import TrainPack, plan
from bottega.train.policy import Policy
from bottega.train.ranks import ALONE, Ranks, launched, require_ranks
from bottega.train.run_directory import CHECKPOINTS, MODEL, RunDirectory, require_no_run
from bottega.train.settings import Config


@dataclass(frozen=True)
class SftFinished:
    folder: Path
    step: int
    steps: int
    held_out: dict[str, float]
    """The last evaluation."""
    stopped: bool = False

    @property
    def model(self) -> Path | None:
        return None if self.stopped else self.folder / MODEL


def sft(
    config: Config, source: Path, folder: Path, *, resume: bool = False, on_event: Callable[[Event | TrainingStarted], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False, ranks: Ranks = ALONE,
) -> SftFinished:  # fmt: skip
    """On the rank that leads; the others `follow`. `stop` is asked after every step; a run that it ends is kept and can be resumed. Raises
    `BottegaError` for what cannot be done."""
    keeping = Checkpoints(folder / CHECKPOINTS, config.checkpoint.keep)
    if not resume:
        require_no_run(folder)
    require_packages(config.log)
    require_ranks(config.sharding, ranks, "sft")
    torch.manual_seed(config.data.seed)
    loaded = load_for_training(config)  # first: a model or rows that cannot be had leave no run behind
    samples = read_samples(
        source, loaded.tokenizer, min(config.data.longest, loaded.tokenizer.context), config.data.held_out, config.data.seed, config.data.roles,
    )  # fmt: skip
    with EpisodeJournal(folder) as journal:
        journal.listeners.append(on_event)
        RunDirectory(folder).begin("sft", config, str(source))
        require_memory(loaded.model.config, config, ranks, rollouts=False)
        learner = Learner.begin(config, loaded.model, ranks)
        schedule = Schedule(config, samples.train)
        begin = 0
        saved = keeping.latest(learner) if resume else None
        if saved is not None:
            if saved.state.get("data") != samples.digest:
                raise TrainingError(f"{source} holds other rows than when {folder} began: resume needs the same data")
            keeping.load(saved, learner)
            begin = saved.step
        if not any(isinstance(event, RunStarted) for event in journal.events):
            journal.write(RunStarted("bottega sft", config.model_dump(mode="json"), {"torch": torch.__version__}))
        past = tuple(event for event in journal.events if isinstance(event, Measured) and event.step <= begin)
        on_event(TrainingStarted(schedule.steps, begin, loaded.name, *learner.sizes(), str(samples), past=past))
        with Metrics(journal, config.log) as metrics, ThreadPoolExecutor(1) as ahead:
            held_out: dict[str, float] = {}
            coming = ahead.submit(schedule.packs, learner.policy, begin)
            for step in range(begin, schedule.steps):
                begun = time.perf_counter()
                packs = coming.result()
                if step + 1 < schedule.steps:  # packed while the device computes
                    coming = ahead.submit(schedule.packs, learner.policy, step + 1)
                waited = time.perf_counter() - begun
                updated = learner.update(packs, step, schedule.steps)
                done = step + 1
                values = {**updated.values, "epoch": schedule.epoch(done), "tokens": updated.tokens, "waited": waited}
                metrics.measured("train", done, values, updated.skipped)
                last, ended = done == schedule.steps, stop()
                if samples.held_out and (last or done % config.log.eval_every == 0):
                    held_out = evaluate(learner, samples.held_out[: config.log.eval_rows], config.data.pack_tokens)
                    metrics.measured("eval", done, held_out)
                if last or ended or done % config.checkpoint.every == 0:
                    place = keeping.save(done, learner, {"data": samples.digest})
                    journal.write(Checkpointed(f"checkpoint/{done}", done, f"{CHECKPOINTS}/{place.name}"))
                if ended and not last:
                    return SftFinished(folder, done, schedule.steps, held_out, stopped=True)
        dtype = getattr(torch, config.checkpoint.export)
        export_model(learner.whole_model(), loaded.tokenizer.inner, folder / MODEL, dtype, data_style(str(source)))
        journal.write(RunEnded("all steps taken", {"steps": schedule.steps, **held_out}))
    return SftFinished(folder, schedule.steps, schedule.steps, held_out)


class Schedule:
    """Which rows are in which step: a pure function of the rows' lengths, the settings and the seed."""

    def __init__(self, config: Config, samples: Sequence[SftSample]) -> None:
        data, self.samples = config.data, samples
        self.size = data.pack_tokens
        lengths = [len(sample) for sample in samples]
        packs = max(1, data.batch_tokens // data.pack_tokens)
        epochs: list[list[list[list[int]]]] = []
        for epoch in range(data.epochs):
            epochs.append(plan(lengths, self.size, packs, data.seed + epoch, data.batch_rows))
            if data.steps is not None and sum(map(len, epochs)) >= data.steps:
                break
        while data.steps is not None and sum(map(len, epochs)) < data.steps:  # more steps than the epochs hold: begin again
            epochs.append(plan(lengths, self.size, packs, data.seed + len(epochs), data.batch_rows))
        self._steps = [step for epoch in epochs for step in epoch][: data.steps]
        self._epoch_steps = len(epochs[0])

    @property
    def steps(self) -> int:
        return len(self._steps)

    def epoch(self, step: int) -> float:
        return step / self._epoch_steps

    def packs(self, policy: Policy, step: int) -> list[TrainPack]:
        return [
            policy.pack([self.samples[number].row() for number in numbers], numbers, self.size) for numbers in self._steps[step]
        ]


def evaluate(learner: Learner, samples: Sequence[SftSample], size: int) -> dict[str, float]:
    """Mean negative log-likelihood of a held-out token, in all and by role."""
    sums: dict[str, tuple[float, int]] = {}
    for sample, found in zip(samples, learner.row_logprobs([sample.row() for sample in samples], size), strict=True):
        own = -float(found.astype(np.float64).sum())
        for name in ("nll", f"nll/{sample.role}"):
            total, tokens = sums.get(name, (0.0, 0))
            sums[name] = total + own, tokens + len(found)
    return {name: total / tokens for name, (total, tokens) in sums.items() if tokens}


def load_for_training(config: Config) -> LoadedModel:
    """Weights that are trained are in fp32; under LoRA the frozen ones are in what the trainer computes in. What will be spread over several
    ranks is read into the memory of the CPU first."""
    model = config.model
    device = "cpu" if launched() else model.device
    lora = Lora(model.lora.rank, model.lora.alpha, model.lora.dropout) if model.lora else None
    adapted = lora is not None or model.adapter is not None
    loaded = load(
        model.name, device=device, dtype=model.compute if adapted else "float32", lora=lora, adapter=model.adapter, context=model.context,
        template=template_arguments(model.thinking, model.template),
    )  # fmt: skip
    _freeze(loaded.model, model.freeze)
    for parameter in loaded.model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return loaded


def _freeze(model: Any, pieces: Sequence[str]) -> None:
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    for piece in pieces:
        if not any(piece in name for name in names):
            raise UsageError(
                f"model.freeze: no parameter that is trained has {piece!r} in its name; there are {names[0]}, …, {names[-1]}"
            )
    for name, parameter in model.named_parameters():
        if any(piece in name for piece in pieces):
            parameter.requires_grad_(False)
    if names and not any(parameter.requires_grad for parameter in model.parameters()):
        raise UsageError(f"model.freeze = {list(pieces)} leaves nothing to train")
