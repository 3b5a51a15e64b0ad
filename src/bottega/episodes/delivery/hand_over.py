"""All files of a finished run, the result last: a run that dies in between has no result, and is resumed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from bottega.core.event import Event, Summarised
from bottega.core.verdict import Verdict
from bottega.episodes.attempts import attempts_of, by_author, by_outcome, totals_of
from bottega.episodes.delivery.files import digest, encoded, json_text, strict, write
from bottega.episodes.delivery.final import Settled, missed
from bottega.episodes.delivery.html import html
from bottega.episodes.delivery.report import markdown
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
from bottega.episodes.delivery.story import Story
from bottega.episodes.settings import EpisodeSettings
from bottega.tasks.module import Subject

PROPOSED = "proposed.jsonl"


def hand_over(
    folder: Path,
    events: Sequence[Event],
    episode: str,
    subject: Subject,
    settings: EpisodeSettings,
    training: bool | None,
    settled: Settled,
    story: Story,
) -> Result:
    finding, second = settled.finding, settled.beats_eager
    for name in (
        FILE,
        OPTIMIZED,
        VERDICT,
        BEATS_EAGER,
        ITS_VERDICT,
        PROPOSED,
    ):  # of an earlier sitting: they would contradict this one
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
    cards = [
        skill for event in events if isinstance(event, Summarised) and event.episode == episode for skill in event.proposals
    ]
    if cards:
        write(folder / PROPOSED, "".join(json.dumps(strict(skill.to_json()), ensure_ascii=False) + "\n" for skill in cards))
    write(folder / "report.md", markdown(story))
    write(folder / "report.html", html(story))
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
        missed="" if finding else missed(settled, settings),
        kept=BEATS_EAGER if second and not finding else "",
        kept_claim=_claim(second.verdict) if second and not finding else {},
        node=finding.attempt.node.id if finding else "",
        author=finding.attempt.author if finding else "",
        load=story.load,
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
        ended=story.ended,
        error=story.error,
        command=story.command,
        check=story.check,
        files={name: digest(encoded(text)) for name, text in texts.items()},
    ).sealed()
    write(folder / FILE, result.text())
    return result


def _claim(verdict: Verdict) -> dict[str, Interval]:
    return {name: Interval(point=s.point, low=s.low, high=s.high) for name, s in verdict.speedup.items()}
