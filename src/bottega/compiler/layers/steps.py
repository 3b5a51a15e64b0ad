"""The steps of a network that stays a network: captured as it is, then one kind of layer after the other, then captured again.

Unrolled, a network of many layers is a file that nobody writes without a slip. With its layers exchanged it is the task's own text,
a few kernels that fit every shape, and a name changed here and there.
"""

from __future__ import annotations

from collections.abc import Collection

from bottega.compiler.cuda_graph import REPLAY
from bottega.compiler.layers.observe import Call, Observed, observe
from bottega.compiler.layers.pattern import applies
from bottega.compiler.layers.rewrite import Network, read, rewritten
from bottega.compiler.layers.techniques import CAPTURED, LAYERS
from bottega.compiler.layers.whole import KINDS, written
from bottega.compiler.link import completed
from bottega.compiler.steps import Refusal, Step
from bottega.compiler.style import Style
from bottega.core.candidate import Candidate
from bottega.core.task import Task

FEWEST_LAUNCHES = 8
FEWEST_CALLS = 2
"""Layers that a network must have for the form to be worth it: one layer alone is better written out."""
LEAST_SHARE = 0.02
"""Of the work of all layers, what a kind must do to be worth its text; a kernel that does nothing would be a decoy."""


def layer_steps(task: Task, style: Style, barred: Collection[str] = ()) -> list[Step]:
    """Nothing where the task is no network, or does what this form does not understand."""
    try:
        network = read(task)
        watched = {kind: f"Recorded{kind}" for kind in KINDS}
        observed = observe(network, rewritten(network, watched), watched)
        return _Steps(task, network, observed, style, frozenset(barred)).all()
    except Refusal:
        return []


class _Steps:
    def __init__(self, task: Task, network: Network, observed: Observed, style: Style, barred: frozenset[str]) -> None:
        self.task, self.network, self.observed, self.style, self.barred = task, network, observed, style, barred
        self.own = [call for call in observed.calls if applies(call)]

    @property
    def capturable(self) -> bool:
        return not self.observed.obstacle and self.observed.launches >= FEWEST_LAUNCHES

    def all(self) -> list[Step]:
        steps: list[Step] = []
        if self.capturable and CAPTURED.name not in self.barred:
            source = written(self.network, (), self.observed, self.style, graph=True)
            steps.append(Step(self._candidate(source, None), CAPTURED.name, CAPTURED.cards, CAPTURED.summary))
        kinds: tuple[str, ...] = ()
        last: Step | None = None
        for technique in LAYERS if len(self.own) >= FEWEST_CALLS else ():
            found = self._worth(technique.kinds)
            if not found or technique.name in self.barred:
                continue
            kinds += found
            source = written(self.network, kinds, self.observed, self.style, graph=False)
            parent = last.candidate.id if last else None
            last = Step(self._candidate(source, parent), technique.name, technique.cards, technique.summary)
            steps.append(last)
        if last is not None and self.capturable and REPLAY.name not in self.barred:
            source = written(self.network, kinds, self.observed, self.style, graph=True)
            steps.append(Step(self._candidate(source, last.candidate.id), REPLAY.name, REPLAY.cards, REPLAY.summary))
        return steps

    def _worth(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Those kinds that our kernels would really compute, where together they are more than a trifle."""
        total = sum(call.work for call in self.observed.calls)
        mine: list[Call] = [call for call in self.own if call.kind in kinds]
        if sum(call.work for call in mine) < LEAST_SHARE * total:
            return ()
        return tuple(kind for kind in kinds if any(call.kind == kind for call in mine))

    def _candidate(self, source: str, parent: str | None) -> Candidate:
        whole = completed(source, self.task.source) if self.style.plain else source
        return Candidate(whole, "triton", self.task.name, parent)
