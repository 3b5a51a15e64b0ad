"""Inputs of an RL run: model, tasks, judge, prompts and device facts. They are passed to the loop, so that tests can replace them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from bottega.agents.prompts import Prompts
from bottega.backbone.loading import LoadedModel
from bottega.core.device import DeviceFacts
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.episodes.backbone_defaults import prompt_style
from bottega.judge.device_facts import device_facts
from bottega.judge.fingerprint import fingerprint
from bottega.judge.judge import Judge
from bottega.languages import default_language, use_language
from bottega.tasks.load import load_tasks
from bottega.train.settings import Config
from bottega.train.sft import load_for_training
from bottega.train.stopwatch import Judges


@dataclass(frozen=True)
class RlInputs:
    loaded: LoadedModel
    tasks: tuple[Task, ...]
    judge: Judges
    prompts: Prompts
    device: DeviceFacts
    judge_device: str
    """cpu, cuda or cuda:N."""
    language: str
    fingerprint: dict[str, Any]
    problems: tuple[str, ...] = ()
    """Tasks that cannot be used, one line each."""

    @property
    def digest(self) -> str:
        """The same for the same tasks: a run that is resumed must have them."""
        return hashlib.sha256("".join(task.id for task in self.tasks).encode()).hexdigest()[:16]


@contextmanager
def open_inputs(config: Config) -> Iterator[RlInputs]:
    rollout = config.rollout
    model_device = config.model.device or ("cuda" if torch.cuda.is_available() else "cpu")
    language = use_language(rollout.language) if rollout.language else default_language(model_device)
    judge_device = rollout.judge_device or (model_device if language.on_gpu else "cpu")
    found = load_tasks(config.data.tasks, size="cpu" if judge_device == "cpu" else "gpu")
    if not found.tasks:
        told = "; ".join(problem.message for problem in found.problems[:3])
        raise UsageError(f"data.tasks = {list(config.data.tasks)}: names no task that can be used{': ' + told if told else ''}")
    baselines = ("eager", "compile") if config.reward.name == "milestones" else (config.reward.baseline,)
    with Judge(judge_device, workers=rollout.judge_workers, baselines=baselines, quick=True, timeout=rollout.timeout) as judge:
        torch.manual_seed(config.data.seed)  # a new adapter is drawn at random
        yield RlInputs(
            loaded=load_for_training(config),
            tasks=found.tasks,
            judge=judge,
            prompts=Prompts(prompt_style(config.model.name, rollout.style)),
            device=device_facts(judge_device),
            judge_device=judge_device,
            language=language.name,
            fingerprint=fingerprint(judge_device),
            problems=tuple(problem.message for problem in found.problems),
        )
