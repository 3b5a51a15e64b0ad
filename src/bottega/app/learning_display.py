"""How a learning run is shown: a panel on a terminal, a line now and then elsewhere, nothing when quiet. What is shown is the run's own."""

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


class Progress(Protocol):
    """The state of a run as its events tell it."""

    def hear(self, event: Any) -> str:
        """A line for whoever has no panel; empty when there is nothing to say."""
        ...

    def render(self) -> RenderableType:
        """What stands inside of the panel."""
        ...


class Quiet:
    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def hear(self, event: Any) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class Plain(Quiet):
    def __init__(self, console: Console, progress: Progress) -> None:
        self.console, self.progress = console, progress

    def hear(self, event: Any) -> None:
        line = self.progress.hear(event)
        if line:
            self.say(line)

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)


class Panelled(Quiet):
    def __init__(self, console: Console, progress: Progress, title: str) -> None:
        self.progress, self.title = progress, title
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Panelled:
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.live.stop()

    def hear(self, event: Any) -> None:
        self.progress.hear(event)

    def say(self, text: str) -> None:
        self.live.console.print(text)

    def render(self) -> RenderableType:
        return Panel(self.progress.render(), title=Text(one_line(self.title)), title_align="left")


def display_for(progress: Progress, title: str, quiet: bool) -> Quiet:
    console = Terminal(stderr=True)
    if quiet:
        return Quiet()
    terminal = console.is_terminal and not console.is_dumb_terminal
    return Panelled(console, progress, title) if terminal else Plain(console, progress)


def spark(values: list[float], width: int) -> str:
    """A curve in one line of text: each letter the mean of its share of the values."""
    count = min(width, len(values))
    parts = [values[len(values) * place // count : len(values) * (place + 1) // count] for place in range(count)]
    means = [sum(part) / len(part) for part in parts]
    low, high = min(means), max(means)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((mean - low) * scale)] for mean in means)
