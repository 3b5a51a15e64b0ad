"""A finished run as a report tells it: plain values, cleaned and cut to a readable length. Markdown and HTML are made of the same content."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bottega.core.event import Drafted, Event, RunStarted, Summarised
from bottega.core.foreign_text import printable
from bottega.core.verdict import BEST, Verdict
from bottega.episodes.attempts import THE_MODEL, RunAttempt, Totals, attempts_of, by_outcome, schemes_of, spread, totals_of
from bottega.episodes.delivery.final import FinalChoice, missed
from bottega.episodes.settings import EpisodeSettings
from bottega.tasks.module import ModuleTask

MOST_LINES, MOST_LETTERS = 400, 24_000
"""Of one diff; the log has all of it."""


@dataclass(frozen=True)
class ReportAttempt:
    """One attempt."""

    number: int
    node: str
    author: str
    """Who wrote it: the model, or who drew a draft."""
    parent: str
    outcome: str
    speedup: str
    point: float | None
    best: bool
    summary: str
    diagnosis: str
    skills: tuple[str, ...]
    changed: str
    """A unified diff to the parent's kernel, or the whole kernel where there is no parent."""
    is_diff: bool
    tokens: int
    seconds: float


@dataclass(frozen=True)
class ReportContent:
    title: str
    found: bool
    baseline: str
    verdict: Verdict | None
    speedups: tuple[tuple[str, str], ...]
    """By baseline: `eager`, "3.10× (2.98 to 3.21)"."""
    missed: str
    """What was asked for and not found; empty where it was."""
    kept: tuple[tuple[str, str], ...]
    """Speedups of the kernel that beats eager only, where one is kept."""
    author: str
    """Who wrote the kernel that is handed over, in words."""
    drafting: str
    """What came of asking for drafts, in a line; empty where nobody was asked."""
    refused: str
    """Why the kernel cannot share the original's parameters; empty when it can."""
    load: str
    guard_us: float
    attempts: tuple[ReportAttempt, ...]
    outcomes: dict[str, int]
    retrials: tuple[tuple[str, str], ...]
    proposals: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]
    """What speaks against the module as a task."""
    totals: Totals
    ended: str
    error: str
    fingerprint: tuple[tuple[str, str], ...]
    command: str
    check: str


def report_content(
    events: Sequence[Event],
    episode: str,
    subject: ModuleTask,
    settings: EpisodeSettings,
    settled: FinalChoice,
    ended: str,
    error: str,
    check: str,
) -> ReportContent:
    attempts = attempts_of(events, episode)
    started = [event for event in events if isinstance(event, RunStarted)]
    finding = settled.finding
    best_file = finding or settled.beats_eager
    verdict = finding.verdict if finding else None
    names = {number: event.names for number, event in schemes_of(events, episode).items()}
    sources = {attempt.node.id: attempt.node.turn.source for attempt in attempts}
    best = finding.attempt.node.id if finding else ""
    proposals = [
        skill for event in events if isinstance(event, Summarised) and event.episode == episode for skill in event.proposals
    ]
    prints = verdict.fingerprint if verdict else (started[-1].fingerprint if started else {})
    return ReportContent(
        title=clean(subject.title),
        found=finding is not None,
        baseline=settings.baseline,
        verdict=verdict,
        speedups=_speeds(verdict) if verdict else (),
        missed="" if finding else missed(settled, settings),
        kept=_speeds(settled.beats_eager.verdict) if settled.beats_eager else (),
        author=clean(in_words(finding.attempt.node.author, _backbone(started))) if finding else "",
        drafting=clean(drafting_of(events, episode)),
        refused=clean(finding.refused) if finding else "",
        load=best_file.file.load if best_file else "load",
        guard_us=finding.guard_us if finding else 0.0,
        attempts=tuple(_attempt(attempt, sources, names, settings.baseline, best) for attempt in attempts),
        outcomes=by_outcome(attempts),
        retrials=tuple((retrial.attempt.node.id, clean(retrial.why)) for retrial in settled.retrials),
        proposals=tuple((skill.name, clean(skill.intent)) for skill in proposals),
        problems=tuple(
            clean(f"{row['name']}: {row['detail']}") for row in (started[0].fingerprint.get("problems", []) if started else [])
        ),
        totals=totals_of(events),
        ended=clean(ended),
        error=clean(error),
        fingerprint=tuple(
            (name, clean(_shown(value)))
            for name, value in prints.items()
            if name not in ("facts", "problems", "unavailable") and value
        ),
        command=clean(started[-1].command if started else ""),
        check=check,
    )


def _speeds(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """By baseline, as a reader is told: what the best is here stands beside it."""
    shown = {name: f"{name} ({verdict.fastest_baseline})" if name == BEST else name for name in verdict.speedup}
    return tuple((shown[name], spread(verdict, name)) for name in verdict.speedup)


def in_words(author: str, backbone: str) -> str:
    """An empty author is the run's model."""
    return f"{author}, by rule and not by a model" if author else f"{THE_MODEL} ({backbone})" if backbone else THE_MODEL


def drafting_of(events: Sequence[Event], episode: str) -> str:
    drafted = [event for event in events if isinstance(event, Drafted) and event.episode == episode]
    return drafted[0].text if drafted else ""


def _backbone(started: Sequence[RunStarted]) -> str:
    return str(started[-1].settings.get("backbone", "")) if started else ""


def clean(text: str) -> str:
    """Foreign text that a reader can trust to be what it looks like: no control or direction marks."""
    return printable(text.replace("\r\n", "\n"))


def _attempt(
    attempt: RunAttempt, sources: dict[str, str], names: dict[int, tuple[str, ...]], baseline: str, best: str
) -> ReportAttempt:
    node, turn = attempt.node, attempt.node.turn
    parent = node.parent or ""
    before = sources.get(parent, "")
    speedup = node.speedup(baseline)
    told = turn.fault or (node.verdict.diagnosis if node.verdict else "")
    if attempt.same_as:
        told = f"The same text as {attempt.same_as}; it was not judged twice. {told}"
    return ReportAttempt(
        number=attempt.number,
        node=node.id,
        author=clean(attempt.author),
        parent=parent,
        outcome=attempt.outcome,
        speedup=spread(node.verdict, baseline),
        point=speedup.point if speedup else None,
        best=node.id == best,
        summary=clean(turn.summary),
        diagnosis=clean(told),
        skills=names.get(node.scheme, ()),
        changed=cut(diff(before, turn.source, parent, node.id) if before else clean(turn.source)),
        is_diff=bool(before),
        tokens=turn.prompt_tokens + turn.output_tokens,
        seconds=attempt.writing_s + attempt.judging_s,
    )


def diff(before: str, after: str, old: str, new: str) -> str:
    lines = difflib.unified_diff(clean(before).splitlines(), clean(after).splitlines(), old, new, lineterm="", n=2)
    return "\n".join(lines) or "(the same text)"


def cut(text: str) -> str:
    lines = text[:MOST_LETTERS].splitlines()
    if len(lines) > MOST_LINES or len(text) > MOST_LETTERS:
        lines = [*lines[:MOST_LINES], "… (cut here; events.jsonl has all of it)"]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return str(value)
