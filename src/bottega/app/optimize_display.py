"""What a user sees while a search runs. It hears the run's events and nothing else: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from bottega.app.terminal import Terminal
from bottega.core.event import Drafted, EpisodeEnded, Event, Judged, RunStarted, Selected, Summarised, Wrote
from bottega.core.foreign_text import one_line
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.attempts import NO_KERNEL, THE_MODEL, is_final, spread, turn_of
from bottega.episodes.budget import BudgetCaps

LINES = 6
SEARCHING = "searching"


class Display(Protocol):
    def __enter__(self) -> Display: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def hear(self, event: Event) -> None: ...

    def say(self, text: str) -> None: ...


class Progress:
    """A run so far, as its events tell it."""

    def __init__(self, caps: BudgetCaps, baseline: str) -> None:
        self.caps, self.baseline = caps, baseline
        self.outcomes: Counter[str] = Counter()
        self.kernels = self.tokens = 0
        self.money = 0.0
        self.best, self.best_low = "", 0.0
        self.authors: dict[str, str] = {}
        """Of drafts; everything else is the model's."""
        self.waiting: set[str] = set()
        """Kernels that were written and have no verdict yet."""
        self.stage = "bringing the module up"
        self.earlier, self.begun, self.last = 0.0, time.time(), 0.0
        self.lines: list[str] = []

    def hear(self, event: Event) -> str:
        """Take an event in; what it says in one line, if it is worth one."""
        turn = turn_of(event)
        if turn is not None:
            self.tokens += turn.prompt_tokens + turn.output_tokens
            self.money += turn.cost
        line = self._line(event)
        if line:
            self.lines = [*self.lines, line][-LINES:]
        self.last = event.at
        return line

    def _line(self, event: Event) -> str:
        if isinstance(event, RunStarted):
            self.earlier += max(0.0, self.last - self.begun) if self.last else 0.0
            self.begun, self.stage = event.at or time.time(), SEARCHING
            problems = [f"{row['name']}: {row['detail']}" for row in event.fingerprint.get("problems", [])]
            return f"about the module: {'; '.join(problems)}" if problems else ""
        if isinstance(event, Drafted):
            return event.told
        if isinstance(event, Selected) and event.names:
            return f"skills for scheme {event.scheme}: {', '.join(event.names)}"
        if isinstance(event, Wrote):
            self.kernels += 1
            if event.turn.fault:
                self.outcomes[NO_KERNEL] += 1
                return f"{self.kernels:3}  {event.node}  no kernel: {' '.join(event.turn.fault.split())[:100]}"
            self.waiting.add(event.node)
            if event.author:
                self.authors[event.node] = event.author
        if isinstance(event, Judged):
            return self._judged(event)
        if isinstance(event, Summarised) and event.proposals:
            return f"proposed: {', '.join(skill.name for skill in event.proposals)}"
        if isinstance(event, EpisodeEnded):
            self.stage = "judging the best again, in full"
            return f"search ended: {event.ended}"
        return ""

    def _judged(self, event: Judged) -> str:
        told, author = self._against(event.verdict), self.authors.get(event.node, THE_MODEL)
        if is_final(event):
            return f"judged again: {event.node}  {event.verdict.outcome} {told}".rstrip() + f"  by {author}"
        self.waiting.discard(event.node)
        self.outcomes[event.verdict.outcome.value] += 1
        speedup = event.verdict.speedup.get(self.baseline)
        if event.verdict.outcome is Outcome.FASTER and speedup is not None and speedup.low > max(1.0, self.best_low):
            self.best, self.best_low = f"{told} ({event.node} by {author})", speedup.low
        return f"{self.kernels:3}  {event.node}  {event.verdict.outcome} {told}".rstrip() + f"  by {author}"

    def _against(self, verdict: Verdict) -> str:
        """The speedup with what it is against: what the outcome speaks of, and eager beside it where that is another."""
        names = dict.fromkeys((self.baseline, verdict.baseline or self.baseline, "eager"))
        return ", ".join(f"{text} against {name}" for name in names if (text := spread(verdict, name)))

    @property
    def seconds(self) -> float:
        return self.earlier + max(0.0, time.time() - self.begun)

    def spending(self) -> list[tuple[str, str]]:
        """What is spent, and of how much."""
        caps = self.caps
        rows = [("kernels", f"{self.kernels}{f' of {caps.kernels}' if caps.kernels else ''}")]
        rows += [("tokens", f"{self.tokens:,}{f' of {caps.tokens:,}' if caps.tokens else ''}")]
        if self.money or caps.money:
            rows += [("cost", f"{self.money:.4f}{f' of {caps.money:g}' if caps.money else ''}")]
        left = f", {clock(max(0.0, caps.seconds - self.seconds))} left" if caps.seconds else ""
        return [*rows, ("time", f"{clock(self.seconds)}{left}")]


class Quiet:
    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def hear(self, event: Event) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class Plain(Quiet):
    """A line for each thing that happened, with the best so far behind verdicts."""

    def __init__(self, progress: Progress, console: Console) -> None:
        self.progress, self.console = progress, console

    def hear(self, event: Event) -> None:
        line = self.progress.hear(event)
        if line:
            best = f"  | best {self.progress.best or 'none yet'}" if isinstance(event, Judged) and not is_final(event) else ""
            self.say(line + best)

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)


class Panelled(Quiet):
    """A panel that redraws itself four times a second, so that its clock runs."""

    def __init__(self, progress: Progress, console: Console, title: str) -> None:
        self.progress, self.title = progress, title
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Panelled:
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.live.stop()

    def hear(self, event: Event) -> None:
        self.progress.hear(event)

    def say(self, text: str) -> None:
        self.live.console.print(text)

    def render(self) -> RenderableType:
        progress = self.progress
        grid = Table.grid(padding=(0, 2))
        grid.add_row("best", Text(progress.best or "none yet", "bold green" if progress.best else "dim"))
        if progress.stage == SEARCHING:
            now = (
                f"judging: {len(progress.waiting)} kernels" if progress.waiting else "drawing: the model is asked for a kernel"
            )
            grid.add_row("now", Text(now))
        counts = ", ".join(f"{count} {outcome}" for outcome, count in progress.outcomes.most_common()) or "none yet"
        grid.add_row("attempts", Text(counts))
        for name, value in progress.spending():
            grid.add_row(name, Text(value))
        for line in progress.lines:
            grid.add_row("", Text(line, "dim", overflow="ellipsis", no_wrap=True))
        return Panel(grid, title=Text(one_line(f"{self.title}: {progress.stage}")), title_align="left")


def display_for(caps: BudgetCaps, baseline: str, title: str, quiet: bool) -> Display:
    console = Terminal(stderr=True)
    if quiet:
        return Quiet()
    progress = Progress(caps, baseline)
    return (
        Panelled(progress, console, title) if console.is_terminal and not console.is_dumb_terminal else Plain(progress, console)
    )


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
