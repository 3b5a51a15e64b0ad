"""The compiler's last step alone: one candidate for each task, quickly, to train a small model on many tasks.

A chain of calls becomes calls of the kernel library, with what lies between them fused. A network (see `networks.is_network`) keeps its own
`forward`, gets its layers replaced and is captured in a CUDA graph. The call graph decides which of the two a task is, not its level.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bottega.compiler.build_step import BuildSteps, Refusal
from bottega.compiler.callgraph_names import calls_by_result, recorded
from bottega.compiler.layers.steps import layer_steps, replaces_layers
from bottega.compiler.network_rule import is_network
from bottega.compiler.planner_passes import FUSED, LIBRARY_FUNCTIONS, OWN_PASSES, PASSES
from bottega.compiler.step_compiler import VERSION, StepBuilder, StepCompiler, lower_task, target_of
from bottega.core.task import Task
from bottega.languages import language_named


class LibraryCompiler:
    """For languages that have a kernel library; for others it is the same as `StepCompiler`."""

    def __init__(self) -> None:
        self.name = f"compiler {VERSION} parts"
        self._compiler = StepCompiler()

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
            if replaces_layers(steps):
                return BuildSteps(task.id, language, self.name, (steps[-1],))
        target = target_of(language)
        light = [pass_ for pass_ in PASSES if pass_.name not in OWN_PASSES]
        builder, passes = StepBuilder(lower_task(task), target, excluded), (*light, *target.passes, LIBRARY_FUNCTIONS)
        step = builder.at_once(passes, FUSED if LIBRARY_FUNCTIONS.name in excluded else LIBRARY_FUNCTIONS)
        if step is None:
            raise Refusal(f"{task.label}: no kernel of ours is left to write in {language}")
        return BuildSteps(task.id, language, self.name, (step,))
