"""Drafts behind any source of kernels: where a sample's own kernels brought none that is faster, the compiler's are judged too.

They are attempts of that sample, at turns of their own behind the last one that its model may have, so that a turn is always one author's. The
sample's log keeps them as it keeps the model's kernels. Without another source the compiler is alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bottega.agents.prompts import Prompts
from bottega.backbone.client import ChatClient
from bottega.backbone.scripted import ScriptedChat
from bottega.bench.attempt import BenchAttempt
from bottega.bench.kernel_sources import CandidateSource, ModelSource, Sample, attempt_of, episode_of
from bottega.bench.run_directory import SAMPLES
from bottega.bench.settings import BenchSettings
from bottega.bench.shard import Shard
from bottega.core.device import DeviceFacts
from bottega.core.draft import Drafts, DraftSource
from bottega.core.event import Drafted, Event
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.attempts import NOT_JUDGED, attempts_of
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_drafts
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.phases import Phases

LANES = 2
"""Samples under way for each kernel that the judge can take: while one is judged, the drafts of another are written."""


@dataclass
class DraftsOnce:
    """A task's drafts are the same for all its samples, and are written once in a session."""

    source: DraftSource
    _made: dict[tuple[str, str, int], asyncio.Future[Drafts]] = field(default_factory=dict)

    async def drafts(self, task: Task, language: str, count: int) -> Drafts:
        key = task.id, language, count
        if key not in self._made:
            self._made[key] = asyncio.ensure_future(self.source.drafts(task, language, count))
        return await asyncio.shield(self._made[key])


@dataclass
class DraftedSource:
    first: ModelSource | CandidateSource | None
    """Whose kernels come before; None for the compiler alone."""
    folder: Path
    settings: BenchSettings
    drafts: DraftSource
    phases: Phases
    facts: dict[str, DeviceFacts]
    """By device."""

    @property
    def chunk(self) -> int:
        return self.first.chunk if self.first is not None else 1

    def lanes(self, shard: Shard) -> int:
        return max(LANES * shard.lanes, self.first.lanes(shard) if self.first is not None else 1)

    def samples(self, task: str) -> tuple[int, ...]:
        return self.first.samples(task) if self.first is not None else (0,)

    async def sample(self, shard: Shard, task: Task, number: int) -> Sample:
        """Raises as its first source does, and as the judge of the drafts."""
        made = await self.first.sample(shard, task, number) if self.first is not None else []
        if any(is_faster(attempt) for attempt, _ in made):
            return made
        settings = self.settings.drafting(shard.device)
        nobody = ChatClient(ScriptedChat(()))  # drafts ask no model
        with EpisodeJournal(self.folder / SAMPLES / task.id / str(number)) as journal:
            # Its budget is its own: drafts take neither tokens nor money, so a model's spent budget is no reason to leave them out.
            given = (nobody, shard, None, Prompts(settings.style), self.facts[shard.device], journal)
            context = EpisodeContext(*given, draft_source=self.drafts, shared=self.phases)
            await run_drafts(context, task, settings, _drafting(task.id, number))
            return [*made, *drafts_of(journal.events, task.id, number, self.settings.kernels, settings.language)]

    def invalid(self, task: str, number: int, why: str) -> Sample:
        if self.first is not None:
            return self.first.invalid(task, number, why)
        verdict = Verdict(Outcome.INVALID_TASK, diagnosis=why, task_id=task)
        return [(BenchAttempt(task, number, 0, verdict, "", "", 0, 0, 0.0, 0.0, (), author="compiler"), "")]


def _drafting(task: str, sample: int) -> str:
    """An episode beside the model's, so that a model whose sample goes on never sees a draft."""
    return f"{episode_of(task, sample)}/drafts"


def is_faster(attempt: BenchAttempt) -> bool:
    return attempt.verdict is not None and attempt.verdict.outcome is Outcome.FASTER


def drafts_of(events: Sequence[Event], task: str, sample: int, turn: int, language: str) -> Sample:
    """The judged drafts of one sample from `turn` on, or the compiler's refusal. The first has the time that writing them took."""
    episode = _drafting(task, sample)
    drafted = next((event for event in events if isinstance(event, Drafted) and event.episode == episode), None)
    if drafted is None:
        return []
    if not drafted.drafts:
        refusal = BenchAttempt(
            task, sample, turn, None, "", language, 0, 0, 0.0, drafted.seconds, (), drafted.text, author="compiler"
        )
        return [(refusal, "")]
    judged = [one for one in attempts_of(events, episode) if one.outcome != NOT_JUDGED]
    return [
        attempt_of(one, task, sample, turn + place, language, drafted.seconds if place == 0 else 0.0, author="compiler")
        for place, one in enumerate(judged)
    ]
