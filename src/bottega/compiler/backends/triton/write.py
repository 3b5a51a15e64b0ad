"""The Triton backend: one function for each kernel, and a `forward` that allocates, launches and returns."""

from __future__ import annotations

from dataclasses import replace

from bottega.compiler.backends.triton.attention import write_attention
from bottega.compiler.backends.triton.call import write_call
from bottega.compiler.backends.triton.convolution import write_convolution
from bottega.compiler.backends.triton.grouped_product import write_grouped_product
from bottega.compiler.backends.triton.kernel_writer import HELPERS, FileWriter, HeldLaunch
from bottega.compiler.backends.triton.map import write_map
from bottega.compiler.backends.triton.matmul import write_product
from bottega.compiler.backends.triton.narrow_functions import in_halves
from bottega.compiler.backends.triton.pool import write_pool
from bottega.compiler.backends.triton.recurrence import both_ways, write_recurrence
from bottega.compiler.backends.triton.rows import write_rows
from bottega.compiler.backends.triton.scan import write_scan
from bottega.compiler.backends.triton.side_by_side import SIDE_BY_SIDE, go_together, write_together
from bottega.compiler.bodies import made, stores
from bottega.compiler.kernel import (
    Attention,
    Convolution,
    FunctionCall,
    GroupedProduct,
    Kernel,
    Map,
    Pool,
    Product,
    Recurrence,
    RowProgram,
    Scan,
)
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import KernelPlan


def write(plan: KernelPlan, frame: Frame, passes: frozenset[str]) -> str:
    """The candidate's whole source. Raises `Refusal` for what cannot be written."""
    plan = replace(plan, buffers=dict(plan.buffers))  # workspaces join the plan's buffers
    file = FileWriter(plan, passes)
    file.known = list(plan.inputs)
    for name, python in plan.prepared:
        file.forward.append(f"{name} = {python}")
        file.known.append(name)
    before: list[str] = []
    paired: set[int] = set()
    for place, kernel in enumerate(plan.kernels):
        if place in paired or (place and both_ways(plan.kernels[place - 1], kernel)):
            continue  # written with the kernel before it
        if (chunk := plan.chunk_from(place)) is not None:
            for name in chunk.filled:
                file.allocate(name)
            file.known += [name for name, _ in chunk.parts]
            before, file.forward = file.forward, []
        _room(file, kernel)
        file.making = made(kernel)[-1]
        if isinstance(kernel, Recurrence):
            after = plan.kernels[place + 1 : place + 2]
            write_recurrence(file, [kernel, *(one for one in after if isinstance(one, Recurrence) and both_ways(kernel, one))])
        else:
            partner = None if plan.chunks or not file.on(SIDE_BY_SIDE) else next(iter(plan.kernels[place + 1 :]), None)
            if partner is not None and go_together(kernel, partner):
                paired.add(place + 1)
                write_together(file, _held(file, kernel, partner))
            else:
                _write(file, in_halves(kernel))
        if (chunk := plan.chunk_until(place)) is not None:
            file.forward = [*before, chunk.loop(file.forward)]
    file.forward += [f"{name}.copy_({text})" for name, text in plan.changed]
    file.forward.append(f"return {plan.returns}")
    helpers = [HELPERS[name] for name in sorted(file.helpers)]
    imports = {"import triton", "import triton.language as tl", *file.imports} if file.functions else file.imports
    return frame.render(imports, "\n\n\n".join(helpers + file.functions), file.forward)


def _write(file: FileWriter, kernel: Kernel) -> None:
    if isinstance(kernel, Map):
        write_map(file, kernel)
    elif isinstance(kernel, RowProgram):
        write_rows(file, kernel)
    elif isinstance(kernel, Product):
        write_product(file, kernel)
    elif isinstance(kernel, Convolution):
        write_convolution(file, kernel)
    elif isinstance(kernel, Pool):
        write_pool(file, kernel)
    elif isinstance(kernel, Scan):
        write_scan(file, kernel)
    elif isinstance(kernel, Attention):
        write_attention(file, kernel)
    elif isinstance(kernel, GroupedProduct):
        write_grouped_product(file, kernel)
    elif isinstance(kernel, FunctionCall):
        write_call(file, kernel)


def _held(file: FileWriter, *kernels: Kernel) -> list[HeldLaunch]:
    """What the kernels launch, with the lines of `forward` that they need before."""
    file.held = held = list[HeldLaunch]()
    for kernel in kernels:
        _room(file, kernel)
        file.making = made(kernel)[-1]
        _write(file, in_halves(kernel))
    file.held = None
    return held


def _room(file: FileWriter, kernel: Kernel) -> None:
    """Allocates what a kernel writes, unless an earlier one already wrote a part of it."""
    for item in stores(kernel):
        name = item.view.buffer
        if name not in file.known:
            file.allocate(name)
