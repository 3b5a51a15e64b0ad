"""The last step of a course alone: one kernel a task, quickly, to train a small model in breadth.

A chain of calls gets the shelf's parts, with what lies between them fused. A network, which is a call graph of some length with several layers or one
that there is none of, keeps its own forward, gets its layers exchanged and is captured: what a reader of the call graph can tell decides, not the
level that somebody gave the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bottega.compiler.builder import VERSION, Bench, Builder, understand, writer_of
from bottega.compiler.callgraph_names import calls_by_result, recorded
from bottega.compiler.layers.steps import layer_steps
from bottega.compiler.layers.techniques import CAPTURED
from bottega.compiler.networks import is_network
from bottega.compiler.planner import OWN_TECHNIQUES, SHELVED, TECHNIQUES
from bottega.compiler.steps import Course, Refusal
from bottega.core.task import Task
from bottega.languages import language_named


class PartsBuilder:
    """In a language of the kernel library; another one has no such step, and is taught as the builder does."""

    def __init__(self) -> None:
        self.name = f"builder {VERSION} parts"
        self._courses = Builder()

    async def teach(self, task: Task, language: str, seed: int = 0) -> Course:
        return await asyncio.to_thread(self.build, task, language, frozenset(), seed)

    def build(self, task: Task, language: str, without: Iterable[str] = (), seed: int = 0) -> Course:
        """Raises `Refusal`."""
        barred = frozenset(without)
        if not language_named(language).kernel_library:
            return self._courses.build(task, language, barred, seed)
        calls = calls_by_result(recorded(task.source)).values()
        if is_network(calls):
            steps = layer_steps(task, barred)
            if any(step.technique != CAPTURED.name for step in steps):
                return Course(task.id, language, self.name, (steps[-1],))
        writer = writer_of(language)
        light = [technique for technique in TECHNIQUES if technique.name not in OWN_TECHNIQUES]
        step = Bench(understand(task), writer, barred).at_once((*light, *writer.techniques, SHELVED))
        if step is None:
            raise Refusal(f"{task.label}: no kernel of ours is left to write in {language}")
        return Course(task.id, language, self.name, (step,))
