"""Drafts of a task: one candidate for each point of the choices' space that makes a difference, the most promising first.

`draft` makes one, `variants` says which are worth making, `DraftCompiler` does both for the search and for `bottega optimize`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import replace

from bottega.compiler.build_step import BuildStep, BuildSteps, Refusal
from bottega.compiler.choices import Choices, Heavy, Tile, Tuning
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.cuda_graph import FEWEST_LAUNCHES, REPLAY, launches
from bottega.compiler.device_time import host_bound, operations
from bottega.compiler.grouped_products import OWN_GROUPED
from bottega.compiler.kernel import Attention, Convolution, GroupedProduct, Map, Product, RowProgram
from bottega.compiler.layers import passes as layer_passes
from bottega.compiler.library.cpp.vectors import PACKED_CALL
from bottega.compiler.matmul_rule import pays, products_pay
from bottega.compiler.merged_linears import MERGED_LINEARS
from bottega.compiler.model_class import with_model_class
from bottega.compiler.plan import KernelPlan
from bottega.compiler.planner_passes import (
    DEPTHWISE,
    FUSED,
    LIBRARY_FUNCTIONS,
    OWN_PASSES,
    OWN_RECURRENCE,
    PASSES,
    SHORT_PRODUCT,
)
from bottega.compiler.step_compiler import VERSION, LoweredTask, StepBuilder, StepCompiler, lower_task, nothing_left, target_of
from bottega.core.task import Task
from bottega.languages import language_named

KINDS: dict[Heavy, type] = {"product": Product, "convolution": Convolution, "attention": Attention, "grouped": GroupedProduct}
TILES = (
    Tile(128, 256, 64, 8, 3),
    Tile(128, 128, 64, 8, 4),
    Tile(128, 128, 32, 4, 4),
    Tile(64, 128, 64, 4, 4),
    Tile(64, 64, 64, 4, 4),
    Tile(32, 64, 128, 4, 4),
    Tile(16, 64, 256, 4, 4),
)
"""From large results to few rows; of these a search takes what fits the product."""
BLOCKS = (2048, 4096, 512)
ROW_WARPS = (4, 8, 16)
NARROW_TYPES = ("float16", "bfloat16", "float8_e4m3fn")
TRIFLE = 0.25
"""Of the operations of all products, convolutions and attentions."""
LONG_PLAN = 60
"""Kernels and calls of a plan: of a longer one there is one form, captured and not, since every draft of it takes long to write and to compile."""
CAPTURED, SHELVED = layer_passes.CAPTURED.name, LIBRARY_FUNCTIONS.name
LAYERED = frozenset((CAPTURED, REPLAY.name, *(pass_.name for pass_ in layer_passes.LAYER_PASSES)))


class DraftCompiler:
    """As the `Teacher` protocol wants it: the steps of a build are its drafts, the most promising first."""

    def __init__(self, most: int = 12) -> None:
        self.name, self.most = f"compiler {VERSION}", most

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
                found = promising_steps(StepCompiler().build(task, language, lowered=lowered).steps, language)
            if lowered is not None:
                if found and all(step.technique in LAYERED for step in found):
                    found[1:1] = _whole_network(lowered, language)
                elif found:
                    found = _own_work_first(found, lowered, language)
                known = {step.candidate.source for step in found}
                found += itertools.islice(_made(lowered, language, known), max(0, self.most - len(found)))
                # Of ten steps that another grew from, an H200 found none faster than what grew from it, and one fifty times slower.
                parents = {step.candidate.parent for step in found}
                found.sort(key=lambda step: (step.technique == CAPTURED, step.candidate.id in parents))
        if not found:
            raise nothing_left(lower_task(task), language)
        return BuildSteps(task_id, language, self.name, tuple(found))


def draft(lowered: LoweredTask, language: str, choices: Choices) -> BuildStep | None:
    """The candidate that these choices give; None where they cannot be had."""
    builder, passes = StepBuilder(lowered, target_of(language), frozenset()), passes_of_choices(language, choices)
    step = builder.at_once(passes, passes[-1] if passes else None, choices.tuning)
    return step and replace(step, technique=choices.label)


def passes_of_choices(language: str, choices: Choices) -> list[CompilerPass]:
    """All that are on, the last of them what the draft is named after."""
    fusion = (
        [*(pass_ for pass_ in PASSES if pass_.name not in OWN_PASSES), *target_of(language).passes] if choices.fused else []
    )
    chosen = [FUSED] if choices.fused else []
    own = {f"own_{kind}" for kind in choices.own}
    chosen += [pass_ for pass_ in (*PASSES, SHORT_PRODUCT, DEPTHWISE, OWN_GROUPED) if pass_.name in own]
    chosen += [LIBRARY_FUNCTIONS] if choices.library else []
    chosen += [MERGED_LINEARS] if choices.merged else []
    chosen += [REPLAY] if choices.graph else []
    return [*fusion, *chosen]


def variants(lowered: LoweredTask) -> Iterator[Choices]:
    """The choices that differ for this task, the most promising first.

    Large products and attention of halves are best left to the vendor's library, with everything around them in kernels of our own. Where
    memory limits a product, its epilogue in the same kernel saves more than the library's tiles do; and the library has no good kernels for
    depthwise convolutions.
    """
    plan = lowered.plan(frozenset(pass_.name for pass_ in (*PASSES, OWN_GROUPED)))
    kinds: tuple[Heavy, ...] = tuple(
        kind for kind, one in KINDS.items() if any(isinstance(kernel, one) for kernel in plan.kernels)
    )
    products = [kernel for kernel in plan.kernels if isinstance(kernel, Product)]
    if len(plan.kernels) > LONG_PLAN:
        yield Choices(graph=True)
        yield Choices()
        return
    light: tuple[Heavy, ...] = tuple(kind for kind in kinds if kind != "attention" or len(kinds) == 1)
    ruled: list[Heavy] = ["short_product"] if any(pays(product) for product in products) else []
    ruled += (
        ["depthwise"] if any(isinstance(k, Convolution) and k.weight.shape[1] == 1 < k.groups for k in plan.kernels) else []
    )
    first = [Choices(own=tuple(ruled)), Choices(own=tuple(ruled), merged=True), Choices()]
    if "grouped" in kinds:
        first.insert(1, Choices(own=(*ruled, "grouped")))
    first += [Choices(own=light), Choices(own=kinds)] if kinds else []
    first += [Choices(own=(kind,)) for kind in kinds]
    first = list(dict.fromkeys(first))
    if kinds and set(kinds) <= {"product", "attention"} and sum(map(launches, plan.kernels)) >= FEWEST_LAUNCHES:
        # A decoder layer's launches take the host up to five times as long as they take an H200.
        first.insert(2, replace(first[0], graph=True))
    yield from first
    yield from (each for each in (replace(choices, graph=True) for choices in (first[0], first[-1])) if each not in first)
    yield Choices(library=True)
    maps = [kernel for kernel in plan.kernels if isinstance(kernel, Map)]
    rows = [kernel for kernel in plan.kernels if isinstance(kernel, RowProgram)]
    base = first[0]
    for block in BLOCKS if maps else ():
        yield replace(base, tuning=Tuning(block=block))
    for warps in ROW_WARPS if rows else ():
        yield replace(base, tuning=Tuning(row_warps=warps))
    if products:
        yield from _tiled(products, light)
    yield Choices(fused=False)


def _tiled(products: list[Product], own: tuple[Heavy, ...]) -> Iterator[Choices]:
    """Tiles no larger than the largest product, and splits where its result has few of them."""
    most = max(products, key=lambda product: product.rows * product.columns * product.depth)
    for tile in TILES:
        if tile.rows <= max(16, 2 * most.rows) and tile.columns <= max(64, 2 * most.columns):
            yield Choices(own=own, tuning=Tuning(tile))
            count = -(-most.rows // tile.rows) * -(-most.columns // tile.columns)
            if count < 132 and not most.batch:
                yield from (Choices(own=own, tuning=Tuning(tile, splits)) for splits in (2, 4, 8) if most.depth % splits == 0)


def promising_steps(steps: tuple[BuildStep, ...], language: str) -> list[BuildStep]:
    """Returns the ends of the build's branches, then the steps before them: a pass is not always a gain.

    The kernel library comes first where a build uses it: its functions were measured over many shapes, and choose when to call the vendor
    library. The last branch writes products and convolutions too. On a GPU that often wins; in C++ products win where their weights are packed
    once, and convolutions lose to oneDNN, so there that branch comes first. A module that is only captured comes last: it has no kernel of ours.
    """
    by_id = {step.candidate.id: step for step in steps}
    parents = {step.candidate.parent for step in steps}
    ends = [step for step in steps if step.candidate.id not in parents]
    if language_named(language).on_gpu:
        ends.reverse()
        ends.sort(key=lambda step: step.technique != SHELVED)
    else:
        ends.sort(key=lambda step: PACKED_CALL not in step.candidate.source or "conv" in step.candidate.source)
    before = [by_id[step.candidate.parent] for step in ends if step.candidate.parent in by_id]
    found = list({step.candidate.id: step for step in (*ends, *before)}.values())
    return sorted(found, key=lambda step: step.technique == CAPTURED)


def _lowered(task: Task) -> LoweredTask | None:
    try:
        return lower_task(task)
    except Refusal:
        return None


def _whole_network(lowered: LoweredTask, language: str) -> list[BuildStep]:
    """Of a long network whose layers are exchanged one by one, the draft that is fused between layers, captured where it can be."""
    drafts = (draft(lowered, language, choices) for choices in (Choices(graph=True), Choices()))
    return list(itertools.islice((step for step in drafts if step is not None), 1))


def _own_work_first(found: list[BuildStep], lowered: LoweredTask, language: str) -> list[BuildStep]:
    """With the draft that leaves nothing heavy to torch in second place, or in the first where the host's launches take longer than the device: that
    one is captured, and the kernel library's is not.

    Of ten networks whose drafts an H200 judged it was the fastest in five, and second to the kernel library's in the others.
    """
    plan = lowered.plan(frozenset((OWN_RECURRENCE, *(pass_.name for pass_ in PASSES))))
    kinds = _own_kinds(plan)
    if not kinds or len(plan.kernels) > LONG_PLAN:
        return found
    hurried = host_bound(plan)
    made = (draft(lowered, language, Choices(own=kinds, graph=graph)) for graph in ((True, False) if hurried else (False,)))
    step = next((step for step in made if step is not None), None)
    if step is None:
        return found
    known = next((one for one in found if one.candidate.source == step.candidate.source), step)
    rest = [one for one in found if one is not known]
    if hurried:
        rest.sort(key=lambda one: (one.technique == SHELVED) - (one.technique == REPLAY.name))
    place = 1 if rest and rest[0].technique == SHELVED else 0
    return [*rest[:place], known, *rest[place:]]


def _own_kinds(plan: KernelPlan) -> tuple[Heavy, ...]:
    """The heavy operators of a plan, but for products where ours lose to the library's and which are a trifle beside the others."""
    work = {
        kind: sum(operations(kernel) for kernel in plan.kernels if isinstance(kernel, KINDS[kind]))
        for kind in KINDS
        if kind != "grouped"
    }
    if not products_pay(plan) and 0 < work["product"] <= TRIFLE * sum(work.values()):
        del work["product"]
    return tuple(kind for kind, count in work.items() if count)


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
