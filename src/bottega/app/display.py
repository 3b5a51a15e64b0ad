"""How a run is shown while it goes on: a panel on a terminal, lines elsewhere, nothing when quiet. Each kind of run says what is shown."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bottega.app.terminal import Terminal
from bottega.core.foreign_text import one_line
from bottega.episodes.attempts import clock


class RunProgress(ABC):
    """The state of a run as its events tell it."""

    stage = ""
    """What the run is doing, for the panel's title; empty where that never changes."""
    counted = "steps"
    """What `done` and `whole` count."""

    def __init__(self, waiting: str = "") -> None:
        self.waiting = waiting
        """In place of everything else until the run has begun."""
        self.done = self.whole = 0
        self.lines: deque[str] = deque(maxlen=6)
        self.notes: deque[str] = deque(maxlen=4)
        self.since = time.monotonic()
        self._times: deque[tuple[float, int]] = deque(maxlen=50)

    @abstractmethod
    def on_event(self, event: Any) -> str:
        """A line for whoever has no panel; empty when there is nothing to say."""

    @abstractmethod
    def rows(self) -> Iterable[tuple[str, Text]]:
        """What stands in the panel, by name."""

    def begin(self, whole: int, done: int) -> None:
        self.waiting, self.whole, self.since = "", whole, time.monotonic()
        self._times.clear()
        self.notes.clear()
        self.reach(done)

    def reach(self, done: int) -> None:
        self.done = done
        self._times.append((time.monotonic(), done))

    @property
    def left(self) -> str:
        """How long it will still take, with a comma before it; empty where that cannot be told."""
        if len(self._times) < 2 or self.done >= self.whole:
            return ""
        (first, begun), (last, reached) = self._times[0], self._times[-1]
        return f", {clock((last - first) / max(1, reached - begun) * (self.whole - self.done))} left"

    def render(self) -> RenderableType:
        if self.waiting:
            return Text(self.waiting, "dim")
        grid = Table.grid(padding=(0, 2))
        if self.whole:
            grid.add_row(self.counted, Text(f"{self.done} of {self.whole}{self.left}"))
            grid.add_row("", ProgressBar(total=self.whole, completed=self.done, width=60))
        for name, text in self.rows():
            grid.add_row(name, text)
        for lines, style in ((self.lines, "dim"), (self.notes, "yellow")):
            for line in lines:
                grid.add_row("", Text(line, style, overflow="ellipsis", no_wrap=True))
        return grid


class Display(AbstractContextManager["Display"]):
    """A panel that is drawn anew four times a second, so that its clock runs; or a line for each thing that is worth one; or nothing."""

    def __init__(self, progress: RunProgress, title: str, console: Console | None, panel: bool = False) -> None:
        self.progress, self.title, self.console = progress, title, console
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True) if panel else None

    def __enter__(self) -> Display:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.live is not None:
            self.live.stop()

    def on_event(self, event: Any) -> None:
        if self.console is not None:
            line = self.progress.on_event(event)
            if line and self.live is None:
                self.say(line)

    def say(self, text: str) -> None:
        if self.console is not None:
            self.console.print(text, soft_wrap=self.live is None)

    def render(self) -> RenderableType:
        title = f"{self.title}: {self.progress.stage}" if self.progress.stage else self.title
        return Panel(self.progress.render(), title=Text(one_line(title)), title_align="left")


def display_for(progress: RunProgress, title: str, quiet: bool) -> Display:
    console = Terminal(stderr=True)
    panel = console.is_terminal and not console.is_dumb_terminal
    return Display(progress, title, None if quiet else console, panel and not quiet)
