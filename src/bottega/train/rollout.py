"""The episodes of one step: which tasks, under which settings, all of them side by side.

What an episode does stands in `bottega.episodes`; here it is only told what training wants of it: the empty scheme always, every turn
taken (an early end would depend on the clock), and draws that depend on seed, step and place alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from bottega.agents.prompts import Prompts, Style
from bottega.backbone.loading import LoadedModel
from bottega.backbone.reply import NoServerError
from bottega.core.device import DeviceFacts
from bottega.core.episode import Episode
from bottega.core.errors import BottegaError, NoJudgeError, TrainingError, UsageError
from bottega.core.task import Task
from bottega.episodes.backbone_defaults import own_style, prompt_style
from bottega.episodes.context import EpisodeContext, Judges
from bottega.episodes.episode import run_episode
from bottega.episodes.settings import EpisodeSettings
from bottega.episodes.stopping import Stopping
from bottega.judge.device_host import LOCAL, DeviceHost, kind_of
from bottega.languages import Language, default_language, use_language
from bottega.tasks.load import LoadedTasks, load_tasks
from bottega.train.rewards.selection import turn_rewards
from bottega.train.rewards.verdict_reader import Reward, judged
from bottega.train.settings import Config
from bottega.train.sft import load_for_training
from bottega.train.validation import require_unseen


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
    host: DeviceHost = LOCAL
    """Where the judge is."""
    timed: bool = True
    """Whether the judge times kernels. If it does not, nothing on the device disturbs it, and answers are drawn meanwhile."""
    problems: tuple[str, ...] = ()
    """Tasks that cannot be used, one line each."""
    validation: tuple[Task, ...] = ()
    """Tasks that are never trained on."""

    @property
    def digest(self) -> str:
        """The same for the same tasks: a run that is resumed must have them."""
        return hashlib.sha256("".join(task.id for task in self.tasks).encode()).hexdigest()[:16]


@contextmanager
def open_inputs(config: Config, host: DeviceHost = LOCAL) -> Iterator[RlInputs]:
    rollout, style = config.rollout, style_of(config)
    model_device = config.model.device or ("cuda" if torch.cuda.is_available() else "cpu")
    language, judge_device = judged_on(config, model_device)
    _require_gpus(model_device, judge_device if host is LOCAL else "cpu")
    if host is not LOCAL:
        judge_device = kind_of(judge_device)  # which GPU of this machine the model has says nothing there
    found = _tasks("tasks", config.data.tasks, judge_device)
    validation = _tasks("validation", config.data.validation, judge_device) if config.data.validation else LoadedTasks(())
    require_unseen(found.tasks, validation.tasks)
    baselines = ("eager", "compile") if config.reward.name == "milestones" else (config.reward.baseline,)
    with host.judge(
        judge_device, workers=rollout.judge_workers, baselines=baselines, quick=True, timeout=rollout.timeout
    ) as judge:
        torch.manual_seed(config.data.seed)  # a new adapter is drawn at random
        yield RlInputs(
            loaded=load_for_training(config),
            tasks=found.tasks,
            judge=judge,
            prompts=Prompts(style),
            device=host.facts(judge_device),
            judge_device=judge_device,
            language=language.name,
            fingerprint=host.fingerprint(judge_device),
            host=host,
            problems=tuple(problem.message for problem in (*found.problems, *validation.problems)),
            validation=validation.tasks,
        )


def _require_gpus(model_device: str, judge_device: str) -> None:
    """Raises `UsageError` where this machine has none for the model or for its own judge, in the words of a run's settings."""
    if torch.cuda.is_available():
        return
    cpu = "rollout.judge_device=cpu rollout.language=cpp"
    if model_device != "cpu":
        raise UsageError(f"model.device = {model_device}: no NVIDIA GPU is visible here; set model.device=cpu {cpu}")
    if judge_device != "cpu":
        raise UsageError(
            f"kernels are judged on {judge_device}: no NVIDIA GPU is visible here; set {cpu}, or judge elsewhere by --cluster"
        )


def style_of(config: Config) -> Style:
    """Of a run's prompts: what its model was trained on. Raises `UsageError` where another one is asked for, by a preset perhaps."""
    model, chosen = config.model.name, config.rollout.style
    own = own_style(model)
    if chosen and own and chosen != own:
        raise UsageError(
            f"rollout.style = {chosen}, but {model} was trained on {own} prompts: set rollout.style={own}, or leave it out"
        )
    return prompt_style(model, chosen)


def judged_on(config: Config, model_device: str) -> tuple[Language, str]:
    """The language of a run's kernels, and the device that they are judged on."""
    named = config.rollout.language
    language = use_language(named) if named else default_language(model_device)
    return language, config.rollout.judge_device or (model_device if language.on_gpu else "cpu")


def _tasks(key: str, sources: Sequence[str], device: str) -> LoadedTasks:
    found = load_tasks(sources, size="cpu" if device == "cpu" else "gpu")
    if not found.tasks:
        told = "; ".join(problem.message for problem in found.problems[:3])
        raise UsageError(f"data.{key} = {list(sources)}: names no task that can be used{': ' + told if told else ''}")
    return found


LEAST_DIFFERENCE = 0.02
"""Of rewards: a quick verdict tells about as much of a speedup apart."""


@dataclass(frozen=True)
class Rollouts:
    episodes: tuple[Episode, ...]
    tasks: tuple[Task, ...]
    """One for each episode."""
    failed: tuple[str, ...] = ()
    """Episodes that could not be run, one line each."""

    def __add__(self, other: Rollouts) -> Rollouts:
        return Rollouts(self.episodes + other.episodes, self.tasks + other.tasks, self.failed + other.failed)


def episode_settings(config: Config, inputs: RlInputs) -> EpisodeSettings:
    """Without skills a task gets as many rollouts as it would have had with them, so that an ablation spends the same."""
    rollout, skills = config.rollout, config.ablations.skills
    chosen = {"backbone": "selector", "bm25": "bm25"}[config.ablations.selector]
    return EpisodeSettings(
        device=inputs.judge_device,
        language=inputs.language,
        baselines=(config.reward.baseline,),
        strategy=rollout.strategy,
        turns=rollout.turns,
        steps=rollout.steps,
        samples=rollout.samples if skills else rollout.samples * (rollout.schemes + 1),
        schemes=rollout.schemes if skills else 0,
        empty_scheme=True,
        even_groups=True,
        skills=rollout.skills,
        retrieved=rollout.retrieved,
        unproved=config.skills.unproved,
        select=chosen if skills else "none",  # type: ignore[arg-type]
        temperature=rollout.temperature,
        max_tokens=rollout.max_tokens,
        stop=rollout.stop,
        style=inputs.prompts.style,
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


def within_band(
    tasks: Sequence[Task], chosen: Sequence[Task], shares: Mapping[str, float], band: tuple[float, float], seed: str
) -> list[Task]:
    """The chosen tasks; in place of those that were nearly always right, or nearly never, others that were not. Where there are none left, fewer."""
    low, high = band

    def fits(task: Task) -> bool:
        return low <= shares.get(task.id, (low + high) / 2) <= high

    kept, ids = [task for task in chosen if fits(task)], {task.id for task in chosen}
    others = [task for task in tasks if task.id not in ids and fits(task)]
    more = random.Random(seed).sample(others, min(len(chosen) - len(kept), len(others)))
    return [*kept, *more] or list(chosen)


def shares_right(rollouts: Rollouts) -> dict[str, float]:
    """Of each task the share of its kernels that were right and do the work themselves, of those that were judged."""
    found: dict[str, list[bool]] = {}
    for episode in rollouts.episodes:
        turns = [turn for trace in episode.of("write") for turn in trace.turns if judged(turn)]
        found.setdefault(episode.task_id, []).extend(
            turn.verdict is not None and turn.verdict.outcome.accepted and turn.verdict.does_own_work for turn in turns
        )
    return {task: sum(right) / len(right) for task, right in found.items() if right}


def replacements(tasks: Sequence[Task], rollouts: Rollouts, reward: Reward, seed: str) -> list[Task]:
    """As many other tasks as there are among the step's without a signal, drawn by the seed alone; fewer where all have had their turn."""
    dull = sum(not has_signal(episode, reward) for episode in rollouts.episodes)
    used = {task.id for task in rollouts.tasks}
    left = [task for task in tasks if task.id not in used]
    return random.Random(seed).sample(left, min(dull, len(left)))


def has_signal(episode: Episode, reward: Reward) -> bool:
    """Whether some kernels of the task earned more than others, by more than timing is off: else there is nothing to reinforce."""
    earned = [value for trace in episode.of("write") for value in turn_rewards(trace.turns, reward) if value is not None]
    return max(earned, default=0.0) - min(earned, default=0.0) > LEAST_DIFFERENCE


def episode_name(step: int, place: int, task: Task) -> str:
    return f"{step:06}/{place:03}-{task.id}"


async def roll_out(
    context: EpisodeContext, tasks: Sequence[Task], settings: EpisodeSettings, step: int, first: int = 0
) -> Rollouts:
    """All at once; where the model and the judge share a device, their answers and verdicts take turns there. One that fails does not end
    the others. `first`: the place of the first task in the step."""

    async def one(place: int, task: Task) -> Episode | BottegaError:
        try:
            return await run_episode(context, task, settings, episode_name(step, place, task))
        except (NoServerError, NoJudgeError):  # the run ends and is resumed: what happened to be done would be another step
            raise
        except BottegaError as error:
            return error

    ended = await asyncio.gather(*(one(place, task) for place, task in enumerate(tasks, first)))
    done = [(episode, task) for episode, task in zip(ended, tasks) if isinstance(episode, Episode)]
    failed = [f"{task.name}: {error}" for error, task in zip(ended, tasks) if not isinstance(error, Episode)]
    if not done and not first:
        raise TrainingError(f"no episode of step {step} could be run: {failed[0] if failed else 'there are no tasks'}")
    return Rollouts(tuple(episode for episode, _ in done), tuple(task for _, task in done), tuple(failed))
