"""What a person sees while the backbone learns, from examples or by reinforcement: steps, curves, outcomes, cards, and who is busy."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from bottega.app.display import RunProgress
from bottega.core.event import Checkpointed, Judged, Measured, Selected, Summarised, Wrote
from bottega.core.plot import spark
from bottega.episodes.attempts import clock
from bottega.episodes.phases import PhaseStatus
from bottega.train.metrics import TrainingStarted
from bottega.train.rl import Learning, Validating

CURVES = ("loss", "reward", "correct", "fast_1.2", "select/reward", "summarise/reward", "entropy")
FIGURES = {
    "loss": "{:.4f}", "gradient": "{:.2f}", "rate": "{:.1e}",
    "reward": "{:.3f}", "correct": "{:.0%}", "fast_1.2": "{:.0%}", "select/reward": "{:.3f}", "summarise/reward": "{:.3f}",
    "entropy": "{:.2f}", "mismatch": "{:.4f}", "tokens_per_second": "{:,.0f}", "seconds/step": "{:.0f} s",
}  # fmt: skip
DONE: dict[type, str] = {Wrote: "written", Selected: "selected", Summarised: "summarised"}


class TrainingProgress(RunProgress):
    def __init__(self) -> None:
        super().__init__("reading the model and what it learns from")
        self.what = ""
        self.values: dict[str, float] = {}
        self.curves: dict[str, deque[float]] = {name: deque(maxlen=2000) for name in CURVES}
        self.held_out: list[tuple[int, str]] = []
        self.now: Counter[str] = Counter()
        """What was done in the step under way."""
        self.phase = ""
        """What the device is used for now."""
        self.outcomes: Counter[str] = Counter()
        self.cards = Counter[str]()
        self.library_cards: int | None = None

    def on_event(self, event: Any) -> str:
        if isinstance(event, TrainingStarted):
            for past in event.past:
                self._measured(past)
            self.begin(event.steps, event.step)
            self.library_cards = event.cards
            share = f", {event.trained:,} of them trained" if event.trained < event.parameters else ""
            self.what = f"{event.model}, {event.parameters:,} parameters{share}; {event.what}"
            return f"{self.what}; {event.steps} steps, {event.step} of them done"
        if isinstance(event, Measured):
            return self._measured(event)
        if isinstance(event, Checkpointed):
            return f"kept {event.folder}"
        if isinstance(event, Wrote | Selected | Summarised):
            self.now[DONE[type(event)]] += 1
        elif isinstance(event, Judged):
            self.now["judged"] += 1
            self.outcomes[event.verdict.outcome.value] += 1
        elif isinstance(event, PhaseStatus):
            self.phase = event.text.partition(":")[0]
        elif isinstance(event, Learning):
            self.phase = "the update"
        elif isinstance(event, Validating):
            self.phase = "validation"
        return ""

    def _measured(self, event: Measured) -> str:
        kind = event.key.partition("/")[0]
        if event.note:
            self.notes.append(f"step {event.step}: {'alarm: ' * (kind == 'alarm')}{event.note}")
        if kind == "alarm":
            return self.notes[-1]
        if kind == "eval":
            told = self._held_out(event.values)
            self.held_out.append((event.step, told))
            return f"step {event.step}: held out: {told}"
        if kind == "checkpoint":
            came = {name: int(event.values.get(name, 0)) for name in ("admitted", "retired")}
            self.cards.update(came)
            self.library_cards = int(event.values.get("library", (self.library_cards or 0) + came["admitted"]))
            count = f"{came['admitted']} card{'s' * (came['admitted'] != 1)}"
            return f"step {event.step}: kept, {count} admitted, {came['retired']} retired, {self.library_cards} in the library"
        self.values, self.since, self.phase = event.values, time.monotonic(), ""
        self.reach(event.step)
        self.now.clear()
        self.outcomes.clear()
        for name, curve in self.curves.items():
            if name in event.values:
                curve.append(event.values[name])
        few = self.library_cards is None and event.step > 1 and event.step % max(1, self.whole // 100)
        if few and not event.note:  # steps of SFT are short: a hundred of them are told
            return ""
        return f"step {event.step}: {self.figures(FIGURES)}" + (f" ({event.note})" if event.note else "")

    @staticmethod
    def _held_out(values: Mapping[str, float]) -> str:
        """A loss of SFT, or how RL does on its validation tasks."""
        if "nll" in values:
            return f"loss {values['nll']:.4f}"
        told = [f"{name} {values[name]:.0%}" for name in ("correct", "fast_1", "with_skills/correct") if name in values]
        return ", ".join(told) + (f", {values['speedup']:.2f}×" if "speedup" in values else "")

    def figures(self, names: Any) -> str:
        return "  ".join(f"{name} {FIGURES[name].format(self.values[name])}" for name in names if name in self.values)

    def rows(self) -> Iterator[tuple[str, Text]]:
        if self.done < self.whole:
            now = ", ".join(f"{count} {what}" for what, count in self.now.items())
            outcomes = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in self.outcomes.most_common(6))
            doing = f"now {self.phase}" if self.phase else ""
            yield "this step", Text("; ".join(filter(None, (clock(time.monotonic() - self.since), now, outcomes, doing))))
        for name, curve in self.curves.items():
            if curve:
                yield name, Text.assemble((spark(list(curve), 50), "green"), f" {FIGURES[name].format(curve[-1])}")
        if self.held_out:
            yield "held out", Text("; ".join(f"{told} at {step}" for step, told in self.held_out[-4:]))
        if self.values:
            yield "last step", Text(self.figures(name for name in FIGURES if name not in CURVES), "dim")
        busy = [(who, self.values[f"busy/{who}"]) for who in ("generator", "judge", "trainer") if f"busy/{who}" in self.values]
        if busy:
            yield "busy", Text("  ".join(f"{who} {share:.0%}" for who, share in busy), "dim")
        if self.library_cards is not None:
            told = f"{self.cards['admitted']} admitted, {self.cards['retired']} retired by this run"
            yield "cards", Text(f"{self.library_cards} in the library; {told}", "dim")
        yield "model", Text(self.what, "dim")
