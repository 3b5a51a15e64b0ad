"""The round trip: is the card enough? Its step is done again by a fresh attempt that gets the card and a plain kernel, and nothing else.

First on the plain end of the walk, where every other optimisation is gone too. Where that fails, or does not gain what the step gained at its place
(more warps pay with large tiles only), with the cards of earlier steps put in first, which tells what the card requires. Then on a sibling task with
a plain kernel of its own. A card whose step cannot be redone is not verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.lineage.example import applied
from bottega.lineage.judged import JudgedKernels
from bottega.lineage.relations import PairAttempt
from bottega.lineage.rule import Edit, Rule
from bottega.lineage.step import Attempt, Step

TRIES = 3
"""Texts that a fresh attempt may try for one card."""
MOST_BEFORE = 3
"""Optimisations that are put in together before one that pays only after them."""


class Redoer(Protocol):
    def __call__(self, card: Skill, task: Task, plain: str) -> Iterator[Edit]:
        """Texts that do the card's step on a plain kernel."""
        ...


@dataclass(frozen=True)
class Sibling:
    """Another task, with a plain kernel for it."""

    task: Task
    plain: str


@dataclass(frozen=True)
class RoundTrip:
    """What became of one card's step when it was done again."""

    number: int
    own: Attempt | None
    """On the plain kernel; None where the card found no place in it."""
    needed: tuple[str, ...] = ()
    """What was put in first, each with its value."""
    sibling: Attempt | None = None
    asked_sibling: bool = False

    @property
    def verified(self) -> bool:
        """Redone right on its own task and, where there is one, on the sibling; and surely slower on neither."""
        return _holds(self.own) and (not self.asked_sibling or self.on_sibling)

    @property
    def on_sibling(self) -> bool:
        """Redone right there, and not surely slower."""
        return _holds(self.sibling)

    @property
    def only_here(self) -> str:
        """Where a card was not verified though its step was redone on its own kernel; the sibling may have had it already."""
        place = "found no place there" if self.sibling is None else self.sibling.outcome
        return f" on the sibling: {place}" if _holds(self.own) and not self.verified else ""

    @property
    def text(self) -> str:
        own = _told("on the plain kernel", self.own)
        after = f" after {', '.join(self.needed)}" if self.needed else ""
        return f"{own}{after}" + (f"; {_told('on the sibling task', self.sibling)}" if self.asked_sibling else "")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "needed": list(self.needed)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RoundTrip:
        own, sibling = data["own"], data["sibling"]
        return cls(
            data["number"],
            Attempt.from_json(own) if own else None,
            tuple(data["needed"]),
            Attempt.from_json(sibling) if sibling else None,
            data["asked_sibling"],
        )


def _holds(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.correct and (attempt.effect is None or attempt.effect.kind != "loss")


def _told(where: str, attempt: Attempt | None) -> str:
    if attempt is None:
        return f"found no place {where}"
    return f"{where} {attempt.effect.text if attempt.effect else 'right, not timed' if attempt.correct else attempt.outcome}"


def by_rules_or_example(rules: Sequence[Rule]) -> Redoer:
    """The rule's forward direction with the value that the card names, and where that finds no place, the card's example."""
    named = {rule.technique.name: rule for rule in rules}

    def redo(card: Skill, task: Task, plain: str) -> Iterator[Edit]:
        feature, _, value = card.relations.provides[0].partition("=")
        found = list(named[feature].redo(plain, value)) if feature in named else []
        yield from found or (Edit(text, "example", value) for text in applied(plain, card.example))

    return redo


def redone(judged: JudgedKernels, redo: Redoer, card: Skill, task: Task, plain: str) -> Attempt | None:
    """The first text that the judge accepts, else the last that it refused, else None."""
    feature = card.relations.provides[0].partition("=")[0]
    last = None
    for count, edit in enumerate(redo(card, task, plain)):
        if count == TRIES:
            break
        if edit.source == plain:
            continue
        last = judged.redone(task, plain, feature, edit)
        if last.correct:
            return last
    return last


def round_trip(
    judged: JudgedKernels,
    redo: Redoer,
    steps: Sequence[Step],
    cards: dict[int, Skill],
    task: Task,
    plain: str,
    sibling: Sibling | None,
    on_trip: Callable[[RoundTrip], RoundTrip] = lambda trip: trip,
) -> list[RoundTrip]:
    """Cards in the forward order: the last that was taken out is the first that is put in. Each alone, then those that need others behind them."""
    found: list[RoundTrip] = []
    first = {step.number: redone(judged, redo, cards[step.number], task, plain) for step in reversed(steps)}
    alone = {number: own for number, own in first.items() if own is not None and _holds(own)}
    for step in reversed(steps):
        card, own, needed = cards[step.number], first[step.number], tuple[str, ...]()
        if own is None or not own.correct:
            own, needed = _after_another(judged, redo, card, task, plain, steps, alone, own)
        elif step.gained and not _gains(own):
            own, needed = _after_several(judged, redo, step, cards, task, plain, steps, alone, own)
        there = _on_sibling(judged, redo, card, sibling, [cards[each.number] for each in steps if each.provided in needed])
        found.append(on_trip(RoundTrip(step.number, own, needed, there, sibling is not None)))
    return found


def _on_sibling(
    judged: JudgedKernels, redo: Redoer, card: Skill, sibling: Sibling | None, before: Sequence[Skill]
) -> Attempt | None:
    """On the sibling's plain kernel, with the cards that this one needed put in first."""
    if sibling is None:
        return None
    plain = sibling.plain
    for other in before:
        first = redone(judged, redo, other, sibling.task, plain)
        if first is None or not first.correct:
            return None
        plain = first.source
    return redone(judged, redo, card, sibling.task, plain)


def _after_another(
    judged: JudgedKernels,
    redo: Redoer,
    card: Skill,
    task: Task,
    plain: str,
    steps: Sequence[Step],
    alone: dict[int, Attempt],
    failed: Attempt | None,
) -> tuple[Attempt | None, tuple[str, ...]]:
    """On the plain kernel with one other optimisation in it."""
    for number, first in sorted(alone.items()):
        attempt = redone(judged, redo, card, task, first.source)
        if attempt is not None and attempt.correct:
            return attempt, (next(step.provided for step in steps if step.number == number),)
    return failed, ()


def _gains(attempt: Attempt) -> bool:
    return attempt.correct and attempt.effect is not None and attempt.effect.kind == "gain"


def _after_several(
    judged: JudgedKernels,
    redo: Redoer,
    step: Step,
    cards: dict[int, Skill],
    task: Task,
    plain: str,
    steps: Sequence[Step],
    alone: dict[int, Attempt],
    alone_it: Attempt,
) -> tuple[Attempt, tuple[str, ...]]:
    """With others in the plain kernel, those that gain most alone first, one more each time until the step gains too. Where it never does, the first
    time that it did not lose."""
    provided = {each.number: each.provided for each in steps}
    gains = [
        (each.effect.point, number) for number, each in alone.items() if each.effect is not None and each.effect.kind == "gain"
    ]
    source, needed, held = plain, tuple[str, ...](), (alone_it, tuple[str, ...]())
    for _, number in sorted(gains, reverse=True)[:MOST_BEFORE]:
        first = redone(judged, redo, cards[number], task, source)
        if first is None or not first.correct:
            continue
        source, needed = first.source, (*needed, provided[number])
        attempt = redone(judged, redo, cards[step.number], task, source)
        if attempt is not None and _gains(attempt):
            return attempt, needed
        if attempt is not None and _holds(attempt) and not _holds(held[0]):
            held = attempt, needed
    return held


def tried_pairs(
    judged: JudgedKernels,
    redo: Redoer,
    steps: Sequence[Step],
    cards: dict[int, Skill],
    trips: Sequence[RoundTrip],
    task: Task,
    plain: str,
    most: int,
) -> list[PairAttempt]:
    """Two optimisations together in the plain kernel, for pairs that each work alone; the strongest ones first."""
    features = {step.number: step.feature for step in steps}
    usable = [trip for trip in trips if trip.own is not None and trip.own.correct and not trip.needed]
    usable.sort(key=lambda trip: -(trip.own.effect.point if trip.own and trip.own.effect else 0.0))
    found: list[PairAttempt] = []
    for place, one in enumerate(usable):
        for other in usable[place + 1 :]:
            if len(found) == most:
                return found
            assert one.own is not None
            assert other.own is not None
            edit = next(redo(cards[other.number], task, one.own.source), None)
            if edit is None or edit.source == one.own.source:
                continue
            together = judged.redone(task, plain, features[other.number], edit)
            points = [(trip.own.effect.point if trip.own.effect else 0.0, trip.own) for trip in (one, other) if trip.own]
            better = max(points, key=lambda pair: pair[0])[1]
            found.append(PairAttempt(features[one.number], features[other.number], together, better))
    return found
