"""The two sources of a benchmark's own kernels: the backbone writes them in an episode, or they are read from candidate files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bottega.agents.prompts import Prompts
from bottega.backbone.client import Client
from bottega.backbone.reply import ContextError, RefusedError
from bottega.bench.attempt import Author, BenchAttempt
from bottega.bench.run_directory import SAMPLES
from bottega.bench.settings import BenchSettings
from bottega.bench.shard import Shard
from bottega.core.candidate import Candidate
from bottega.core.device import DeviceFacts
from bottega.core.errors import BudgetError
from bottega.core.event import Event
from bottega.core.task import Task
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.attempts import NOT_JUDGED, RunAttempt, Totals, attempts_of, schemes_of, totals_of
from bottega.episodes.budget import RunBudget
from bottega.episodes.context import EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.journal import FILE, EpisodeJournal, read_events
from bottega.episodes.phases import Phases
from bottega.languages import candidate_from, detect_language
from bottega.skills.library import Library

Sample = list[tuple[BenchAttempt, str]]
"""The attempts of one sample in the order of their turns, each with its kernel's text."""
FOREIGN_CHUNK = 8
"""Kernels of one task that one worker judges in a row: a task that is up is used again, and a task with many keeps several busy."""


@dataclass
class ModelSource:
    """Episodes: the backbone writes, the device's judge judges, and each sample has a log of its own to go on from."""

    folder: Path
    settings: BenchSettings
    client: Client
    library: Library | None
    prompts: Prompts
    budget: RunBudget
    at_once: int
    phases: Phases
    facts: dict[str, DeviceFacts]
    """By device."""
    chunk: int = 1
    """Samples of a task that are handed out together, to be done in a row."""

    def lanes(self, shard: Shard) -> int:
        """Samples that a device has under way at a time."""
        return max(self.at_once, shard.lanes)

    def samples(self, task: str) -> tuple[int, ...]:
        return tuple(range(self.settings.samples))

    async def sample(self, shard: Shard, task: Task, number: int) -> Sample:
        """Raises `DeviceLost`, or another `BottegaError` where only this sample could not be done."""
        settings = self.settings.episode(shard.device)
        with EpisodeJournal(self.folder / SAMPLES / task.id / str(number)) as journal:
            given = (self.library, self.prompts, self.facts[shard.device], journal, self.budget)
            context = EpisodeContext(self.client, shard, *given, shared=self.phases)
            episode, cut = episode_of(task.id, number), ""
            try:
                await run_episode(context, task, settings, episode)
            except (
                ContextError,
                RefusedError,
            ) as error:  # the next time would be no better: the model has failed, and that counts
                cut = str(error)
            found = sample_of(journal.events, episode, task.id, number, settings.language)
        if cut:
            return [*found, (_unanswered(task.id, number, len(found), settings.language, cut), "")]
        reason = self.budget.reached()
        if len(found) < self.settings.kernels and reason is not None:
            raise BudgetError(reason)
        return found  # a beam whose kernels are copies of each other has fewer than it might

    def invalid(self, task: str, number: int, why: str) -> Sample:
        """What a sample of a task that cannot be judged comes to. With what its answers took: they were paid for."""
        folder = self.folder / SAMPLES / task / str(number)
        drawn = totals_of(list(read_events(folder))) if (folder / FILE).exists() else Totals()
        verdict = Verdict(Outcome.INVALID_TASK, diagnosis=why, task_id=task)
        return [
            (BenchAttempt(task, number, 0, verdict, "", "", drawn.prompt_tokens, drawn.output_tokens, drawn.cost, 0.0, ()), "")
        ]


@dataclass
class CandidateSource:
    """Kernels that lie there."""

    kernels: dict[str, dict[int, Candidate]]
    chunk: int = FOREIGN_CHUNK

    def lanes(self, shard: Shard) -> int:
        return shard.lanes

    def samples(self, task: str) -> tuple[int, ...]:
        return tuple(sorted(self.kernels.get(task, ())))

    async def sample(self, shard: Shard, task: Task, number: int) -> Sample:
        candidate = self.kernels[task.id][number]
        verdict = await shard.judge_async(task, candidate)
        return [(_read(task.id, number, candidate, verdict, verdict.stages_s.get("total", 0.0)), candidate.source)]

    def invalid(self, task: str, number: int, why: str) -> Sample:
        candidate = self.kernels[task][number]
        verdict = Verdict(Outcome.INVALID_TASK, diagnosis=why, task_id=task, candidate_id=candidate.id)
        return [(_read(task, number, candidate, verdict, 0.0), candidate.source)]


def episode_of(task: str, sample: int) -> str:
    """The name of a sample's episode in its log."""
    return f"{task}/sample{sample}"


def sample_of(events: Sequence[Event], episode: str, task: str, sample: int, language: str) -> Sample:
    """The kernels of one episode, in the order of its search. An answer that waits for its verdict is none of them."""
    schemes = schemes_of(events, episode)
    written = [one for one in attempts_of(events, episode) if one.outcome != NOT_JUDGED]
    ordered = enumerate(sorted(written, key=lambda one: _order(one.node.id)))
    cards = {number: selected.names for number, selected in schemes.items()}
    return [
        attempt_of(one, task, sample, turn, language, one.writing_s + one.beside_s, skills=cards.get(one.node.scheme, ()))
        for turn, one in ordered
    ]


def attempt_of(
    written: RunAttempt,
    task: str,
    sample: int,
    turn: int,
    language: str,
    writing_s: float,
    *,
    skills: tuple[str, ...] = (),
    author: Author = "model",
) -> tuple[BenchAttempt, str]:
    """An attempt of a log as the record has it, with its kernel's text."""
    answer, verdict, turns = written.node.turn, written.node.verdict, written.turns
    judging = 0.0 if verdict is None or written.same_as else verdict.stages_s.get("total", written.judging_s)
    kept = BenchAttempt(
        task=task,
        sample=sample,
        turn=turn,
        verdict=verdict,
        candidate="" if verdict is None else candidate_from(answer.source).id,
        language=language if verdict is None else detect_language(answer.source),
        prompt_tokens=sum(one.prompt_tokens for one in turns),
        output_tokens=sum(one.output_tokens for one in turns),
        money=sum(one.cost for one in turns),
        seconds=round(writing_s + judging, 3),
        skills=skills,
        junk="" if verdict is not None else " ".join(answer.fault.split())[:400],
        redrawn=answer.redrawn,
        repairs=answer.repairs,
        author=author,
    )
    return kept, answer.source if verdict is not None else ""


def _order(node: str) -> tuple[int, ...]:
    """`s0r0t2`, `g1n3`, `i0g1n0`: by turn or generation, then as they are numbered."""
    numbers = {letter: int(number) for letter, number in re.findall(r"([a-z])(\d+)", node)}
    return numbers.get("t", numbers.get("g", 0)), *numbers.values()


def _unanswered(task: str, sample: int, turn: int, language: str, why: str) -> BenchAttempt:
    return BenchAttempt(task, sample, turn, None, "", language, 0, 0, 0.0, 0.0, (), junk=why)


def _read(task: str, sample: int, candidate: Candidate, verdict: Verdict, seconds: float) -> BenchAttempt:
    return BenchAttempt(task, sample, 0, verdict, candidate.id, candidate.language, 0, 0, 0.0, seconds, ())
