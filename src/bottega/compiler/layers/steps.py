"""The steps of a network that stays a network: captured as it is, then one kind of layer after the other, then captured again.

Unrolled, a network of many layers is a file that nobody writes without a slip. With its layers exchanged it is the task's own text,
and a few lines that name the kinds of layers.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from bottega.compiler.build_step import BuildStep, Refusal
from bottega.compiler.cuda_graph import REPLAY
from bottega.compiler.layers.network import NetworkSource, read_network
from bottega.compiler.layers.observe import LayerCall, Observed, has_kernel, observe
from bottega.compiler.layers.passes import CAPTURED, LAYER_PASSES
from bottega.compiler.layers.render import render_network
from bottega.compiler.link import linked
from bottega.compiler.network_rule import has_names_of_capture
from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.languages import library_language

FEWEST_LAUNCHES = 8
FEWEST_CALLS = 2
"""Layers that a network must have for the form to be worth it: one layer alone is better written out."""
LEAST_SHARE = 0.02
"""Of the work of all layers, what a kind must do to be worth its text; a kernel that does nothing would be a decoy."""


def layer_steps(task: Task, excluded: Collection[str] = ()) -> list[BuildStep]:
    """Nothing where the task is no network, or does what this form does not understand."""
    try:
        network = read_network(task)
        return _Steps(task, network, observe(network), frozenset(excluded)).all()
    except Refusal:
        return []


def replaces_layers(steps: Sequence[BuildStep]) -> bool:
    """Whether they do more than capture the network as it is."""
    return any(step.technique != CAPTURED.name for step in steps)


class _Steps:
    def __init__(self, task: Task, network: NetworkSource, observed: Observed, excluded: frozenset[str]) -> None:
        self.task, self.network, self.observed, self.excluded = task, network, observed, excluded
        self.own = [call for call in observed.calls if has_kernel(call)]

    @property
    def capturable(self) -> bool:
        named = has_names_of_capture(ast.unparse(self.network.model))
        return not self.observed.obstacle and not named and self.observed.launches >= FEWEST_LAUNCHES

    def all(self) -> list[BuildStep]:
        steps: list[BuildStep] = []
        if self.capturable and CAPTURED.name not in self.excluded:
            source = render_network(self.network, (), self.observed, graph=True)
            steps.append(BuildStep(self._candidate(source, None), CAPTURED.name, CAPTURED.cards, CAPTURED.summary))
        kinds: tuple[str, ...] = ()
        last: BuildStep | None = None
        for pass_ in LAYER_PASSES if len(self.own) >= FEWEST_CALLS else ():
            found = self._worth(pass_.kinds)
            if not found or pass_.name in self.excluded:
                continue
            kinds += found
            source = render_network(self.network, kinds, self.observed, graph=False)
            parent = last.candidate.id if last else None
            last = BuildStep(self._candidate(source, parent), pass_.name, pass_.cards, pass_.summary)
            steps.append(last)
        if last is not None and self.capturable and REPLAY.name not in self.excluded:
            source = render_network(self.network, kinds, self.observed, graph=True)
            steps.append(BuildStep(self._candidate(source, last.candidate.id), REPLAY.name, REPLAY.cards, REPLAY.summary))
        return steps

    def _worth(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Those kinds that our kernels would really compute, where together they are more than a trifle. A name that the task has for something
        of its own stands for that."""
        total = sum(call.work for call in self.observed.calls)
        mine: list[LayerCall] = [call for call in self.own if call.kind in kinds]
        if sum(call.work for call in mine) < LEAST_SHARE * total:
            return ()
        return tuple(kind for kind in kinds if any(call.kind == kind for call in mine) and kind not in self.network.names)

    def _candidate(self, source: str, parent: str | None) -> Candidate:
        return Candidate(linked(source, self.task.source), library_language().name, self.task.name, parent)
