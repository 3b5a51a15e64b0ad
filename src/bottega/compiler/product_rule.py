"""When a matrix product of our own is worth writing in Triton: where it does not lose to the library's.

Ours are large tiles of three TF32 products, which the library does not have: large products of fp32 gain by them. Narrow types it has on
the tensor cores, and products that are small or do not lie well leave our tiles half empty.
"""

from __future__ import annotations

from bottega.compiler.kernel import Product
from bottega.compiler.plan import Plan

LEAST_SIDE, MULTIPLE = 128, 16


def products_pay(plan: Plan) -> bool:
    """Whether all products that are left in a plan are of that kind. What has become attention is no product any more."""
    return all(_pays(kernel) for kernel in plan.kernels if isinstance(kernel, Product))


def _pays(product: Product) -> bool:
    large = min(product.rows, product.columns, product.depth) >= LEAST_SIDE
    return product.dtype == "float32" and large and product.columns % MULTIPLE == 0 and product.depth % MULTIPLE == 0
