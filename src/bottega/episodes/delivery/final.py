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
from bottega.core.foreign_text import one_line
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.attempts import RunAttempt, final_key, spread
from bottega.episodes.delivery.optimized_file import Delivered, delivered, facts_of
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.node import ranked
from bottega.episodes.settings import EpisodeSettings
from bottega.judge.device_host import DeviceJudge
from bottega.tasks.module import ModuleTask

ENTRY = "bottega.episodes.delivery.probe:main"


MOST = 3
MOST_PROBLEMS, LONGEST_PROBLEM = 16, 600
LONGEST_GUARD_US = 1e9
BUSY = " on a busy machine"
LATE = "judging it again in full was not over in time"


@dataclass(frozen=True)
class FinalKernel:
    """The kernel that is handed over."""

    attempt: RunAttempt
    file: Delivered
    verdict: Verdict
    refused: str = ""
    """What load() says where the kernel's parameters have names of their own."""
    guard_us: float = 0.0
    """Microseconds that looking at the arguments adds to each call. The verdict is about the kernel without it."""


@dataclass(frozen=True)
class RefusedKernel:
    """A kernel that looked faster and is not handed over, and why."""

    attempt: RunAttempt
    why: str
    beats: str = ""
    """The baseline that it surely beats all the same, if it is not its speed that keeps it from being handed over."""


@dataclass
class FinalChoice:
    finding: FinalKernel | None = None
    retrials: list[RefusedKernel] = field(default_factory=list)
    beats_eager: FinalKernel | None = None
    """Where nothing beats what was to be beaten: a kernel that surely beats eager."""
    trying: RunAttempt | None = None
    """The one that is judged at this moment."""


def promising(attempts: Sequence[RunAttempt], baseline: str) -> list[RunAttempt]:
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


async def choose_final(
    judge: DeviceJudge,
    journal: EpisodeJournal,
    episode: str,
    subject: ModuleTask,
    attempts: Sequence[RunAttempt],
    settings: EpisodeSettings,
    seconds: float | None = None,
) -> FinalChoice:
    """The first of the best that surely beats the first baseline; failing that, the first that surely beats eager; by then."""
    settled = FinalChoice()
    try:
        async with asyncio.timeout(seconds):
            await _choose(settled, judge, journal, episode, subject, attempts, settings)
    except TimeoutError:
        if settled.trying is None:
            raise
        settled.retrials.append(RefusedKernel(settled.trying, LATE))
    return settled


async def _choose(
    settled: FinalChoice,
    judge: DeviceJudge,
    journal: EpisodeJournal,
    episode: str,
    subject: ModuleTask,
    attempts: Sequence[RunAttempt],
    settings: EpisodeSettings,
) -> None:
    facts: dict[str, Any] | None = None
    first = promising(attempts, settings.baseline)[:MOST]
    named = {attempt.node.id for attempt in first}
    others = [] if settings.baseline == "eager" else promising(attempts, "eager")
    others = [attempt for attempt in others if attempt.node.id not in named][:MOST]
    for attempt in [*first, *others]:
        if settled.beats_eager is not None and attempt.node.id not in named:
            break
        settled.trying = attempt
        if facts is None:
            found = await asyncio.to_thread(judge.ask, ENTRY, subject.task.label, do="describe", source=subject.task.source)
            facts = facts_of(found, settings.device, settings.precision)
        try:
            file = delivered(attempt.node.candidate, facts, subject.title)
        except (ValueError, SyntaxError) as error:
            settled.retrials.append(RefusedKernel(attempt, f"it cannot stand alone in one file: {error}"))
            continue
        verdict = await _judged(judge, journal, episode, subject, attempt, file)
        faster = verdict.outcome is Outcome.FASTER and verdict.baseline in ("", settings.baseline)
        if not faster and (settled.beats_eager is not None or not surely_beats(verdict, "eager")):
            settled.retrials.append(RefusedKernel(attempt, again_in_words(verdict, settings.baseline)))
            continue
        try:
            tried = await asyncio.to_thread(
                judge.ask, ENTRY, "optimized.py", do="try_out", source=subject.task.source, delivered=file.text, load=file.load
            )
        except TaskError as error:
            tried = {"problems": [str(error)]}
        problems = problems_of(tried)
        if problems:
            settled.retrials.append(
                RefusedKernel(
                    attempt,
                    f"as a module in place of the original: {'; '.join(problems)}",
                    settings.baseline if faster else "eager",
                )
            )
            continue
        guard_us = round(tried.get("guard_us", 0.0), 1)
        finding = FinalKernel(attempt, file, verdict, one_line(str(tried.get("refused", "")), LONGEST_PROBLEM), guard_us)
        if faster:
            settled.finding, settled.beats_eager = finding, None
            break
        settled.beats_eager = finding
        settled.retrials.append(RefusedKernel(attempt, again_in_words(verdict, settings.baseline)))


def problems_of(tried: dict[str, Any]) -> list[str]:
    """What the process said in which the delivered file was tried. The kernel ran there: what is no answer of ours is a problem too."""
    problems, guard_us = tried.get("problems"), tried.get("guard_us", 0.0)
    if not isinstance(problems, list) or not isinstance(guard_us, int | float) or not 0 <= guard_us < LONGEST_GUARD_US:
        return ["what was told of it cannot be read"]
    return [one_line(str(problem), LONGEST_PROBLEM) for problem in problems[:MOST_PROBLEMS]]


def surely_beats(verdict: Verdict, baseline: str) -> bool:
    speedup = verdict.speedup.get(baseline) if verdict.outcome.accepted else None
    return speedup is not None and speedup.low > 1


def again_in_words(verdict: Verdict, baseline: str) -> str:
    """What the last verdict says, against what; and that it beats eager, where that is all it beats."""
    names = dict.fromkeys((verdict.baseline or baseline, "eager"))
    told = "; ".join(f"{text} against {name}" for name in names if (text := spread(verdict, name)))
    return f"judged again in full{BUSY if verdict.disturbed else ''} it is {verdict.outcome}{f': {told}' if told else ''}"


def missed(settled: FinalChoice, settings: EpisodeSettings, attempts: Sequence[RunAttempt] = ()) -> str:
    """What was asked for and not found, in a sentence that says against what."""
    kernels = [attempt.node for attempt in attempts if attempt.node.turn.source.strip()]
    if kernels and all(node.verdict is None for node in kernels):
        return "No kernel was judged before the search ended: nothing is known of them. Give it more minutes."
    asked = f"No kernel surely beats {settings.baseline}{', the module as it is' if settings.baseline == 'eager' else ''}"
    if settled.beats_eager is not None:
        return f"{asked}, which was asked for; one surely beats eager, {spread(settled.beats_eager.verdict, 'eager')}."
    unfit = next((retrial for retrial in settled.retrials if retrial.beats == settings.baseline), None)
    if unfit is not None:
        return f"A kernel surely beats {unfit.beats}, and cannot be handed over: {unfit.why}."
    if any(retrial.why == LATE for retrial in settled.retrials):
        return f"{asked}: {LATE}. Give it more minutes."
    if any(BUSY in retrial.why for retrial in settled.retrials):
        return f"{asked}. Others had the machine while it was timed: run it again when it is idle."
    accepted = [attempt.node.verdict for attempt in attempts if attempt.node.verdict and attempt.node.verdict.outcome.accepted]
    if accepted and all(verdict.outcome is Outcome.AMBIGUOUS for verdict in accepted):
        right = "The one that is right" if len(accepted) == 1 else f"All {len(accepted)} that are right"
        why = (
            "others had the machine while they were timed"
            if any(one.disturbed for one in accepted)
            else "their times spread too far"
        )
        return f"{asked}. {right} could not be told from it: {why}. Run it again when the machine is idle."
    if settings.baseline == "eager" or not settled.retrials:
        return f"{asked}."
    return f"{asked}, and none that was judged again surely beats eager."


async def _judged(
    judge: DeviceJudge, journal: EpisodeJournal, episode: str, subject: ModuleTask, attempt: RunAttempt, file: Delivered
) -> Verdict:
    candidate = Candidate(file.text, attempt.node.candidate.language, attempt.node.id)
    key = final_key(episode, candidate.id)

    async def again() -> Judged:
        begun = time.monotonic()
        verdict = await judge.judge_async(subject.task, candidate, quick=False, own_code=attempt.node.by_rule)
        return Judged(key, episode, attempt.node.id, verdict, seconds=round(time.monotonic() - begun, 3))

    return (await journal.once(key, Judged, again)).verdict
