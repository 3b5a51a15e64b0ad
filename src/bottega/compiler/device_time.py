"""About how long a plan takes on a large GPU, and whether the host takes longer to launch it. It orders drafts; the judge measures them."""

from __future__ import annotations

import math

from bottega.compiler.bodies import made, read
from bottega.compiler.cuda_graph import launches
from bottega.compiler.kernel import Attention, Convolution, Kernel, Product
from bottega.compiler.plan import KernelPlan

LAUNCH = 30e-6
"""Seconds of the host for a launch from Python, with what it allocates."""
BANDWIDTH, RATE = 3e12, 1e14
"""Bytes and operations in a second: of an H200's memory, and of three TF32 products for one of fp32."""
BYTES = 4


def operations(kernel: Kernel) -> int:
    """Of a product, a convolution or attention; the others are limited by memory."""
    if isinstance(kernel, Product):
        return 2 * math.prod(kernel.batch) * kernel.rows * kernel.columns * kernel.depth
    if isinstance(kernel, Convolution):
        moved = kernel.source.shape if kernel.transposed else kernel.shape
        return 2 * math.prod(moved) * math.prod(kernel.weight.shape[1:])
    if isinstance(kernel, Attention):
        return 2 * math.prod(kernel.batch) * kernel.queries * kernel.keys * (kernel.width + kernel.value_width)
    return 0


def device_seconds(plan: KernelPlan) -> float:
    moved = sum(
        BYTES * plan.buffers[name].size
        for kernel in plan.kernels
        for name in {*read(kernel), *made(kernel)}
        if name in plan.buffers
    )
    return moved / BANDWIDTH + sum(map(operations, plan.kernels)) / RATE


def host_bound(plan: KernelPlan) -> bool:
    """Whether a CUDA graph pays for the copies of inputs and results that it takes."""
    return device_seconds(plan) < LAUNCH * sum(map(launches, plan.kernels))
