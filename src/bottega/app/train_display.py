"""What a person sees while the backbone learns by reinforcement: rewards, outcomes, cards, and who is busy."""

from __future__ import annotations

import time
from collections import Counter, deque

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bottega.app.learning_display import spark
from bottega.app.optimize_display import clock
from bottega.core.event import Event, Judged, Measured, Selected, Summarised, Wrote
from bottega.learn.rl import Begun

CURVES = ("reward", "correct", "fast_1.2", "select/reward", "summarise/reward", "entropy")
FIGURES = {
    "reward": "{:.3f}", "correct": "{:.0%}", "fast_1.2": "{:.0%}", "select/reward": "{:.3f}", "summarise/reward": "{:.3f}",
    "entropy": "{:.2f}", "mismatch": "{:.4f}", "tokens_per_second": "{:,.0f}", "seconds/step": "{:.0f} s",
}  # fmt: skip


class Training:
    """The state of a run as its events tell it."""

    def __init__(self) -> None:
        self.begun: Begun | None = None
        self.step = 0
        self.values: dict[str, float] = {}
        self.curves: dict[str, deque[float]] = {name: deque(maxlen=2000) for name in CURVES}
        self.now: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.cards = Counter[str]()
        self.notes: deque[str] = deque(maxlen=4)
        self.times: deque[tuple[float, int]] = deque(maxlen=20)

    def hear(self, event: Event | Begun) -> str:
        """A line for whoever has no panel; empty when there is nothing to say."""
        if isinstance(event, Begun):
            self.begun, self.step = event, event.step
            share = f", {event.trained:,} of them trained" if event.trained < event.parameters else ""
            unfit = f" ({len(event.problems)} more cannot be used)" if event.problems else ""
            return (
                f"{event.model}, {event.parameters:,} parameters{share}, decoder: {event.engine}; {event.tasks} tasks{unfit}, "
                f"{event.cards} cards; {event.steps} steps, {event.step} of them done"
            )
        if isinstance(event, Wrote | Selected | Summarised):
            self.now[{Wrote: "kernels", Selected: "selections", Summarised: "summaries"}[type(event)]] += 1
        elif isinstance(event, Judged):
            self.now["verdicts"] += 1
            self.outcomes[event.verdict.outcome.value] += 1
        elif isinstance(event, Measured):
            return self._measured(event)
        return ""

    def _measured(self, event: Measured) -> str:
        if event.note:
            self.notes.append(f"step {event.step}: {event.note}")
        kind = event.key.partition("/")[0]
        if kind == "alarm":
            return f"step {event.step}: alarm: {event.note}"
        if kind == "checkpoint":
            self.cards.update({name: int(event.values.get(name, 0)) for name in ("admitted", "retired")})
            return f"step {event.step}: kept, {event.values.get('admitted', 0):.0f} cards admitted, {event.values.get('retired', 0):.0f} retired"
        if kind != "train":
            return ""
        self.step, self.values = event.step, event.values
        self.times.append((time.monotonic(), event.step))
        self.now.clear()
        self.outcomes.clear()
        for name, curve in self.curves.items():
            if name in event.values:
                curve.append(event.values[name])
        return f"step {event.step}: {self.figures()}" + (f" ({event.note})" if event.note else "")

    def figures(self) -> str:
        return "  ".join(f"{name} {form.format(self.values[name])}" for name, form in FIGURES.items() if name in self.values)

    @property
    def left(self) -> str:
        if self.begun is None or len(self.times) < 2:
            return ""
        each = (self.times[-1][0] - self.times[0][0]) / max(1, self.times[-1][1] - self.times[0][1])
        return clock(each * (self.begun.steps - self.step))

    def render(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        if self.begun is None:
            return Text("reading the model and the tasks", "dim")
        left = f", {self.left} left" if self.left else ""
        grid.add_row("steps", Text(f"{self.step} of {self.begun.steps}{left}"))
        grid.add_row("", ProgressBar(total=self.begun.steps, completed=self.step, width=60))
        grid.add_row("last step", Text(self.figures() or "none yet"))
        now = ", ".join(f"{count} {what}" for what, count in self.now.items())
        outcomes = ", ".join(f"{count} {what}" for what, count in self.outcomes.most_common(6))
        grid.add_row("this step", Text(f"{now}{': ' if outcomes else ''}{outcomes}" or "beginning"))
        for name, curve in self.curves.items():
            if len(curve) > 1:
                grid.add_row(name, Text(spark(list(curve), 50), "green") + Text(f" {curve[-1]:.3g}", "dim"))
        busy = "  ".join(f"{who} {self.values.get(f'busy/{who}', 0):.0%}" for who in ("generator", "judge", "trainer"))
        grid.add_row("busy", Text(busy, "dim"))
        grid.add_row("cards", Text(f"{self.cards['admitted']} admitted, {self.cards['retired']} retired", "dim"))
        for note in self.notes:
            grid.add_row("", Text(note, "yellow"))
        return grid
