"""What a person sees of a benchmark: how far it is while it runs, its figures when it is over, and whether a record holds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from bottega.app.display import RunProgress
from bottega.app.page_display import print_page
from bottega.app.terminal import Terminal
from bottega.bench.attempt import BenchAttempt
from bottega.bench.figures import counted
from bottega.bench.report import short_page
from bottega.bench.runner import BenchStarted, SampleFailed, SampleKept
from bottega.bench.session import BenchFinished
from bottega.bench.task_set import NO_CANDIDATE
from bottega.bench.verify import Checked, Verification
from bottega.core.foreign_text import one_line
from bottega.core.verdict import interval_text
from bottega.episodes.attempts import clock
from bottega.episodes.phases import PhaseStatus

NO_KERNEL = "no kernel"
COLOURS = {"holds": "bold green", "does not hold": "bold red"}


class BenchProgress(RunProgress):
    counted = "samples"

    def __init__(self, baseline: str) -> None:
        super().__init__("reading the tasks and the model")
        self.baseline = baseline
        self.begun: BenchStarted | None = None
        self.outcomes: Counter[str] = Counter()
        self.tokens = 0
        self.money = 0.0

    def on_event(self, event: BenchStarted | SampleKept | SampleFailed | PhaseStatus) -> str:
        if isinstance(event, BenchStarted):
            self.begun = event
            self.begin(event.samples, event.done)
            earlier = f", {event.done} of them done" if event.done else ""
            sizes = ((event.tasks, "task"), (event.samples, "sample"))
            told_sizes = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in sizes)
            return f"{told_sizes}{earlier}, on {', '.join(event.devices)}"
        if isinstance(event, PhaseStatus):
            return event.text
        if isinstance(event, SampleFailed):
            self.notes.append(event.text)
            return f"! {event.text}"
        self.reach(self.done + 1)
        for attempt in event.attempts:
            self.outcomes[NO_KERNEL if attempt.verdict is None else attempt.verdict.outcome.value] += 1
            self.tokens += attempt.prompt_tokens + attempt.output_tokens
            self.money += attempt.money
        first = event.attempts[0]
        line = f"{event.task.name} #{first.sample}: {', '.join(attempt_text(attempt, self.baseline) for attempt in event.attempts)}"
        self.lines.append(line)
        return f"[{self.done}/{self.whole}{self.left}] {line}"

    def rows(self) -> Iterator[tuple[str, Text]]:
        assert self.begun is not None
        if now := self.begun.phases.now.text:
            yield "now", Text(now)
        yield "outcomes", Text(counted(self.outcomes.most_common()))
        if self.tokens:
            yield "tokens", Text(f"{self.tokens:,}{f', {self.money:.4f} spent' if self.money else ''}")
        yield "time", Text(f"{clock(time.monotonic() - self.since)} on {', '.join(self.begun.devices)}")


def attempt_text(attempt: BenchAttempt, baseline: str) -> str:
    if attempt.verdict is None:
        return one_line(attempt.junk, 120) if attempt.author == "compiler" else NO_KERNEL
    speedup = attempt.verdict.speedup.get(baseline)
    broken = ", ".join(violation.name for violation in attempt.verdict.violations[:2])
    told = attempt.verdict.outcome.value + (
        f" {speedup.point:.2f}×" if speedup is not None else f": {broken}" if broken else ""
    )
    return f"draft {told}" if attempt.author == "compiler" else told


def show(finished: BenchFinished) -> None:
    print_page(short_page(finished.run))
    console = Terminal()
    trouble = Counter(task.trouble for task in finished.run.tasks if task.trouble and task.trouble != NO_CANDIDATE)
    for why, count in trouble.most_common(5):
        _say(console, f"{count} {'task is' if count == 1 else 'tasks are'} not done: {why}", "yellow")
    if finished.unmatched:
        count = len(finished.unmatched)
        _say(
            console,
            f"{count} {'file was not judged:' if count == 1 else 'files were not judged, the first is'} {finished.unmatched[0]}",
            "yellow",
        )
    folder = finished.run.folder
    if finished.record is not None:
        _say(console, f"{finished.record} is the record; check it with: bottega bench --verify {finished.record}")
    else:
        _say(console, f"{finished.ended or 'not all was done'}; the same command with --out {folder} goes on", "bold yellow")
    _say(console, f"bottega report {folder} tells more; bottega compare {folder} OTHER compares it")


def checked_line(one: Checked) -> str:
    word = {True: "holds", False: "does not hold", None: "not compared"}[one.holds]
    return f"{one.task}, {one.candidate}: {word}: {one.then} then, {one.now} now{f' ({one.why})' if one.why else ''}"


def show_verification(found: Verification) -> None:
    console = Terminal()
    for one in found.checked:
        for name, then, now in one.intervals:
            line = f"  {one.task}, against {name}: {interval_text(then.low, then.high, 3)} then, {interval_text(now.low, now.high, 3)} now"
            _say(console, line)
    _say(console, f"{len(found.checked)} of {found.kernels} kernels were judged again, chosen with seed={found.seed}")
    for reason in found.reasons:
        _say(console, f"! {reason}", "red")
    console.print(found.conclusion, style=COLOURS.get(found.conclusion, "bold yellow"))


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(text, style=style, soft_wrap=True)
