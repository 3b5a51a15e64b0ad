"""The last step of the plain style alone: one kernel a task, quickly, to train a small model in breadth.

A chain of calls gets the shelf's parts, with what lies between them fused. A network, which is a sketch of some length with several layers or one
that there is none of, keeps its own forward, gets its layers exchanged and is captured: what a reader of the sketch can tell decides, not the
level that somebody gave the task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bottega.compiler.builder import VERSION, Bench, Builder, understand, writer_of
from bottega.compiler.callgraph_names import sketch_lines, told
from bottega.compiler.layers.steps import layer_steps
from bottega.compiler.layers.techniques import CAPTURED
from bottega.compiler.networks import is_network
from bottega.compiler.planner import OWN_TECHNIQUES, SHELVED, TECHNIQUES
from bottega.compiler.steps import Course, Refusal
from bottega.compiler.style import Style
from bottega.core.candidate import Language
from bottega.core.task import Task


class PartsBuilder:
    """In Triton; another language has no such step, and is taught as the plain builder does."""

    def __init__(self) -> None:
        self.name = f"builder {VERSION} parts"
        self._courses = Builder(plain=True)

    async def teach(self, task: Task, language: Language, seed: int = 0) -> Course:
        return await asyncio.to_thread(self.build, task, language, frozenset(), seed)

    def build(self, task: Task, language: Language, without: Iterable[str] = (), seed: int = 0) -> Course:
        """Raises `Refusal`."""
        style, barred = Style(seed, plain=True), frozenset(without)
        if language != "triton":
            return self._courses.build(task, language, barred, seed)
        calls = told(sketch_lines(task.source)).values()
        if is_network(calls):
            steps = layer_steps(task, style, barred)
            if any(step.technique != CAPTURED.name for step in steps):
                return Course(task.id, language, self.name, (steps[-1],))
        writer = writer_of(language)
        light = [technique for technique in TECHNIQUES if technique.name not in OWN_TECHNIQUES]
        step = Bench(understand(task, style), writer, style, barred).at_once((*light, *writer.techniques, SHELVED))
        if step is None:
            raise Refusal(f"{task.label}: no kernel of ours is left to write in {language}")
        return Course(task.id, language, self.name, (step,))
