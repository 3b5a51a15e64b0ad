"""When a matrix product of our own is worth writing in Triton: where it does not lose to the library's.

Ours are large tiles of three TF32 products, which the library does not have: large products of fp32 gain by them. Narrow types it has on
the tensor cores: there ours pay only where the depth is short, so that memory is the limit and an epilogue in the same kernel saves a pass over it.
Products that are small or do not lie well leave our tiles half empty.
"""

from __future__ import annotations

from bottega.compiler.kernel import Product
from bottega.compiler.plan import KernelPlan

LEAST_SIDE, MULTIPLE = 128, 16
SHORT_DEPTH, MANY_ROWS = 64, 1024
"""Of halves: up to this depth and from so many rows on, a product moves more bytes than it computes for them. At a depth of 192 ours takes 33 us
where the library takes 21, which is more than a pass over the result (H200)."""


def products_pay(plan: KernelPlan) -> bool:
    """Whether all products that are left in a plan are of that kind. What has become attention is no product any more."""
    return all(pays(kernel) for kernel in plan.kernels if isinstance(kernel, Product))


def pays(product: Product) -> bool:
    """Whether ours does not lose to the library's."""
    lies_well = product.columns % MULTIPLE == 0 and product.depth % MULTIPLE == 0
    if product.dtype in ("float16", "bfloat16"):
        return lies_well and product.depth <= SHORT_DEPTH and product.rows >= MANY_ROWS
    return product.dtype == "float32" and lies_well and min(product.rows, product.columns, product.depth) >= LEAST_SIDE
