"""What a person sees while a model is being taught: a panel on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bottega.app.optimize_display import clock
from bottega.core.event import Checkpointed, Event, Measured
from bottega.learn.sft import Begun

SPARKS = "▁▂▃▄▅▆▇█"


class Quiet:
    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def hear(self, event: Event | Begun) -> None:
        pass

    def say(self, text: str) -> None:
        pass


class Lesson:
    """The state of a run as its events tell it."""

    def __init__(self) -> None:
        self.begun: Begun | None = None
        self.step = 0
        self.train: dict[str, float] = {}
        self.held_out: list[tuple[int, float]] = []
        self.losses: deque[float] = deque(maxlen=2000)
        self.times: deque[tuple[float, int]] = deque(maxlen=50)
        self.kept = ""
        self.notes: deque[str] = deque(maxlen=3)

    def hear(self, event: Event | Begun) -> str:
        """A line for whoever has no panel; empty when there is nothing to say."""
        if isinstance(event, Begun):
            self.begun, self.step = event, event.step
            share = f", {event.trained:,} of them trained" if event.trained < event.parameters else ""
            return f"{event.model}, {event.parameters:,} parameters{share}; {event.lessons}; {event.steps} steps, {event.step} of them done"
        if isinstance(event, Checkpointed):
            self.kept = event.folder
            return f"kept {event.folder}"
        if not isinstance(event, Measured):
            return ""
        if event.note:
            self.notes.append(f"step {event.step}: {event.note}")
        if event.key.startswith("eval/"):
            self.held_out.append((event.step, event.values.get("nll", float("nan"))))
            return f"step {event.step}: held-out loss {self.held_out[-1][1]:.4f}"
        self.step, self.train = event.step, event.values
        self.times.append((time.monotonic(), event.step))
        if "loss" in event.values:
            self.losses.append(event.values["loss"])
        every = max(1, (self.begun.steps if self.begun else 1) // 100)
        if not event.note and event.step % every and event.step > 1:
            return ""
        return f"step {event.step}: {self.figures()}" + (f" ({event.note})" if event.note else "")

    def figures(self) -> str:
        told = {"loss": "{:.4f}", "gradient": "{:.2f}", "rate": "{:.1e}", "entropy": "{:.2f}", "tokens_per_second": "{:,.0f}"}
        return "  ".join(f"{name} {form.format(self.train[name])}" for name, form in told.items() if name in self.train)

    @property
    def left(self) -> str:
        if self.begun is None or len(self.times) < 2 or self.times[-1][1] == self.times[0][1]:
            return ""
        each = (self.times[-1][0] - self.times[0][0]) / (self.times[-1][1] - self.times[0][1])
        return clock(each * (self.begun.steps - self.step))


class Plain(Quiet):
    def __init__(self, console: Console) -> None:
        self.console, self.lesson = console, Lesson()

    def hear(self, event: Event | Begun) -> None:
        line = self.lesson.hear(event)
        if line:
            self.say(line)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class Panelled(Quiet):
    def __init__(self, console: Console, title: str) -> None:
        self.title, self.lesson = title, Lesson()
        self.live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def __enter__(self) -> Panelled:
        self.live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.live.stop()

    def hear(self, event: Event | Begun) -> None:
        self.lesson.hear(event)

    def say(self, text: str) -> None:
        self.live.console.print(text, markup=False, highlight=False)

    def render(self) -> RenderableType:
        lesson, grid = self.lesson, Table.grid(padding=(0, 2))
        if lesson.begun is None:
            return Panel(Text("reading the model and the rows", "dim"), title=self.title, title_align="left")
        left = f", {lesson.left} left" if lesson.left else ""
        grid.add_row("steps", Text(f"{lesson.step} of {lesson.begun.steps}{left}"))
        grid.add_row("", ProgressBar(total=lesson.begun.steps, completed=lesson.step, width=60))
        grid.add_row("now", Text(lesson.figures() or "the first step"))
        if lesson.losses:
            grid.add_row("loss", Text(spark(list(lesson.losses), 60), "green"))
        if lesson.held_out:
            told = ", ".join(f"{loss:.4f} at {step}" for step, loss in lesson.held_out[-4:])
            grid.add_row("held out", Text(told))
        grid.add_row("data", Text(str(lesson.begun.lessons), "dim"))
        for note in lesson.notes:
            grid.add_row("", Text(note, "yellow"))
        return Panel(grid, title=self.title, title_align="left")


def spark(values: list[float], width: int) -> str:
    """A curve in one line of text: each letter the mean of its share of the values."""
    count = min(width, len(values))
    parts = [values[len(values) * place // count : len(values) * (place + 1) // count] for place in range(count)]
    means = [sum(part) / len(part) for part in parts]
    low, high = min(means), max(means)
    scale = (len(SPARKS) - 1) / (high - low) if high > low else 0.0
    return "".join(SPARKS[round((mean - low) * scale)] for mean in means)


def display_for(title: str, quiet: bool) -> Quiet:
    console = Console(stderr=True)
    if quiet:
        return Quiet()
    return Panelled(console, title) if console.is_terminal and not console.is_dumb_terminal else Plain(console)
