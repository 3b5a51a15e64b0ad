"""Cards beside kernels: which of the library's cards helped on a task, measured, and which were there and did not.

A card helped where the kernel that uses its technique is surely faster than the one without it: the step and the step that it grew
from, on the same task, with intervals that do not touch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bottega.compiler.callgraph import CallGraph
from bottega.compiler.callgraph_tracer import shared_tracer
from bottega.compiler.workload import workload_of
from bottega.core.device import DeviceFacts
from bottega.core.skill import Skill, SkillState
from bottega.core.task import Task
from bottega.core.workload import Workload
from bottega.data.records import JudgedStep, JudgedTask, best_of, gain_over, surely_faster
from bottega.skills.library import Library
from bottega.skills.query import query_for
from bottega.skills.retrieve import Filter

SMALL = 1.25
"""A gain below this is none where figures are not sure."""


@dataclass(frozen=True)
class CardTrials:
    """What is known of the cards of a task in one language."""

    helped: dict[str, float]
    """Cards whose technique was surely faster than without it, with the largest gain."""
    unsure: frozenset[str]
    """Cards whose technique was tried, is not surely faster, and may be by more than `SMALL`: nobody knows."""


class CardIndex:
    """The library as it was at one version, read for one device."""

    def __init__(
        self,
        library: Library,
        device: DeviceFacts,
        version: int | None = None,
        retrieved: int = 20,
        callgraphs: Mapping[str, CallGraph | None] | None = None,
    ) -> None:
        """`callgraphs`: by task, those that are known already."""
        self.library, self.device, self.version, self.k = library, device, version, retrieved
        self.callgraphs = callgraphs or {}
        self._cards = {card.name: card for card in library.cards(at=version)}

    def of(self, names: Sequence[str], language: str) -> list[Skill]:
        """Cards by name; those that the library lacks, or that are for another language or device, are left out."""
        found = [self._cards[name] for name in names if name in self._cards]
        return [card for card in found if language in card.languages and self.device.kind in card.devices]

    def workload(self, task: Task) -> Callable[[], Workload]:
        def found() -> Workload:
            graph = self.callgraphs.get(task.id)
            return workload_of(graph, self.device) if graph is not None else shared_tracer().workload(task, self.device)

        return found

    def retrieved(self, judged_task: JudgedTask) -> list[Skill]:
        """What a selector is shown, best first."""
        states = (SkillState.ADMITTED, SkillState.PROPOSED)
        only = Filter(states, judged_task.language, self.device.kind, workload=self.workload(judged_task.task))
        at = None if self.version == self.library.version else self.version
        return [hit.skill for hit in self.library.search(query_for(judged_task.task), self.k, only, at=at)]

    def known(self, judged_task: JudgedTask, without: str, most: int = 5) -> list[Skill]:
        """Similar cards, as the summariser is shown them, without the one that it is to write."""
        only = Filter(tuple(SkillState), judged_task.language)
        at = None if self.version == self.library.version else self.version
        hits = self.library.search(query_for(judged_task.task), most + 1, only, at=at)
        return [hit.skill for hit in hits if hit.skill.name != without][:most]

    def for_writing(self, judged_task: JudgedTask, best: JudgedStep, baseline: str) -> tuple[list[Skill], list[Skill]]:
        """Cards that helped and are part of this kernel, most gain first; and retrieved cards that are no part of any kernel of the task."""
        tried = tried_cards(judged_task, baseline)
        own = [name for name in sorted(tried.helped, key=lambda name: -tried.helped[name]) if name in best.cards]
        part = {name for build in judged_task.builds for attempt in build for name in attempt.cards}
        return self.of(own, judged_task.language), [card for card in self.retrieved(judged_task) if card.name not in part]


def tried_cards(judged_task: JudgedTask, baseline: str) -> CardTrials:
    helped: dict[str, float] = {}
    unsure: set[str] = set()
    for build in judged_task.builds:
        by_id = {attempt.id: attempt for attempt in build}
        plain = best_of(
            (attempt for attempt in build if not attempt.step.candidate.parent and not attempt.step.cards), baseline
        )
        for attempt in build:
            # A kernel that grew from none is held against the best first kernel that was written without cards.
            without = by_id.get(attempt.step.candidate.parent) if attempt.step.candidate.parent else plain
            if without is None or not attempt.step.cards:
                continue
            if surely_faster(attempt.verdict, without.verdict, baseline):
                gain = gain_over(attempt, without, baseline)
                for name in attempt.step.cards:
                    helped[name] = max(gain, helped.get(name, 0.0))
            elif _may_gain(attempt, without, baseline):
                unsure.update(attempt.step.cards)
    return CardTrials(helped, frozenset(unsure - helped.keys()))


def _may_gain(attempt: JudgedStep, without: JudgedStep, baseline: str) -> bool:
    """Whether the intervals leave room for a gain worth having. A kernel that is wrong or was not timed tells nothing of its technique."""
    one, other = attempt.speedup(baseline), without.speedup(baseline)
    return one is None or other is None or one.high > SMALL * other.low
