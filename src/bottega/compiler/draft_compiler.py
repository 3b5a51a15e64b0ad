"""Drafts of a task: one candidate for each point of the choices' space that makes a difference, the most promising first.

`draft` makes one, `variants` says which are worth making, `DraftCompiler` does both for the search and for `bottega optimize`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace

from bottega.compiler.build_step import BuildStep, BuildSteps, Refusal
from bottega.compiler.choices import Choices, Tuning
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.cuda_graph import REPLAY
from bottega.compiler.kernel import Convolution, Kernel, Map, Product, RowProgram
from bottega.compiler.merged_linears import MERGED_LINEARS
from bottega.compiler.model_class import with_model_class
from bottega.compiler.planner_passes import LIBRARY_FUNCTIONS, OWN_ATTENTION, PASSES
from bottega.compiler.step_compiler import VERSION, LoweredTask, StepBuilder, StepCompiler, lower_task, target_of
from bottega.core.task import Task
from bottega.languages import language_named

BLOCKS = (2048, 4096, 512)
ROW_WARPS = (4, 8, 16)
SHORT_DEPTH, MANY_ROWS = 256, 1024
NARROW_TYPES = ("float16", "bfloat16")
LONG_PLAN = 60
"""Kernels and calls of a plan: a longer one is written once, since every draft of it takes long to write and to compile."""
CAPTURED, SHELVED = "captured", LIBRARY_FUNCTIONS.name


class DraftCompiler:
    """As the `Teacher` protocol wants it: the steps of a build are its drafts, the most promising first."""

    def __init__(self, most: int = 12) -> None:
        self.name, self.most = f"builder {VERSION}", most

    async def teach(self, task: Task, language: str, seed: int = 0) -> BuildSteps:
        return await asyncio.to_thread(self.build, task, language)

    def build(self, task: Task, language: str) -> BuildSteps:
        """Raises `Refusal` where there is none."""
        task_id, task = task.id, with_model_class(task)
        found: list[BuildStep] = []
        if not language_named(language).kernel_library:
            found = promising_steps(StepCompiler().build(task, language).steps, language)
        else:
            lowered = _lowered(task)
            narrow = lowered is not None and _is_narrow(lowered)
            if not narrow:
                found = promising_steps(StepCompiler().build(task, language).steps, language)
            if lowered is not None:
                known = {step.candidate.source for step in found}
                found += itertools.islice(_made(lowered, language, known), max(0, self.most - len(found)))
        if not found:
            raise Refusal(f"{task.label}: no kernel of ours is left to write in {language}")
        return BuildSteps(task_id, language, self.name, tuple(found))


def draft(lowered: LoweredTask, language: str, choices: Choices) -> BuildStep | None:
    """The candidate that these choices give; None where they cannot be had."""
    target = target_of(language)
    passes: list[CompilerPass] = [*PASSES, *target.passes] if choices.fused else []
    passes += [OWN_ATTENTION] if choices.attention else []
    passes += [LIBRARY_FUNCTIONS] if choices.library else []
    passes += [MERGED_LINEARS] if choices.merged else []
    passes += [REPLAY] if choices.graph else []
    step = StepBuilder(lowered, target, frozenset()).at_once(passes, choices.tuning)
    return step and replace(step, technique=choices.label)


def variants(lowered: LoweredTask) -> Iterator[Choices]:
    """The choices that differ for this task, the most promising first.

    Large products and attention of halves are best left to the vendor's library, with everything around them in kernels of our own. It has
    no good kernels for products that memory limits and for depthwise convolutions; the kernel library has.
    """
    plan = lowered.plan(frozenset(pass_.name for pass_ in (*PASSES, OWN_ATTENTION)))
    if len(plan.kernels) > LONG_PLAN:
        yield Choices()
        return
    library, plain = Choices(library=True), Choices()
    heavy = [statement.kernel for statement in lowered.lowered.statements]
    first, last = (library, plain) if any(map(_is_limited_by_memory, heavy)) else (plain, library)
    yield from (first, Choices(merged=True), last, Choices(attention=True))
    yield from (replace(choices, graph=True) for choices in (first, last))
    for block in BLOCKS if any(isinstance(kernel, Map) for kernel in plan.kernels) else ():
        yield replace(first, tuning=Tuning(block=block))
    for warps in ROW_WARPS if any(isinstance(kernel, RowProgram) for kernel in plan.kernels) else ():
        yield replace(first, tuning=Tuning(row_warps=warps))
    yield Choices(fused=False)


def _is_limited_by_memory(kernel: Kernel | None) -> bool:
    """A product that moves more bytes than it computes for them, or a depthwise convolution. The rule follows from bytes and flops."""
    if isinstance(kernel, Convolution):
        return kernel.weight.shape[1] == 1 < kernel.groups and not kernel.transposed
    return isinstance(kernel, Product) and kernel.depth <= SHORT_DEPTH and kernel.rows >= MANY_ROWS


def promising_steps(steps: tuple[BuildStep, ...], language: str) -> list[BuildStep]:
    """Returns the ends of the build's branches, then the steps before them: a pass is not always a gain.

    The kernel library comes first where a build uses it: its functions were measured over many shapes, and choose when to call the vendor
    library. The last branch writes heavy operators too; in C++ it loses to MKL and oneDNN, so there the branch that keeps them comes
    first.
    """
    by_id = {step.candidate.id: step for step in steps}
    parents = {step.candidate.parent for step in steps}
    ends = [step for step in steps if step.candidate.id not in parents]
    if language_named(language).on_gpu:
        ends.reverse()
        ends.sort(key=lambda step: (step.technique == CAPTURED, step.technique != SHELVED))
    before = [by_id[step.candidate.parent] for step in ends if step.candidate.parent in by_id]
    return list({step.candidate.id: step for step in (*ends, *before)}.values())


def _lowered(task: Task) -> LoweredTask | None:
    try:
        return lower_task(task)
    except Refusal:
        return None


def _is_narrow(lowered: LoweredTask) -> bool:
    """Whether the module computes in halves."""
    return any(buffer.dtype in NARROW_TYPES for buffer in lowered.lowered.buffers.values())


def _made(lowered: LoweredTask, language: str, known: set[str]) -> Iterator[BuildStep]:
    """Those that differ from what is known and from each other."""
    for choices in variants(lowered):
        step = draft(lowered, language, choices)
        if step is not None and step.candidate.source not in known:
            known.add(step.candidate.source)
            yield step
