"""A step as a skill card: the technique's own words, what this kernel used, what it was worth, and what went wrong on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bottega.core.foreign_text import one_line
from bottega.core.skill import AppliesTo, Provenance, Relations, Skill
from bottega.core.task import Task
from bottega.core.trial import GainInterval, Trial
from bottega.core.verdict import Verdict
from bottega.languages import language_named
from bottega.lineage.example import example_of
from bottega.lineage.relations import PairAttempt
from bottega.lineage.round_trip import RoundTrip
from bottega.lineage.rule import Rule
from bottega.lineage.step import Attempt, Step
from bottega.lineage.walk import Lineage
from bottega.skills.validation import admit_data

ORIGIN = "lineage"
MOST_FAILURES = 6
LONGEST = 400
LONGEST_NAME = 60
LONGEST_VALUE = 120
"""Of what a kernel used, where a card's own words say it."""


def first_cards(lineage: Lineage, rules: Sequence[Rule], kernel: str, language: str) -> dict[int, Skill]:
    """A card for each step, with all that a fresh attempt may know: what was measured is added after the round trip."""
    techniques = {rule.technique.name: rule.technique for rule in rules}
    found: dict[int, Skill] = {}
    for step in lineage.steps:
        if step.text is not None:
            data = dict(step.text)
        else:
            technique = techniques[step.feature]
            shown = one_line(step.attempt.value.replace("`", "'"), LONGEST_VALUE)
            used = f"\n\nHere it was `{shown}` in {step.attempt.where}." if shown else ""
            data = {
                "intent": technique.intent,
                "tags": [step.feature, *technique.tags],
                "conditions": dict(technique.conditions.items()),
                "anchor": technique.anchor,
                "technique": technique.how + used,
                "failures": list(technique.failures),
            }
        taken = [card.name for card in found.values()]
        found[step.number] = admit_data(
            {
                **data,
                "name": _name(f"{language_named(language).card_prefix}{kernel}", step.feature, taken),
                "scope": _scope(lineage.task),
                "tags": list(dict.fromkeys([step.feature, ORIGIN, *data["tags"]]))[:10],
                "languages": [language],
                "devices": list(language_named(language).devices),
                "example": example_of(step.plain, step.before, "//" if language_named(language).embedded else "#"),
                "effect": "measured in its lineage",
                "relations": Relations(provides=(step.provided[:120],)).to_json(),
            },
            f"step {step.number}",
        )
    return found


def finished_card(
    card: Skill,
    step: Step,
    lineage: Lineage,
    trip: RoundTrip,
    relations: Relations,
    pairs: Sequence[PairAttempt],
    kernel: str,
    verdict: Verdict,
    applies_to: AppliesTo,
) -> Skill:
    """With what was learned. It stays *proposed*: the admission gate decides whether it helps a writer."""
    at_place = step.attempt.effect
    device = str(verdict.fingerprint.get("device", "")) or "this machine"
    effect = (
        f"{at_place.text} at its place in {kernel} on {device}"
        if at_place
        else f"not timed in {kernel}: shown to be right only"
    )
    effect += f", {step.whole.text} in the whole kernel" if step.whole else ""
    effect += f". Done again from this card: {trip.text}."
    state = "verified" if trip.verified else "not verified"
    claimed = step.whole.point if step.whole else at_place.point if at_place else None
    return replace(
        card,
        effect=one_line(effect, LONGEST),
        failures=(*card.failures, *_risks(step, lineage.refused, pairs))[:MOST_FAILURES],
        relations=relations,
        applies_to=applies_to,
        provenance=Provenance(
            ORIGIN, f"{kernel}, step {step.number} of {len(lineage.steps)}"[:LONGEST], lineage.task.id, claimed
        ),
        reason=one_line(f"{state} by round trip: {trip.text}", LONGEST),
    )


def _risks(step: Step, refused: Sequence[tuple[int, Attempt]], pairs: Sequence[PairAttempt]) -> list[str]:
    """What the judge refused about this optimisation, and with what it did not go together."""
    found = []
    for _, attempt in refused:
        if attempt.feature == step.feature:
            found.append(f"Taking it out of {attempt.where} too early came out {attempt.outcome}: {attempt.diagnosis}")
    for pair in pairs:
        if pair.conflict and step.feature in (pair.first, pair.second):
            other = pair.second if pair.first == step.feature else pair.first
            found.append(f"With {other}: {pair.conflict}")
    return [one_line(text, LONGEST) for text in dict.fromkeys(found)]


def trials_of(
    card: Skill, trip: RoundTrip, tasks: Mapping[bool, Task], verdict: Verdict, plain: Mapping[bool, Verdict]
) -> list[dict[str, Any]]:
    """The round trip as evidence, in the form of the library's trials. `tasks` and `plain`: by whether it is the sibling."""
    found = []
    for sibling, attempt in ((False, trip.own), (True, trip.sibling)):
        if attempt is None or attempt.effect is None or not attempt.correct or sibling not in tasks:
            continue
        baseline = next(iter(plain[sibling].speedup), "")
        without = plain[sibling].speedup[baseline].point
        trial = Trial(
            skill=card.name,
            skill_version=card.version,
            kind="round trip",
            task_id=tasks[sibling].id,
            task_name=tasks[sibling].name,
            sibling=sibling,
            baseline=baseline,
            device=str(verdict.fingerprint.get("device", "")),
            judge_version=str(verdict.fingerprint.get("judge", "")),
            with_skill=(round(without * attempt.effect.point, 6),),
            without_skill=(round(without, 6),),
            gain=GainInterval(attempt.effect.point, attempt.effect.low, attempt.effect.high),
            decision="unfinished",
            reason="its step was redone from the card alone",
        )
        found.append(trial.to_json())
    return found


def _name(kernel: str, feature: str, taken: Sequence[str]) -> str:
    words = re.sub(r"[^a-z0-9]+", "_", kernel.lower()).strip("_")
    known = (words if words[:1].isalpha() else f"kernel_{words}")[: max(8, LONGEST_NAME - 1 - len(feature))].rstrip("_")
    name = re.sub(r"[^a-z0-9]+", "_", f"{known}_{feature}".lower())[:LONGEST_NAME].rstrip("_")
    number = 2
    while name in taken:
        name, number = f"{re.sub(r'_[0-9]+$', '', name)}_{number}", number + 1
    return name


def _scope(task: Task) -> str:
    families = [tag for tag in task.tags if re.fullmatch(r"[a-z][a-z0-9_]*", tag)]
    return f"family/{families[0]}" if families else "general"
