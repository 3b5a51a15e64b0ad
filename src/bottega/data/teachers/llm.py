"""The `llm` teacher: any backbone through an episode. Its right kernels, from the slowest to the fastest, are the build steps.

The episode is judged while it runs, by whatever judge it is given; one that remembers spares the second verdict. Kernels that went wrong
and were put right later are handed on as well: no mistake is more real.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bottega.agents.prompts import Prompts
from bottega.backbone.client import Client
from bottega.compiler.build_step import FIRST_ATTEMPT, BuildStep, BuildSteps, Refusal
from bottega.core.candidate import Candidate
from bottega.core.closing import Closing
from bottega.core.device import DeviceFacts
from bottega.core.episode import Episode
from bottega.core.errors import BudgetError
from bottega.core.event import Judged, Wrote
from bottega.core.task import Task
from bottega.data.records import Mutant
from bottega.episodes.budget import BudgetCaps, RunBudget
from bottega.episodes.context import AsyncJudge, EpisodeContext
from bottega.episodes.episode import run_episode
from bottega.episodes.journal import EpisodeJournal
from bottega.episodes.node import SearchNode
from bottega.episodes.settings import EpisodeSettings

VERSION = "1"
SLUG_WORDS = 5
_LITTLE = frozenset(
    "a an and are as at by for from in into is it its of on one so that the then this to use uses using we with i".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class TeacherModel:
    """Who answers, and how far it may go."""

    spec: str
    """As the user named it; part of the teacher's name."""
    client: Client
    settings: EpisodeSettings = field(default_factory=EpisodeSettings)
    caps: BudgetCaps = field(default_factory=BudgetCaps)


class LlmTeacher(Closing):
    """Use it as a context manager: it keeps the log of its episodes, and a run that is started again goes on from there."""

    def __init__(
        self,
        model: TeacherModel,
        judge: AsyncJudge,
        device: DeviceFacts,
        folder: Path,
        failed: Callable[[Sequence[Mutant]], None] | None = None,
    ) -> None:
        self.model, self.failed = model, failed
        self.journal = EpisodeJournal(folder)
        prompts = Prompts(model.settings.style)
        self.context = EpisodeContext(model.client, judge, None, prompts, device, self.journal, RunBudget(model.caps))

    @property
    def name(self) -> str:
        return f"llm {VERSION} {self.model.spec}"

    def close(self) -> None:
        self.journal.close()

    async def teach(self, task: Task, language: str, seed: int = 0) -> BuildSteps:
        self._can_spend()
        settings = replace(self.model.settings, language=language, seed=seed)
        name = f"{task.id}/{language}/{seed}"
        episode = await run_episode(self.context, task, settings, name)
        nodes = self._nodes(name)
        build = build_steps_of(task, language, self.name, nodes, episode, settings.baseline)
        if self.failed is not None:
            self.failed(mutants_among(task, language, nodes))
        if not build.steps:
            self._can_spend()  # an episode that was cut short refuses nothing
            outcomes = ", ".join(sorted({str(node.verdict.outcome) if node.verdict else "no kernel" for node in nodes}))
            raise Refusal(f"none of {len(nodes)} kernels was right ({outcomes or 'none was written'})")
        return build

    def _can_spend(self) -> None:
        reason = self.context.budget.reached()
        if reason is not None:
            raise BudgetError(reason)

    def _nodes(self, episode: str) -> list[SearchNode]:
        """The episode's kernels as its log tells them."""
        verdicts = {e.node: e.verdict for e in self.journal.events if isinstance(e, Judged) and e.episode == episode}
        return [
            SearchNode(event.node, event.parent, event.scheme, replace(event.turn, verdict=verdicts.get(event.node)))
            for event in self.journal.events
            if isinstance(event, Wrote) and event.episode == episode
        ]


def build_steps_of(
    task: Task, language: str, teacher: str, nodes: Sequence[SearchNode], episode: Episode, baseline: str
) -> BuildSteps:
    """Right kernels by rising speed, each once. A step grew from the nearest right kernel before it in its line."""
    by_id = {node.id: node for node in nodes}
    right = [node for node in nodes if node.verdict is not None and node.verdict.outcome.accepted]
    right.sort(key=lambda node: node.score(baseline))
    steps: dict[str, BuildStep] = {}
    for node in right:
        parent = _right_before(node, by_id)
        # A card stands beside the first kernel that was written with it: what came later had it too, and is no comparison.
        cards = episode.schemes[node.scheme] if parent is None and node.scheme < len(episode.schemes) else ()
        technique = "+".join(cards) or slug(node.turn.summary) if parent is not None or cards else FIRST_ATTEMPT
        candidate = Candidate(node.turn.source, language, node.id, parent)
        if candidate.id not in steps and candidate.id != parent:
            steps[candidate.id] = BuildStep(candidate, technique, cards, node.turn.summary)
    return BuildSteps(task.id, language, teacher, tuple(steps.values()))


def mutants_among(task: Task, language: str, nodes: Sequence[SearchNode]) -> list[Mutant]:
    """Kernels that were wrong, with the right one that was written from them at once."""
    by_id = {node.id: node for node in nodes}
    found = []
    for node in nodes:
        before = by_id.get(node.parent or "")
        if node.verdict is None or not node.verdict.outcome.accepted or before is None or before.verdict is None:
            continue
        if not before.verdict.outcome.accepted:
            wrong = Candidate(before.turn.source, language, before.id, node.candidate.id)
            found.append(Mutant(task.id, wrong, f"model_{before.verdict.outcome.value}", ""))
    return found


def slug(summary: str) -> str:
    """A technique's name out of what the model says of it: its first few telling words."""
    words = [word for word in re.findall(r"[a-z0-9]+", summary.lower()) if word not in _LITTLE]
    return "_".join(words[:SLUG_WORDS]) or "unnamed"


def _right_before(node: SearchNode, by_id: dict[str, SearchNode]) -> str | None:
    """The candidate of the nearest ancestor that was right."""
    seen: set[str] = set()
    while node.parent is not None and node.parent in by_id and node.parent not in seen:
        seen.add(node.parent)
        node = by_id[node.parent]
        if node.verdict is not None and node.verdict.outcome.accepted:
            return node.candidate.id
    return None
