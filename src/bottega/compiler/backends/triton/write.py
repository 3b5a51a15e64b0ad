"""A plan written down in Triton: one function for each kernel, and a `forward` that makes room, launches and returns."""

from __future__ import annotations

from dataclasses import replace

from bottega.compiler.backends.triton.attention import write_attention
from bottega.compiler.backends.triton.call import write_call
from bottega.compiler.backends.triton.convolution import write_convolution
from bottega.compiler.backends.triton.kernel_text import NAN_HELPERS, Page
from bottega.compiler.backends.triton.map import write_map
from bottega.compiler.backends.triton.naming import hand_of
from bottega.compiler.backends.triton.pool import write_pool
from bottega.compiler.backends.triton.product import write_product
from bottega.compiler.backends.triton.rows import write_rows
from bottega.compiler.backends.triton.scan import write_scan
from bottega.compiler.bodies import made
from bottega.compiler.kernel import (
    Attention,
    Call,
    Convolution,
    Kernel,
    Map,
    Pool,
    Product,
    Rows,
    Scan,
    Store,
)
from bottega.compiler.module_frame import Frame
from bottega.compiler.plan import Plan
from bottega.compiler.style import Style


def write(plan: Plan, frame: Frame, techniques: frozenset[str], style: Style) -> str:
    """The candidate's whole source. Raises `Refusal` for what cannot be written."""
    plan = replace(plan, buffers=dict(plan.buffers))  # workspaces join the plan's buffers
    page = Page(plan, style, hand_of(style), techniques)
    page.known = list(plan.inputs)
    for name, python in plan.prepared:
        page.forward.append(f"{name} = {python}")
        page.known.append(name)
    for kernel in plan.kernels:
        _room(page, kernel)
        page.making = made(kernel)[-1]
        _write(page, kernel)
    page.forward.append(f"return {plan.returns}")
    helpers = [NAN_HELPERS[name] for name in sorted(page.helpers)]
    imports = {"import triton", "import triton.language as tl", *page.imports} if page.functions else page.imports
    return frame.render(imports, "\n\n\n".join(helpers + page.functions), page.forward)


def _write(page: Page, kernel: Kernel) -> None:
    if isinstance(kernel, Map):
        write_map(page, kernel)
    elif isinstance(kernel, Rows):
        write_rows(page, kernel)
    elif isinstance(kernel, Product):
        write_product(page, kernel)
    elif isinstance(kernel, Convolution):
        write_convolution(page, kernel)
    elif isinstance(kernel, Pool):
        write_pool(page, kernel)
    elif isinstance(kernel, Scan):
        write_scan(page, kernel)
    elif isinstance(kernel, Attention):
        write_attention(page, kernel)
    elif isinstance(kernel, Call):
        write_call(page, kernel)


def stores_of(kernel: Kernel) -> tuple[Store, ...]:
    if isinstance(kernel, Rows):
        return kernel.row_stores + kernel.element_stores
    if isinstance(kernel, Map | Product | Convolution | Pool | Scan | Attention):
        return kernel.stores
    return ()


def _room(page: Page, kernel: Kernel) -> None:
    """Allocates what a kernel writes, unless an earlier one already wrote a part of it."""
    for item in stores_of(kernel):
        name = item.view.buffer
        if name not in page.known:
            page.allocate(name)
