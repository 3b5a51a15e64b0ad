"""The last word: the best kernels are judged again, in full, in fresh processes, as the very file that is handed over.

A search picks the luckiest of many quick verdicts. What is reported is a verdict that was not picked: the first of the best three that holds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bottega.core.candidate import Candidate
from bottega.core.errors import TaskError
from bottega.core.event import Judged
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.attempts import Attempt, final_key, spread
from bottega.episodes.deliver.final_judge import FinalJudge
from bottega.episodes.deliver.optimized_file import Delivered, delivered, facts_of
from bottega.episodes.journal import Journal
from bottega.episodes.node import ranked
from bottega.episodes.settings import EpisodeSettings
from bottega.tasks.module import Subject

MOST = 3


@dataclass(frozen=True)
class Finding:
    """The kernel that is handed over."""

    attempt: Attempt
    file: Delivered
    verdict: Verdict
    refused: str = ""
    """What load() says where the kernel's parameters have names of their own."""
    guard_us: float = 0.0
    """Microseconds that looking at the arguments adds to each call. The verdict is about the kernel without it."""


@dataclass(frozen=True)
class Retrial:
    """A kernel that looked faster and is not handed over, and why."""

    attempt: Attempt
    why: str


@dataclass
class Settled:
    finding: Finding | None = None
    retrials: list[Retrial] = field(default_factory=list)


def promising(attempts: Sequence[Attempt], baseline: str) -> list[Attempt]:
    """Kernels that are right and may be faster, best first, each text once."""
    by_id = {attempt.node.id: attempt for attempt in attempts}
    seen: set[str] = set()
    found = []
    for node in ranked((attempt.node for attempt in attempts), baseline):
        speedup = node.speedup(baseline)
        if speedup is not None and speedup.point > 1 and node.turn.source not in seen:
            seen.add(node.turn.source)
            found.append(by_id[node.id])
    return found


async def settle(
    judge: FinalJudge, journal: Journal, episode: str, subject: Subject, attempts: Sequence[Attempt], settings: EpisodeSettings
) -> Settled:
    settled = Settled()
    facts: dict[str, Any] | None = None
    for attempt in promising(attempts, settings.baseline)[:MOST]:
        if facts is None:
            found = await asyncio.to_thread(judge.ask, "describe", subject.task.label, source=subject.task.source)
            facts = facts_of(found, settings.device, settings.precision)
        try:
            file = delivered(attempt.node.candidate, facts, subject.title)
        except (ValueError, SyntaxError) as error:
            settled.retrials.append(Retrial(attempt, f"it cannot stand alone in one file: {error}"))
            continue
        verdict = await _judged(judge, journal, episode, subject, attempt, file)
        if verdict.outcome is not Outcome.FASTER:
            told = spread(verdict, settings.baseline)
            settled.retrials.append(
                Retrial(attempt, f"judged again in full it is {verdict.outcome}{f', {told}' if told else ''}")
            )
            continue
        try:
            tried = await asyncio.to_thread(
                judge.ask, "try_out", "optimized.py", source=subject.task.source, delivered=file.text, entry=file.load
            )
        except TaskError as error:
            tried = {"problems": [str(error)]}
        if tried["problems"]:
            settled.retrials.append(
                Retrial(attempt, f"as a module in place of the original: {'; '.join(map(str, tried['problems']))}")
            )
            continue
        guard_us = round(float(tried.get("guard_us", 0.0)), 1)
        settled.finding = Finding(attempt, file, verdict, str(tried.get("refused", "")), guard_us)
        break
    return settled


async def _judged(
    judge: FinalJudge, journal: Journal, episode: str, subject: Subject, attempt: Attempt, file: Delivered
) -> Verdict:
    candidate = Candidate(file.text, attempt.node.candidate.language, attempt.node.id)
    key = final_key(episode, candidate.id)

    async def again() -> Judged:
        begun = time.monotonic()
        verdict = await judge.judge_async(subject.task, candidate, quick=False)
        return Judged(key, episode, attempt.node.id, verdict, seconds=round(time.monotonic() - begun, 3))

    return (await journal.once(key, Judged, again)).verdict
