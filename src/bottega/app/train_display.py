"""What a person sees while the backbone learns by reinforcement: rewards, outcomes, cards, and who is busy."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bottega.app.display import clock, spark
from bottega.core.event import Judged, Measured, Selected, Summarised, Wrote
from bottega.episodes.phases import PhaseStatus
from bottega.train.rl import Learning, RlEvent, RlStarted

CURVES = ("reward", "correct", "fast_1.2", "select/reward", "summarise/reward", "entropy")
FIGURES = {
    "reward": "{:.3f}", "correct": "{:.0%}", "fast_1.2": "{:.0%}", "select/reward": "{:.3f}", "summarise/reward": "{:.3f}",
    "entropy": "{:.2f}", "mismatch": "{:.4f}", "tokens_per_second": "{:,.0f}", "seconds/step": "{:.0f} s",
}  # fmt: skip


class TrainProgress:
    """The state of a run as its events tell it."""

    stage = ""

    def __init__(self) -> None:
        self.begun: RlStarted | None = None
        self.step = 0
        self.values: dict[str, float] = {}
        self.curves: dict[str, deque[float]] = {name: deque(maxlen=2000) for name in CURVES}
        self.now: Counter[str] = Counter()
        self.learning = False
        """The update is under way."""
        self.phase = ""
        """What the device is used for, where the model and the judge share one."""
        self.outcomes: Counter[str] = Counter()
        self.cards = Counter[str]()
        self.library_cards = 0
        """Cards in the library."""
        self.notes: deque[str] = deque(maxlen=4)
        self.times: deque[tuple[float, int]] = deque(maxlen=20)
        self.since = time.monotonic()
        """When the step under way began."""

    def hear(self, event: RlEvent) -> str:
        """A line for whoever has no panel; empty when there is nothing to say."""
        if isinstance(event, RlStarted):
            self.begun, self.step, self.since = event, event.step, time.monotonic()
            for past in event.past:
                self._measured(past)
            self.times.clear()
            self.times.append((self.since, event.step))
            self.notes.clear()
            self.library_cards = event.cards
            return (
                f"{self.inputs}, decoder: {event.engine}; {event.cards} cards; {event.steps} steps, {event.step} of them done"
            )
        if isinstance(event, Wrote | Selected | Summarised):
            self.now[{Wrote: "written", Selected: "selected", Summarised: "summarised"}[type(event)]] += 1
        elif isinstance(event, Judged):
            self.now["judged"] += 1
            self.outcomes[event.verdict.outcome.value] += 1
        elif isinstance(event, PhaseStatus):
            self.phase = event.text.partition(":")[0]
        elif isinstance(event, Learning):
            self.learning, self.phase = True, ""
        elif isinstance(event, Measured):
            return self._measured(event)
        return ""

    def _measured(self, event: Measured) -> str:
        kind = event.key.partition("/")[0]
        if event.note:
            self.notes.append(f"step {event.step}: {'alarm: ' * (kind == 'alarm')}{event.note}")
        if kind == "alarm":
            return self.notes[-1]
        if kind == "checkpoint":
            came = {name: int(event.values.get(name, 0)) for name in ("admitted", "retired")}
            self.cards.update(came)
            self.library_cards += came["admitted"]
            count = f"{came['admitted']} card{'s' * (came['admitted'] != 1)}"
            return f"step {event.step}: kept, {count} admitted, {came['retired']} retired"
        if kind != "train":
            return ""
        self.step, self.values = event.step, event.values
        self.since = time.monotonic()
        self.times.append((self.since, event.step))
        self.learning = False
        self.now.clear()
        self.outcomes.clear()
        for name, curve in self.curves.items():
            if name in event.values:
                curve.append(event.values[name])
        return f"step {event.step}: {self.figures()}" + (f" ({event.note})" if event.note else "")

    @property
    def inputs(self) -> str:
        if self.begun is None:
            return ""
        begun = self.begun
        share = f", {begun.trained:,} of them trained" if begun.trained < begun.parameters else ""
        unfit = f" ({len(begun.problems)} more cannot be used)" if begun.problems else ""
        return f"{begun.model}, {begun.parameters:,} parameters{share}, {begun.tasks} task{'s' * (begun.tasks != 1)}{unfit}"

    def figures(self, names: Iterable[str] = FIGURES) -> str:
        return "  ".join(f"{name} {FIGURES[name].format(self.values[name])}" for name in names if name in self.values)

    @property
    def left(self) -> str:
        if self.begun is None or len(self.times) < 2 or self.step == self.begun.steps:
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
        if self.step < self.begun.steps:
            now = ", ".join(f"{count} {what}" for what, count in self.now.items())
            outcomes = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in self.outcomes.most_common(6))
            under_way = clock(time.monotonic() - self.since)
            doing = "now the update" if self.learning else f"now {self.phase}" if self.phase else ""
            grid.add_row("this step", Text("; ".join(filter(None, (under_way, now, outcomes, doing)))))
        for name, curve in self.curves.items():
            if curve:
                grid.add_row(name, Text.assemble((spark(list(curve), 50), "green"), f" {FIGURES[name].format(curve[-1])}"))
        if self.values:
            grid.add_row("last step", Text(self.figures(name for name in FIGURES if name not in CURVES), "dim"))
            busy = "  ".join(f"{who} {self.values.get(f'busy/{who}', 0):.0%}" for who in ("generator", "judge", "trainer"))
            grid.add_row("busy", Text(busy, "dim"))
        cards = f"{self.library_cards} in the library; {self.cards['admitted']} admitted, {self.cards['retired']} retired by this run"
        grid.add_row("cards", Text(cards, "dim"))
        grid.add_row("model", Text(self.inputs, "dim"))
        for note in self.notes:
            grid.add_row("", Text(note, "yellow"))
        return grid
