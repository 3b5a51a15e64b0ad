"""Mining one expert kernel: judge it, walk it back, make a card of each step, do every step again from its card, learn what goes with what."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bottega.core.errors import UsageError
from bottega.core.files import write
from bottega.core.skill import Skill
from bottega.core.task import Task
from bottega.core.workload import Workload
from bottega.episodes.context import BlockingJudge
from bottega.lineage.cards import finished_card, first_cards, trials_of
from bottega.lineage.journal import LineageJournal
from bottega.lineage.judged import JudgedKernels
from bottega.lineage.measured import measured_conditions
from bottega.lineage.relations import PairAttempt, learned
from bottega.lineage.round_trip import Redoer, RoundTrip, Sibling, round_trip, tried_pairs
from bottega.lineage.rule import Rule, refuse_unreadable
from bottega.lineage.step import Effect, Step
from bottega.lineage.walk import Lineage, Proposer, walk_back

CARDS, PLAIN = "cards.jsonl", "plain.py"


@dataclass(frozen=True)
class Expert:
    name: str
    source: str
    language: str
    task: Task


@dataclass(frozen=True)
class MiningLimits:
    steps: int = 20
    pairs: int = 6


@dataclass(frozen=True)
class Mined:
    lineage: Lineage
    trips: tuple[RoundTrip, ...]
    pairs: tuple[PairAttempt, ...]
    cards: tuple[Skill, ...]
    """In the forward order: the first one is the first to be put into a plain kernel."""


def mine(
    journal: LineageJournal,
    judge: BlockingJudge,
    expert: Expert,
    rules: Sequence[Rule],
    propose: Proposer,
    redo: Redoer,
    sibling: Sibling | None,
    limits: MiningLimits,
    workload: Callable[[Task], Workload],
) -> Mined:
    """Everything that is finished is in the journal: the same call after a kill goes on where it was."""
    if rules:
        refuse_unreadable(expert.name, expert.source)
        refuse_unreadable("the sibling's kernel", sibling.plain if sibling else "")
    judged, task = JudgedKernels(journal, judge), expert.task
    verdict = judged.verdict(task, expert.source, "the expert kernel")
    if not verdict.outcome.accepted:
        raise UsageError(
            f"{expert.name}: the expert kernel itself is {verdict.outcome.value} on {task.label}: {verdict.diagnosis}"
        )

    def keep(step: Step) -> None:
        journal.once(f"step/{step.number}", lambda: {"step": step.to_json()})

    lineage = walk_back(judged, task, expert.source, propose, rules, limits.steps, keep)
    lineage = replace(lineage, steps=tuple(_in_the_whole(judged, expert, rules, step) for step in lineage.steps))
    journal.renew("walked", _walked(lineage))
    if sibling is not None:
        sibling = Sibling(sibling.task, sibling.plain or lineage.plain)
        beside = judged.verdict(sibling.task, sibling.plain, "the plain kernel")
        if not beside.outcome.accepted:
            raise UsageError(
                f"the plain kernel of the sibling {sibling.task.label} is {beside.outcome.value}: {beside.diagnosis}; "
                "name another with sibling_kernel=FILE"
            )
    cards = first_cards(lineage, rules, expert.name, expert.language)

    def keep_trip(trip: RoundTrip) -> RoundTrip:
        journal.renew(f"trip/{trip.number}", {"trip": trip.to_json()})
        return trip

    trips = round_trip(judged, redo, lineage.steps, cards, task, lineage.plain, sibling, keep_trip)
    pairs = tried_pairs(judged, redo, lineage.steps, cards, trips, task, lineage.plain, limits.pairs)
    journal.renew("pairs", {"pairs": [asdict(pair) for pair in pairs]})
    relations = learned(lineage.steps, {trip.number: trip.needed for trip in trips}, pairs)
    steps = {step.number: step for step in lineage.steps}
    tasks = {False: task, **({True: sibling.task} if sibling else {})}
    workloads = {beside: workload(each) for beside, each in tasks.items()}

    def finish(trip: RoundTrip) -> Skill:
        step, tried = steps[trip.number], [workloads[False], *([workloads[True]] if trip.on_sibling else [])]
        where = measured_conditions(tried, timed=step.attempt.effect is not None)
        return finished_card(
            cards[trip.number], step, lineage, trip, relations[trip.number], pairs, expert.name, verdict, where
        )

    finished = [finish(trip) for trip in trips]
    plain = {
        False: judged.verdict(task, lineage.plain),
        **({True: judged.verdict(sibling.task, sibling.plain)} if sibling else {}),
    }
    lines = [
        json.dumps(
            {**card.to_json(), "evidence": trials_of(card, trip, tasks, verdict, plain)}, ensure_ascii=False, sort_keys=True
        )
        for card, trip in zip(finished, trips)
        if worth_a_card(steps[trip.number])
    ]
    write(journal.folder / CARDS, "".join(f"{line}\n" for line in lines))
    write(journal.folder / PLAIN, lineage.plain)
    kept = tuple(card for card, trip in zip(finished, trips) if worth_a_card(steps[trip.number]))
    journal.renew("ended", {"cards": [card.name for card in kept], "verified": sum(trip.verified for trip in trips)})
    return Mined(lineage, tuple(trips), tuple(pairs), kept)


def _in_the_whole(judged: JudgedKernels, expert: Expert, rules: Sequence[Rule], step: Step) -> Step:
    """A step that lost at its place, taken alone out of the whole kernel: more stages lose where the warps that they go with are gone."""
    rule = next((rule for rule in rules if rule.technique.name == step.feature), None)
    if rule is None or not _lost(step.attempt.effect):
        return step
    same = (edit for edit in rule.undo(expert.source) if (edit.value, edit.where) == (step.attempt.value, step.attempt.where))
    edit = next(same, None)
    attempt = judged.undone(expert.task, expert.source, step.feature, edit) if edit is not None else None
    return replace(step, whole=attempt.effect) if attempt is not None else step


def _lost(effect: Effect | None) -> bool:
    return effect is not None and effect.kind == "loss"


def worth_a_card(step: Step) -> bool:
    """Not where the kernel was surely faster without it: the expert's own mistake is told in the report, and taught to no one."""
    return step.gained or not _lost(step.attempt.effect)


def _walked(lineage: Lineage) -> dict[str, Any]:
    refused = [{"after": number, "attempt": attempt.to_json()} for number, attempt in lineage.refused]
    steps = [step.to_json() for step in lineage.steps]
    return {"steps": steps, "refused": refused, "ended": lineage.ended, "plain": lineage.plain}


def read_cards(folder: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in (folder / CARDS).read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []
