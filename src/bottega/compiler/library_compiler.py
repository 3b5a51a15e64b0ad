"""The last step of a course alone: one kernel a task, quickly, to train a small model in breadth.

A chain of calls gets the shelf's parts, with what lies between them fused. A network, which is a call graph of some length with several layers or one
that there is none of, keeps its own forward, gets its layers exchanged and is captured: what a reader of the call graph can tell decides, not the
level that somebody gave the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bottega.compiler.callgraph_names import calls_by_result, recorded
from bottega.compiler.compiler import VERSION, Compiler, StepBuilder, lower_task, target_of
from bottega.compiler.layers.passes import CAPTURED
from bottega.compiler.layers.steps import layer_steps
from bottega.compiler.networks import is_network
from bottega.compiler.planner import LIBRARY_FUNCTIONS, OWN_PASSES, PASSES
from bottega.compiler.steps import BuildSteps, Refusal
from bottega.core.task import Task
from bottega.languages import language_named


class LibraryCompiler:
    """In a language of the kernel library; another one has no such step, and is taught as the builder does."""

    def __init__(self) -> None:
        self.name = f"builder {VERSION} parts"
        self._compiler = Compiler()

    async def teach(self, task: Task, language: str, seed: int = 0) -> BuildSteps:
        return await asyncio.to_thread(self.build, task, language, frozenset(), seed)

    def build(self, task: Task, language: str, without: Iterable[str] = (), seed: int = 0) -> BuildSteps:
        """Raises `Refusal`."""
        excluded = frozenset(without)
        if not language_named(language).kernel_library:
            return self._compiler.build(task, language, excluded, seed)
        calls = calls_by_result(recorded(task.source)).values()
        if is_network(calls):
            steps = layer_steps(task, excluded)
            if any(step.technique != CAPTURED.name for step in steps):
                return BuildSteps(task.id, language, self.name, (steps[-1],))
        target = target_of(language)
        light = [pass_ for pass_ in PASSES if pass_.name not in OWN_PASSES]
        step = StepBuilder(lower_task(task), target, excluded).at_once((*light, *target.passes, LIBRARY_FUNCTIONS))
        if step is None:
            raise Refusal(f"{task.label}: no kernel of ours is left to write in {language}")
        return BuildSteps(task.id, language, self.name, (step,))
