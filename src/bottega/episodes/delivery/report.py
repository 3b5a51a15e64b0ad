"""The report of a finished search: what was found, against what, and every attempt on the way, as a page."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bottega.core.event import Drafted, Event, RunStarted, Summarised
from bottega.core.foreign_text import html_text
from bottega.core.skill import Skill
from bottega.core.verdict import BEST, Verdict
from bottega.episodes.attempts import THE_MODEL, RunAttempt, attempts_of, by_outcome, schemes_of, spread, totals_of
from bottega.episodes.delivery.final import FinalChoice, FinalKernel, missed
from bottega.episodes.delivery.page import Block, Code, Drawings, Items, PageSection, Paragraph, ReportPage, ReportTable
from bottega.episodes.delivery.result import BEATS_EAGER
from bottega.episodes.delivery.search_report import search_blocks
from bottega.episodes.settings import EpisodeSettings
from bottega.tasks.module import ModuleTask

MOST_LINES, MOST_LETTERS = 400, 24_000
"""Of one diff; the log has all of it."""
LEFT_OUT = ("facts", "problems", "unavailable")
"""Of a fingerprint, what is no fact about the machine."""


def report_page(
    events: Sequence[Event],
    episode: str,
    subject: ModuleTask,
    settings: EpisodeSettings,
    settled: FinalChoice,
    ended: str,
    error: str,
    check: str,
) -> ReportPage:
    attempts, baseline, finding = attempts_of(events, episode), settings.baseline, settled.finding
    started = [event for event in events if isinstance(event, RunStarted)]
    names = {number: event.names for number, event in schemes_of(events, episode).items()}
    sources = {attempt.node.id: attempt.node.turn.source for attempt in attempts}
    best = finding.attempt.node.id if finding else ""
    folds = [_attempt(attempt, sources, names, baseline, best) for attempt in attempts]
    chart = AttemptChart(tuple(attempts), baseline, best)
    path: list[Block] = [Drawings("", [chart] if len(chart.timed) > 1 else [])]
    path += [_table(attempts, baseline), *folds] if attempts else [Paragraph("No attempt was made.")]
    blocks: list[Block] = (
        [PageSection("Use it", _use(finding)), PageSection("Check it again", [Code(check, "sh")])] if finding else []
    )
    blocks.append(PageSection("The path there", path))
    blocks += search_blocks(events, episode, settings)
    if settled.retrials:
        rows = [(retrial.attempt.node.id, retrial.why) for retrial in settled.retrials]
        blocks.append(Items("Looked faster, and was not handed over", rows))
    if cards := proposals_of(events, episode):
        where = Paragraph("They are in proposed.jsonl; `bottega skills import` takes them into a library.")
        blocks += [Items("Skills that were proposed", [(skill.name, skill.intent) for skill in cards]), where]
    prints = finding.verdict.fingerprint if finding else (started[-1].fingerprint if started else {})
    blocks.append(Items("Where", [(name, _shown(value)) for name, value in prints.items() if name not in LEFT_OUT and value]))
    blocks += [Code(started[-1].command, "sh")] if started and started[-1].command else []
    return ReportPage(
        title=f"{subject.title}: {_headline(settled, baseline)}",
        facts=_facts(events, episode, finding, started, attempts, ended, error),
        headlines=_headlines(settled, settings, attempts),
        blocks=blocks,
    )


def proposals_of(events: Sequence[Event], episode: str) -> list[Skill]:
    found = [event for event in events if isinstance(event, Summarised) and event.episode == episode]
    return [skill for event in found for skill in event.proposals]


def _headline(settled: FinalChoice, baseline: str) -> str:
    """What was found, and against what."""
    if settled.finding:
        return f"a kernel that beats {baseline}"
    return f"no kernel is known to beat {baseline}" + ("; one beats eager" if settled.beats_eager else "")


def _headlines(settled: FinalChoice, settings: EpisodeSettings, attempts: Sequence[RunAttempt]) -> list[Paragraph]:
    if settled.finding:
        told = _speeds(settled.finding.verdict)
        return [Paragraph(f"against {name}, with its 99 % interval", strong=text) for name, text in told]
    kept = _speeds(settled.beats_eager.verdict) if settled.beats_eager else []
    lines = [Paragraph(f"{BEATS_EAGER}: {text} against {name}, with its 99 % interval") for name, text in kept]
    return [Paragraph("", strong=missed(settled, settings, attempts)), *lines]


def _speeds(verdict: Verdict) -> list[tuple[str, str]]:
    """By baseline, as a reader is told: what the best is here stands beside it."""
    shown = {name: f"{name} ({verdict.fastest_baseline})" if name == BEST else name for name in verdict.speedup}
    return [(shown[name], spread(verdict, name)) for name in verdict.speedup]


def _facts(
    events: Sequence[Event],
    episode: str,
    finding: FinalKernel | None,
    started: Sequence[RunStarted],
    attempts: Sequence[RunAttempt],
    ended: str,
    error: str,
) -> list[tuple[str, str]]:
    totals, rows = totals_of(events), list[tuple[str, str]]()
    if finding:
        backbone = str(started[-1].settings.get("backbone", "")) if started else ""
        rows += [("written by", in_words(finding.attempt.node.author, backbone))]
        rows += [(f"{name} time", f"{ms:.4g} ms") for name, ms in finding.verdict.times_ms.items()]
    rows += [("ended", ended), *([("stopped by an error", error)] if error else [])]
    rows += [("attempts", ", ".join(f"{count} {outcome}" for outcome, count in by_outcome(attempts).items()) or "none")]
    rows += [("drafts", event.text) for event in events if isinstance(event, Drafted) and event.episode == episode][:1]
    rows += [("tokens", totals.text), *([("cost", f"{totals.cost:.4f}")] if totals.cost else [])]
    rows += [("time", f"{totals.seconds:.0f} s")]
    problems = started[0].fingerprint.get("problems", []) if started else []
    rows += [("about the module", f"{row['name']}: {row['detail']}") for row in problems]
    return rows + [("note", note) for note in (finding.verdict.notes if finding else ())]


def in_words(author: str, backbone: str) -> str:
    """An empty author is the run's model."""
    return f"{author}, by rule and not by a model" if author else f"{THE_MODEL} ({backbone})" if backbone else THE_MODEL


def _use(finding: FinalKernel) -> list[Block]:
    load = finding.file.load
    if finding.refused:
        return [Paragraph(f"{load}(original) refuses: {finding.refused}")]
    told = (
        f"Looking at the arguments adds about {finding.guard_us:.0f} µs to each call; the measurement is of the kernel alone."
    )
    return [Code(f"import optimized\n\nmodule = optimized.{load}(original)", "python"), Paragraph(told)]


def _table(attempts: Sequence[RunAttempt], baseline: str) -> ReportTable:
    rows, priced = list[tuple[str, ...]](), any(turn.cost for attempt in attempts for turn in attempt.turns)
    for attempt in attempts:
        node, speed = attempt.node, spread(attempt.node.verdict, baseline)
        tokens = sum(turn.prompt_tokens + turn.output_tokens for turn in attempt.turns)
        seconds = f"{attempt.writing_s + attempt.judging_s + attempt.beside_s:.1f}"
        row = (str(attempt.number), node.id, attempt.author, node.parent or "", attempt.outcome, speed, str(tokens), seconds)
        rows.append((*row, f"{sum(turn.cost for turn in attempt.turns):.4f}") if priced else row)
    columns = ("#", "kernel", "by", "from", "outcome", f"against {baseline}", "tokens", "s", *(["cost"] if priced else []))
    told = "Tokens, seconds and cost with what was asked to come to the kernel: skills, advice, plans, steps."
    return ReportTable("", columns, rows, told if any(attempt.beside for attempt in attempts) else "")


def _attempt(
    attempt: RunAttempt, sources: dict[str, str], names: dict[int, tuple[str, ...]], baseline: str, best: str
) -> PageSection:
    node, turn = attempt.node, attempt.node.turn
    before = sources.get(node.parent or "", "")
    told = turn.fault or (node.verdict.diagnosis if node.verdict else "")
    if attempt.same_as:
        told = f"The same text as {attempt.same_as}; it was not judged twice. {told}"
    skills = ", ".join(names.get(node.scheme, ()))
    blocks: list[Block] = [Paragraph(f"skills: {skills}")] if skills else []
    blocks += [Paragraph(turn.summary)] if turn.summary else []
    blocks += [Code(told)] if told else []
    if before:
        blocks.append(Code(cut(diff(before, turn.source, node.parent or "", node.id)), "diff"))
    elif turn.source:
        blocks.append(Code(cut(turn.source), "python"))
    title = f"{attempt.number}. {node.id} by {attempt.author}: {attempt.outcome} {spread(node.verdict, baseline)}".rstrip()
    return PageSection(title, blocks, folded=True, open=node.id == best)


def diff(before: str, after: str, old: str, new: str) -> str:
    return (
        "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), old, new, lineterm="", n=2))
        or "(the same text)"
    )


def cut(text: str) -> str:
    lines = text[:MOST_LETTERS].splitlines()
    if len(lines) > MOST_LINES or len(text) > MOST_LETTERS:
        lines = [*lines[:MOST_LINES], "… (cut here; events.jsonl has all of it)"]
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return ", ".join(f"{name} {item}" for name, item in value.items()) if isinstance(value, dict) else str(value)


@dataclass(frozen=True)
class AttemptChart:
    """Speedups of the attempts that were timed, in order, on a logarithmic scale with a line at 1. Drawn here: matplotlib may be missing."""

    attempts: tuple[RunAttempt, ...]
    baseline: str
    best: str
    title: str = "speedup of each attempt"

    @property
    def caption(self) -> str:
        return f"Speedup of each attempt against {self.baseline}, in order."

    @property
    def timed(self) -> list[tuple[int, float, bool]]:
        found = [(attempt, attempt.node.speedup(self.baseline)) for attempt in self.attempts]
        return [(one.number, speed.point, one.node.id == self.best) for one, speed in found if speed and speed.point > 0]

    def curves(self) -> list[Sequence[str]]:
        return []

    def svg(self, number: int) -> str:
        logs = [math.log(point) for _, point, _ in self.timed]
        low, high, last = min(*logs, -0.05), max(*logs, 0.05), max(len(self.attempts), 2)

        def place(attempt: int, value: float) -> tuple[float, float]:
            return 20 + 560 * (attempt - 1) / (last - 1), 130 - 110 * (value - low) / (high - low)

        level, dots = place(1, 0)[1], []
        for (attempt, point, best), value in zip(self.timed, logs):
            x, y = place(attempt, value)
            look = 'r="6" fill="#1a7f37"' if best else 'r="4" fill="#444"'
            dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" {look}><title>{attempt}: {point:.2f}×</title></circle>')
        text = f'<text x="20" y="{level - 4:.1f}" font-size="11">1× {html_text(self.baseline)}</text>'
        line = f'<line x1="20" x2="580" y1="{level:.1f}" y2="{level:.1f}" stroke="#444" stroke-dasharray="4 4"/>'
        return f'<svg viewBox="0 0 600 150" role="img" aria-label="{self.title}">{line}{text}{"".join(dots)}</svg>'
