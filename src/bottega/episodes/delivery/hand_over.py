"""All files of a finished run, the result last: a run that dies in between has no result, and is resumed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from bottega.core.event import Event, RunStarted
from bottega.core.files import digest, encoded, json_text, strict, write
from bottega.core.verdict import Verdict
from bottega.episodes.attempts import attempts_of, by_author, by_outcome, totals_of
from bottega.episodes.delivery.final import FinalChoice, missed
from bottega.episodes.delivery.page import html, markdown
from bottega.episodes.delivery.report import proposals_of, report_page
from bottega.episodes.delivery.result import (
    BEATS_EAGER,
    FILE,
    ITS_VERDICT,
    OPTIMIZED,
    ORIGINAL,
    VERDICT,
    Interval,
    Module,
    Result,
)
from bottega.episodes.settings import EpisodeSettings
from bottega.tasks.module import ModuleTask

PROPOSED = "proposed.jsonl"


def hand_over(
    folder: Path,
    events: Sequence[Event],
    episode: str,
    subject: ModuleTask,
    settings: EpisodeSettings,
    training: bool | None,
    settled: FinalChoice,
    ended: str,
    error: str,
    check: str,
) -> Result:
    finding, second = settled.finding, settled.beats_eager
    for name in (
        FILE,
        OPTIMIZED,
        VERDICT,
        BEATS_EAGER,
        ITS_VERDICT,
        PROPOSED,
    ):  # of an earlier session: they would contradict this one
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    texts = {ORIGINAL: subject.original}
    if finding is not None:
        texts |= {OPTIMIZED: finding.file.text, VERDICT: json_text(finding.verdict.to_json())}
    elif second is not None:
        texts |= {BEATS_EAGER: second.file.text, ITS_VERDICT: json_text(second.verdict.to_json())}
    best = finding or second
    for name, text in texts.items():
        write(folder / name, text)
    if cards := proposals_of(events, episode):
        write(folder / PROPOSED, "".join(json.dumps(strict(skill.to_json()), ensure_ascii=False) + "\n" for skill in cards))
    page = report_page(events, episode, subject, settings, settled, ended, error, check)
    write(folder / "report.md", markdown(page))
    write(folder / "report.html", html(page))
    started = [event for event in events if isinstance(event, RunStarted)]
    totals, attempts = totals_of(events), attempts_of(events, episode)
    result = Result(
        outcome="faster" if finding else "none",
        module=Module(name=subject.task.name, **subject.wanted.to_json()),
        task_id=subject.task.id,
        device=settings.device,
        language=finding.attempt.node.candidate.language if finding else settings.language,
        precision=settings.precision,
        training=training,
        baselines=list(settings.baselines),
        claim=_claim(finding.verdict) if finding else {},
        fastest_baseline=best.verdict.fastest_baseline if best else "",
        missed="" if finding else missed(settled, settings, attempts),
        kept=BEATS_EAGER if second and not finding else "",
        kept_claim=_claim(second.verdict) if second and not finding else {},
        node=finding.attempt.node.id if finding else "",
        author=finding.attempt.author if finding else "",
        load=best.file.load if best else "load",
        refused=finding.refused if finding else "",
        guard_us=finding.guard_us if finding else 0.0,
        fingerprint=strict(finding.verdict.fingerprint) if finding else {},
        attempts=by_outcome(attempts),
        writers=by_author(attempts),
        prompt_tokens=totals.prompt_tokens,
        output_tokens=totals.output_tokens,
        estimated=totals.estimated,
        cost=totals.cost,
        seconds=round(totals.seconds, 3),
        ended=ended,
        error=error,
        command=started[-1].command if started else "",
        check=check,
        files={name: digest(encoded(text)) for name, text in texts.items()},
    ).sealed()
    write(folder / FILE, result.text())
    return result


def _claim(verdict: Verdict) -> dict[str, Interval]:
    return {name: Interval(point=s.point, low=s.low, high=s.high) for name, s in verdict.speedup.items()}
