"""The episodes of one step: which tasks, under which settings, all of them side by side.

What an episode does stands in `bottega.episodes`; here it is only told what training wants of it: the empty scheme always, every turn
taken (an early end would depend on the clock), and draws that depend on seed, step and place alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from bottega.agents.prompts import Prompts
from bottega.backbone.loading import LoadedModel
from bottega.core.device import DeviceFacts
from bottega.core.episode import Episode
from bottega.core.errors import BottegaError, TrainingError, UsageError
from bottega.core.task import Task
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
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
            prompts=Prompts(rollout.style),
            device=device_facts(judge_device),
            judge_device=judge_device,
            language=language.name,
            fingerprint=fingerprint(judge_device),
            problems=tuple(problem.message for problem in found.problems),
        )


@dataclass(frozen=True)
class Rollouts:
    episodes: tuple[Episode, ...]
    tasks: tuple[Task, ...]
    """One for each episode."""
    failed: tuple[str, ...] = ()
    """Episodes that could not be run, one line each."""


def episode_settings(config: Config, inputs: RlInputs) -> EpisodeSettings:
    """Without skills a task gets as many rollouts as it would have had with them, so that an ablation spends the same."""
    rollout, skills = config.rollout, config.ablations.skills
    chosen = {"backbone": "selector", "bm25": "bm25"}[config.ablations.selector]
    return EpisodeSettings(
        device=inputs.judge_device,
        language=inputs.language,
        baselines=(config.reward.baseline,),
        strategy="serial",
        turns=rollout.turns,
        samples=rollout.samples if skills else rollout.samples * (rollout.schemes + 1),
        schemes=rollout.schemes if skills else 0,
        empty_scheme=True,
        skills=rollout.skills,
        retrieved=rollout.retrieved,
        unproved=config.skills.unproved,
        select=chosen if skills else "none",  # type: ignore[arg-type]
        temperature=rollout.temperature,
        max_tokens=rollout.max_tokens,
        style=rollout.style,
        summaries=rollout.summaries if skills else 0,
        margin=rollout.margin,
        seed=config.data.seed,
        stopping=Stopping(roofline=0.0),
    )


def tasks_of_step(tasks: Sequence[Task], step: int, count: int, seed: int) -> list[Task]:
    """Every task once, in random order, before any comes again. A function of the step alone: that is the data's position."""
    count = min(count, len(tasks))
    found: list[Task] = []
    for place in range((step - 1) * count, step * count):
        epoch, within = divmod(place, len(tasks))
        order = list(range(len(tasks)))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        found.append(tasks[order[within]])
    return found


def episode_name(step: int, place: int, task: Task) -> str:
    return f"{step:06}/{place:03}-{task.id}"


async def roll_out(context: EpisodeContext, tasks: Sequence[Task], settings: EpisodeSettings, step: int) -> Rollouts:
    """All at once; where the model and the judge share a device, their answers and verdicts take turns there. One that fails does not end
    the others."""

    async def one(place: int, task: Task) -> Episode | BottegaError:
        try:
            return await run_episode(context, task, settings, episode_name(step, place, task))
        except BottegaError as error:
            return error

    ended = await asyncio.gather(*(one(place, task) for place, task in enumerate(tasks)))
    done = [(episode, task) for episode, task in zip(ended, tasks) if isinstance(episode, Episode)]
    failed = [f"{task.name}: {error}" for error, task in zip(ended, tasks) if not isinstance(error, Episode)]
    if not done:
        raise TrainingError(f"no episode of step {step} could be run: {failed[0] if failed else 'there are no tasks'}")
    return Rollouts(tuple(episode for episode, _ in done), tuple(task for _, task in done), tuple(failed))
