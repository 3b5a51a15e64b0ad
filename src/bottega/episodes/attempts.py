"""A run as its log tells it: the attempts in order, what was judged again at the end, and what all of it took. Pure functions of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bottega.core.event import (
    AgentStepped,
    Criticised,
    Drafted,
    Event,
    Judged,
    Planned,
    Reworded,
    RunEnded,
    RunStarted,
    Selected,
    Summarised,
    Wrote,
)
from bottega.core.turn import Turn
from bottega.core.verdict import Verdict, interval_text
from bottega.episodes.node import SearchNode, is_by_rule

NO_KERNEL = "no kernel"
"""What an attempt came to when the answer held no kernel to judge."""
NOT_JUDGED = "not judged"
"""What it came to when the run ended before its verdict."""
THE_MODEL = "the model"
"""Who wrote what has no other author."""


@dataclass(frozen=True)
class RunAttempt:
    number: int
    node: SearchNode
    same_as: str = ""
    writing_s: float = 0.0
    judging_s: float = 0.0
    beside: tuple[Turn, ...] = ()
    """Answers that are no kernels and led to this one: selections, advice, plans, an agent's steps."""
    beside_s: float = 0.0
    """What they took, and an agent's programs."""

    @property
    def author(self) -> str:
        return self.node.author or THE_MODEL

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All answers that were paid for it."""
        return self.node.turn, *self.beside

    @property
    def outcome(self) -> str:
        if self.node.verdict is not None:
            return self.node.verdict.outcome.value
        return NO_KERNEL if self.node.turn.fault else NOT_JUDGED


@dataclass(frozen=True)
class Totals:
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    estimated: int = 0
    """Calls whose tokens and cost are guessed."""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """What it took in tokens, in words."""
        guessed = f" ({self.estimated} of them not counted by the server, so estimated)" if self.estimated else ""
        return f"{self.calls} answers{guessed}, {self.prompt_tokens} prompt and {self.output_tokens} output tokens"

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens


def final_key(episode: str, candidate_id: str) -> str:
    """Of a verdict about the delivered file."""
    return f"{episode}/final/{candidate_id}"


def is_final(event: Judged) -> bool:
    return event.key.startswith(f"{event.episode}/final/")


def attempts_of(events: Sequence[Event], episode: str) -> list[RunAttempt]:
    """Every draft and every answer of the writer in the order in which they came, with its verdict where there is one."""
    judged: dict[str, Judged] = {}
    wrote: list[Wrote] = []
    for event in events:
        if isinstance(event, Judged) and event.episode == episode and not is_final(event):
            judged[event.node] = event
        elif isinstance(event, Wrote) and event.episode == episode:
            wrote.append(event)
    attempts: list[RunAttempt] = []
    beside = _beside_kernels(events, episode)
    for number, event in enumerate(wrote, 1):
        found = judged.get(event.node)
        turn = replace(event.turn, verdict=found.verdict if found else None)
        by_rule = is_by_rule(event, (attempt.node for attempt in attempts))
        node = SearchNode(event.node, event.parent, event.scheme, turn, event.author, by_rule)
        same_as, seconds = (found.same_as, found.seconds) if found else ("", 0.0)
        attempts.append(RunAttempt(number, node, same_as, event.seconds, seconds, *beside[event.node]))
    return attempts


def _beside_kernels(events: Iterable[Event], episode: str) -> dict[str, tuple[tuple[Turn, ...], float]]:
    """Answers and seconds by the next kernel in the log, or by the last: nothing that was paid for is left out. A draft has none."""
    found: dict[str, tuple[tuple[Turn, ...], float]] = {}
    turns, seconds, last = list[Turn](), 0.0, ""
    for event in events:
        if getattr(event, "episode", None) != episode:
            continue
        if isinstance(event, Wrote):
            found[event.node] = ((), 0.0)
            if not event.author:
                last, found[event.node] = event.node, (tuple(turns), seconds)
                turns, seconds = [], 0.0
        elif not isinstance(event, Judged | Drafted | Summarised):
            turns += filter(None, [turn_of(event)])
            seconds += getattr(event, "seconds", 0.0)
    if last:
        found[last] = (*found[last][0], *turns), found[last][1] + seconds
    return found


def by_outcome(attempts: Iterable[RunAttempt]) -> dict[str, int]:
    return dict(Counter(attempt.outcome for attempt in attempts).most_common())


def by_author(attempts: Iterable[RunAttempt]) -> dict[str, dict[str, int]]:
    """Of each who wrote, what the attempts came to."""
    found: dict[str, list[RunAttempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.author, []).append(attempt)
    return {author: by_outcome(theirs) for author, theirs in found.items()}


def schemes_of(events: Iterable[Event], episode: str) -> dict[int, Selected]:
    return {event.scheme: event for event in events if isinstance(event, Selected) and event.episode == episode}


def totals_of(events: Sequence[Event]) -> Totals:
    turns = [turn for event in events if (turn := turn_of(event)) is not None]
    return Totals(
        prompt_tokens=sum(turn.prompt_tokens for turn in turns),
        output_tokens=sum(turn.output_tokens for turn in turns),
        cost=sum(turn.cost for turn in turns),
        calls=sum(1 + turn.redrawn for turn in turns),
        estimated=sum(turn.estimated for turn in turns),
        seconds=seconds_of(events),
    )


def turn_of(event: Event) -> Turn | None:
    """The answer of the model in it, if there is one; a draft is none, and an agent's kernel is part of a step."""
    if isinstance(event, Wrote) and (event.author or event.step):
        return None
    kinds = Wrote | Selected | Summarised | Criticised | Reworded | Planned | AgentStepped
    return event.turn if isinstance(event, kinds) else None


def seconds_of(events: Sequence[Event]) -> float:
    """What a run took over all its sessions; the time between a kill and its resumption is nobody's."""
    total, begun, last = 0.0, None, 0.0
    for event in events:
        if isinstance(event, RunStarted):
            total += last - begun if begun is not None else 0.0
            begun = event.at
        last = event.at
        if isinstance(event, RunEnded) and begun is not None:
            total, begun = total + event.at - begun, None
    return total + (last - begun if begun is not None else 0.0)


def spread(verdict: Verdict | None, baseline: str) -> str:
    """A speedup with its interval in a few words; empty where there is none."""
    speedup = verdict.speedup.get(baseline) if verdict is not None and verdict.outcome.accepted else None
    return f"{speedup.point:.2f}× ({interval_text(speedup.low, speedup.high)})" if speedup is not None else ""


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
