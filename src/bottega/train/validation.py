"""Validation during RL: tasks that are never trained on, answered without chance by the newest weights, without skills and with what the selector
picks from the library as it is.

It is drawn when the weights are shown to the decoder anyway, before a step's own rollouts, and has a log of its own: a run that was killed finds
there what was answered and judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bottega.core.episode import Episode
from bottega.core.errors import UsageError
from bottega.core.task import Task
from bottega.episodes.settings import EpisodeSettings
from bottega.train.rewards.verdict_reader import Reward, VerdictReader
from bottega.train.rollout_metrics import FAST, rollout_metrics

TOLD = ("reward", "correct", "speedup", "coverage", *(f"fast_{p:g}" for p in FAST))
WITH_SKILLS = "with_skills/"


def require_unseen(tasks: Sequence[Task], validation: Sequence[Task]) -> None:
    """Raises `UsageError` where a task stands in both."""
    trained = {task.id for task in tasks}
    both = [task.name for task in validation if task.id in trained]
    if both:
        raise UsageError(
            f"data.validation: {', '.join(both[:3])} {'is' if len(both) == 1 else 'are'} among data.tasks too; leave out"
        )


def validation_settings(settings: EpisodeSettings) -> EpisodeSettings:
    """One rollout of each task without skills, and one with a selection where there are any."""
    return replace(settings, samples=1, schemes=min(1, settings.schemes), even_groups=False, temperature=0.0, summaries=0)


def is_due(version: int, last: int, every: int) -> bool:
    """First of all, and once for every so many versions of the weights; of those that rollouts ahead pass over, the next one."""
    return last < 0 or version // every > last // every


def validation_metrics(episodes: Sequence[Episode], reward: Reward, reading: VerdictReader) -> dict[str, float]:
    plain, chosen = ([_only(episode, skills) for episode in episodes] for skills in (False, True))
    found = _told(plain, reward, reading)
    with_skills = [episode for episode in chosen if episode.of("write")]
    if with_skills:
        found |= {f"{WITH_SKILLS}{name}": value for name, value in _told(with_skills, reward, reading).items()}
    return {"tasks": float(len(episodes)), **found}


def _told(episodes: Sequence[Episode], reward: Reward, reading: VerdictReader) -> dict[str, float]:
    values = rollout_metrics(episodes, reward, reading)
    return {name: values[name] for name in TOLD if name in values}


def _only(episode: Episode, skills: bool) -> Episode:
    return replace(episode, traces=tuple(trace for trace in episode.of("write") if bool(trace.scheme) == skills))
