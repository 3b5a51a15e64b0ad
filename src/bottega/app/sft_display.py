"""What a person sees while a model is being taught: its steps, its loss, the held-out loss."""

from __future__ import annotations

import time
from collections import deque

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bottega.app.learning_display import spark
from bottega.app.optimize_display import clock
from bottega.core.event import Checkpointed, Event, Measured
from bottega.train.sft import Begun


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
            for past in event.past:
                self.hear(past)
            self.times.clear()
            self.notes.clear()
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
        if self.begun is None or self.step == self.begun.steps or len(self.times) < 2 or self.times[-1][1] == self.times[0][1]:
            return ""
        each = (self.times[-1][0] - self.times[0][0]) / (self.times[-1][1] - self.times[0][1])
        return clock(each * (self.begun.steps - self.step))

    def render(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        if self.begun is None:
            return Text("reading the model and the rows", "dim")
        left = f", {self.left} left" if self.left else ""
        grid.add_row("steps", Text(f"{self.step} of {self.begun.steps}{left}"))
        grid.add_row("", ProgressBar(total=self.begun.steps, completed=self.step, width=60))
        grid.add_row("now", Text(self.figures() or "the first step"))
        if self.losses:
            grid.add_row("loss", Text(spark(list(self.losses), 60), "green"))
        if self.held_out:
            told = ", ".join(f"{loss:.4f} at {step}" for step, loss in self.held_out[-4:])
            grid.add_row("held out", Text(told))
        grid.add_row("data", Text(str(self.begun.lessons), "dim"))
        for note in self.notes:
            grid.add_row("", Text(note, "yellow"))
        return grid
