"""What a user sees while a search runs, as the run's events tell it; `display` draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from bottega.app.display import RunProgress
from bottega.core.event import (
    AgentStepped,
    Criticised,
    Drafted,
    EpisodeEnded,
    Event,
    Judged,
    Planned,
    Reworded,
    RunStarted,
    Selected,
    Summarised,
    Tuned,
    Wrote,
)
from bottega.core.steady_clock import SteadyClock
from bottega.core.verdict import Outcome, Verdict
from bottega.episodes.attempts import NO_KERNEL, THE_MODEL, clock, is_final, spread, turn_of
from bottega.episodes.budget import BudgetCaps

SEARCHING = "searching"
SLOW = 20.0
"""Seconds of an answer from which it is told before its verdict: nothing else would be seen for long."""
ASKING = "the model is asked for kernels; Ctrl-C ends the search with the best so far"
MEASURING = "settings of the best draft's knobs are measured"


class OptimizeProgress(RunProgress):
    """A run so far, as its events tell it."""

    def __init__(self, caps: BudgetCaps, baseline: str, model: bool = True, drafted: bool = True, knobs: bool = False) -> None:
        """`model`: whether one is asked after the drafts; `drafted`: whether there are any; `knobs`: whether those of the best kernel are tuned."""
        super().__init__()
        self.then, self.drafted = ASKING if model else MEASURING if knobs else "", drafted
        self.caps, self.baseline = caps, baseline
        self.outcomes: Counter[str] = Counter()
        self.kernels = self.tokens = 0
        self.money = 0.0
        self.best, self.best_low = "", 0.0
        self.authors: dict[str, str] = {}
        """Of drafts; everything else is the model's."""
        self.repeated = 0
        """Answers that were kernels which had been judged before."""
        self.waiting_for: set[str] = set()
        """Kernels that were written and have no verdict yet."""
        self.stage = "bringing the module up"
        self.now, self.drafts = self.then, 0
        self._clock = SteadyClock()
        self.earlier, self.begun, self.last = 0.0, self._clock.now(), 0.0

    def on_event(self, event: Event) -> str:
        """Take an event in; what it says in one line, if it is worth one."""
        turn = turn_of(event)
        if turn is not None:
            self.tokens += turn.prompt_tokens + turn.output_tokens
            self.money += turn.cost
        line = self._line(event)
        if line:
            self.lines.append(line)
        self.last = event.at
        if line and isinstance(event, Judged) and not is_final(event):
            self.drafts -= 1
            self.now = self.now if self.drafts > 0 else self.then
            told = f"\n{self.then}" if self.drafts == 0 and self.then else ""
            return f"{line}  | best {self.best or 'none yet'}{told}"
        return line

    def _line(self, event: Event) -> str:
        if isinstance(event, RunStarted):
            self.earlier += max(0.0, self.last - self.begun) if self.last else 0.0
            self.begun, self.stage = event.at or self._clock.now(), SEARCHING
            problems = [f"{row['name']}: {row['detail']}" for row in event.fingerprint.get("problems", [])]
            self.now = (
                "the module runs; the compiler traces it and writes drafts" if self.drafted else f"the module runs; {self.then}"
            )
            return f"about the module: {'; '.join(problems)}" if problems else self.now
        if isinstance(event, Drafted):
            self.drafts = len(event.drafts)
            self.now = "the drafts are built and judged" if self.drafts else self.then
            return f"{event.text}; {self.now}" if self.now else event.text
        if isinstance(event, Selected) and event.names:
            return f"skills for scheme {event.scheme}: {', '.join(event.names)}"
        if isinstance(event, Wrote):
            self.kernels += 1
            if event.turn.fault:
                self.outcomes[NO_KERNEL] += 1
                return f"{self.answered:3}  {event.node}  no kernel: {' '.join(event.turn.fault.split())[:100]}"
            self.waiting_for.add(event.node)
            if event.author:
                self.authors[event.node] = event.author
            elif event.seconds >= SLOW:
                return f"     {event.node} was written in {event.seconds:.0f} s, {event.turn.output_tokens} tokens"
        if isinstance(event, Judged):
            return self._judged(event)
        if isinstance(event, Criticised):
            said = event.advice or f"not used: {event.turn.fault}"
            return f"     critic of {event.node}: {' '.join(said.split())[:160]}"
        if isinstance(event, AgentStepped):
            self.now = f"the agent calls {', '.join(event.turn.tools or ()) or 'no tool'} in {event.line}"
            return f"     {self.now}"
        if isinstance(event, Reworded) and event.text:
            return f"     new instruction {event.number} by {event.by}: {' '.join(event.text.split())[:120]}"
        if isinstance(event, Tuned) and event.tried:
            told = f"{', '.join(event.chosen)} is {event.gain:.2f}x as fast" if event.chosen else "its own values stay"
            return f"     knobs of {event.node}: {len(event.tried)} settings measured, {told}"
        if isinstance(event, Planned):
            run = [row for row in event.experiments if row["node"]]
            return f"     plan: {'; '.join(str(row['change']) for row in run)}"[:160]
        if isinstance(event, Summarised) and event.proposals:
            return f"proposed: {', '.join(skill.name for skill in event.proposals)}"
        if isinstance(event, EpisodeEnded):
            self.stage = "judging the best again, in full"
            many = "1 answer was a kernel" if self.repeated == 1 else f"{self.repeated} answers were kernels"
            again = f"; {many} that had been judged" if self.repeated else ""
            return f"search ended: {event.ended}{again}"
        return ""

    def _judged(self, event: Judged) -> str:
        told, author = self._against(event.verdict), self.authors.get(event.node, THE_MODEL)
        if is_final(event):
            return f"judged again: {event.node}  {event.verdict.outcome} {told}".rstrip() + f"  by {author}"
        self.waiting_for.discard(event.node)
        if event.same_as:
            self.repeated += 1
            return ""
        self.outcomes[event.verdict.outcome.value] += 1
        speedup = event.verdict.speedup.get(self.baseline)
        if event.verdict.outcome is Outcome.FASTER and speedup is not None and speedup.low > max(1.0, self.best_low):
            self.best, self.best_low = f"{told} ({event.node} by {author})", speedup.low
        return f"{self.answered:3}  {event.node}  {event.verdict.outcome} {told}".rstrip() + f"  by {author}"

    @property
    def answered(self) -> int:
        """Kernels with a verdict, and answers without a kernel."""
        return sum(self.outcomes.values())

    def _against(self, verdict: Verdict) -> str:
        """The speedup with what it is against: what the outcome speaks of, and eager beside it where that is another."""
        names = dict.fromkeys((self.baseline, verdict.baseline or self.baseline, "eager"))
        return ", ".join(f"{text} against {name}" for name in names if (text := spread(verdict, name)))

    @property
    def seconds(self) -> float:
        return self.earlier + max(0.0, self._clock.now() - self.begun)

    def spending(self) -> list[tuple[str, str]]:
        """What is spent, and of how much."""
        caps = self.caps
        rows = [("kernels", f"{self.kernels}{f' of {caps.kernels}' if caps.kernels else ''}")]
        rows += [("tokens", f"{self.tokens:,}{f' of {caps.tokens:,}' if caps.tokens else ''}")]
        if self.money or caps.money:
            rows += [("cost", f"{self.money:.4f}{f' of {caps.money:g}' if caps.money else ''}")]
        left = f", {clock(max(0.0, caps.seconds - self.seconds))} left" if caps.seconds else ""
        return [*rows, ("time", f"{clock(self.seconds)}{left}")]

    def rows(self) -> Iterator[tuple[str, Text]]:
        yield "best", Text(self.best or "none yet", "bold green" if self.best else "dim")
        if self.stage == SEARCHING:
            yield "now", Text(f"judging: {len(self.waiting_for)} kernels" if self.waiting_for else self.now)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.most_common()) or "none yet"
        yield "attempts", Text(counts)
        for name, value in self.spending():
            yield name, Text(value)
