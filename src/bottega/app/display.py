"""How a run is shown while it goes on: a panel on a terminal, lines elsewhere, nothing when quiet. Each kind of run says what is shown."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from bottega.app.terminal import Terminal
from bottega.core.foreign_text import one_line

SPARKS = "▁▂▃▄▅▆▇█"


class RunProgress(Protocol):
    """The state of a run as its events tell it."""

    stage: str
    """What the run is doing, for the panel's title; empty where that never changes."""

    def hear(self, event: Any) -> str:
        """A line for whoever has no panel; empty when there is nothing to say."""
        ...

    def render(self) -> RenderableType:
        """What stands inside of the panel."""
        ...


class Display:
    """Shows nothing."""

    def __enter__(self) -> Display:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def hear(self, event: Any) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class LineDisplay(Display):
    """A line for each thing that is worth one."""

    def __init__(self, console: Console, progress: RunProgress) -> None:
        self.console, self.progress = console, progress

    def hear(self, event: Any) -> None:
        line = self.progress.hear(event)
        if line:
            self.say(line)

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)


class PanelDisplay(Display):
    """A panel that is drawn anew four times a second, so that its clock runs."""

    def __init__(self, console: Console, progress: RunProgress, title: str) -> None:
        self.progress, self.title = progress, title
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def __enter__(self) -> PanelDisplay:
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.live.stop()

    def hear(self, event: Any) -> None:
        self.progress.hear(event)

    def say(self, text: str) -> None:
        self.live.console.print(text)

    def render(self) -> RenderableType:
        title = f"{self.title}: {self.progress.stage}" if self.progress.stage else self.title
        return Panel(self.progress.render(), title=Text(one_line(title)), title_align="left")


def display_for(progress: RunProgress, title: str, quiet: bool) -> Display:
    console = Terminal(stderr=True)
    if quiet:
        return Display()
    terminal = console.is_terminal and not console.is_dumb_terminal
    return PanelDisplay(console, progress, title) if terminal else LineDisplay(console, progress)


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def spark(values: list[float], width: int) -> str:
    """A curve in one line of text: each letter the mean of its share of the values."""
    count = min(width, len(values))
    parts = [values[len(values) * place // count : len(values) * (place + 1) // count] for place in range(count)]
    means = [sum(part) / len(part) for part in parts]
    low, high = min(means), max(means)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((mean - low) * scale)] for mean in means)
