"""The backward walk: from an expert kernel, one optimisation less at a time, to a plain version that is still right.

A step counts when the judge accepts the text without the optimisation. One that it refuses is kept as evidence of risk and tried again after
later steps: what could be taken out only after something else was gone says which optimisation stands on which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bottega.core.task import Task
from bottega.lineage.judged import JudgedKernels
from bottega.lineage.rule import Edit, Rule
from bottega.lineage.step import Attempt, Step

TRIES = 3
"""How often a step that was refused is tried again, each time from a plainer kernel."""


@dataclass(frozen=True)
class Proposal:
    feature: str
    edit: Edit
    text: dict[str, Any] | None = None


class Proposer(Protocol):
    def __call__(self, source: str, number: int, refused: Sequence[Attempt]) -> Iterator[Proposal]:
        """Steps from this kernel, the most promising first."""
        ...


@dataclass(frozen=True)
class Lineage:
    task: Task
    expert: str
    steps: tuple[Step, ...]
    refused: tuple[tuple[int, Attempt], ...] = ()
    """With the number of steps that had been taken when it was refused."""
    ended: str = ""

    @property
    def plain(self) -> str:
        return self.steps[-1].plain if self.steps else self.expert


@dataclass
class _Refusals:
    found: list[tuple[int, Attempt]] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, number: int, attempt: Attempt) -> None:
        self.found.append((number, attempt))
        key = (attempt.feature, attempt.where)
        self.counts[key] = self.counts.get(key, 0) + 1

    def spent(self, proposal: Proposal) -> bool:
        return self.counts.get((proposal.feature, proposal.edit.where), 0) >= TRIES


def features_found(rules: Sequence[Rule], source: str) -> set[str]:
    """What rules could take out of a kernel, whether or not it stays right."""
    return {rule.technique.name for rule in rules if next(rule.undo(source), None) is not None}


def by_rules(rules: Sequence[Rule]) -> Proposer:
    def propose(source: str, number: int, refused: Sequence[Attempt]) -> Iterator[Proposal]:
        for rule in rules:
            for edit in rule.undo(source):
                yield Proposal(rule.technique.name, edit)

    return propose


def walk_back(
    judged: JudgedKernels,
    task: Task,
    expert: str,
    propose: Proposer,
    rules: Sequence[Rule],
    most_steps: int,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Lineage:
    """The expert kernel must have been accepted before. `rules` see what could be taken out where; steps come from `propose`."""
    current, steps, refusals = expert, list[Step](), _Refusals()
    possible = {expert: features_found(rules, expert)}
    ended = f"after {most_steps} steps, the limit"
    while len(steps) < most_steps:
        step = _next_step(judged, task, current, propose, len(steps) + 1, possible, refusals)
        if step is None:
            ended = "nothing more can be taken out" if possible[current] else "it is plain: there is nothing more to take out"
            break
        steps.append(step)
        on_step(step)
        current = step.plain
        possible[current] = features_found(rules, current)
    return Lineage(task, expert, tuple(_with_opened(steps, refusals, possible)), tuple(refusals.found), ended)


def _next_step(
    judged: JudgedKernels,
    task: Task,
    current: str,
    propose: Proposer,
    number: int,
    seen: Mapping[str, set[str]],
    refusals: _Refusals,
) -> Step | None:
    for proposal in propose(current, number, [attempt for _, attempt in refusals.found]):
        if proposal.edit.source in seen or refusals.spent(proposal):
            continue
        attempt = judged.undone(task, current, proposal.feature, proposal.edit)
        if attempt.correct:
            return Step(number, attempt, current, text=proposal.text)
        refusals.add(number - 1, attempt)
    return None


def _with_opened(steps: Sequence[Step], refusals: _Refusals, possible: Mapping[str, set[str]]) -> Iterator[Step]:
    """Each step with what it made possible: taken out later, and refused or not even found before it."""
    for place, step in enumerate(steps):
        opened = []
        for later in steps[place + 1 :]:
            refused_before = any(number == place and attempt.feature == later.feature for number, attempt in refusals.found)
            refused_after = any(number > place and attempt.feature == later.feature for number, attempt in refusals.found)
            found_before = later.feature in possible.get(step.before, set())
            found_after = later.feature in possible.get(step.plain, set())
            if (refused_before and not refused_after) or (not found_before and found_after):
                opened.append(later.feature)
        yield Step(step.number, step.attempt, step.before, tuple(dict.fromkeys(opened)), step.text)
