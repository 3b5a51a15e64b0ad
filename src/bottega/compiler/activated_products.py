"""A bias and a GELU by tanh in the library's own product: cuBLASLt applies it before it stores.

Apart, the activation reads the product's result and writes it again, which for a feed-forward layer is the largest tensor that there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from bottega.compiler.bodies import made, read
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.expression import Apply, Cast, Constant, Expression, Load, walk
from bottega.compiler.kernel import FunctionCall, Kernel, Map
from bottega.compiler.summed_products import linear_factors
from bottega.compiler.view import Buffer

ACTIVATED_PRODUCTS = CompilerPass(
    "activated_products",
    "A product of halves with a bias, left to the vendor's library, and a GELU by tanh that alone reads it, beside kernels of ours.",
    "Let the library's product apply the activation ({origin}).",
)
ACTIVATED = "linear_activated"
LINEAR_ACTIVATED = f'''def {ACTIVATED}(x, weight, bias, shape):
    """A product with a bias and GELU (by tanh), in one kernel of the library."""
    x = x.reshape(-1, x.shape[-1])
    if x.is_cuda:
        return torch._addmm_activation(bias, x, weight.t(), use_gelu=True).view(shape)
    return torch.nn.functional.gelu(torch.addmm(bias, x, weight.t()), approximate="tanh").view(shape)'''
"""What a candidate with such a product needs."""
POINTS = torch.cat((torch.linspace(-6, 6, 97), torch.tensor([-1e3, -60.0, -30.0, -12.0, 12.0, 30.0, 60.0, 1e3]))).double()
"""Where an activation is told by its values: it may be written in many ways."""
CLOSE = 1e-6
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "neg": torch.neg, "square": torch.square,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid, "exp": torch.exp,
}  # fmt: skip


def activated_products(kernels: list[Kernel], buffers: dict[str, Buffer], kept: set[str]) -> list[Kernel]:
    """`kept`: buffers that are returned, or given back in a layout of their own."""
    for place, kernel in enumerate(kernels):
        found = _activation(kernel, buffers)
        call = next((one for one in kernels if found is not None and found in made(one)), None)
        alone = all(isinstance(one, FunctionCall) for one in kernels if one is not kernel)
        if found is None or alone or found in kept or sum(found in read(one) for one in kernels) != 1:
            continue
        factors = linear_factors(call, buffers)
        if factors is None or factors[2] is None or not isinstance(kernel, Map) or not isinstance(call, FunctionCall):
            continue
        result = kernel.stores[0].view.buffer
        arguments = (*factors, buffers[result].shape)
        whole = FunctionCall(ACTIVATED, arguments, (), (result,), (*call.origin, *kernel.origin))
        rest = [whole if number == place else one for number, one in enumerate(kernels) if one is not call]
        return activated_products(rest, buffers, kept)
    return kernels


def _activation(kernel: Kernel, buffers: dict[str, Buffer]) -> str | None:
    """The buffer of halves that a map takes a GELU of, element by element."""
    if not isinstance(kernel, Map) or len(kernel.stores) != 1 or not kernel.stores[0].view.contiguous:
        return None
    body, store = kernel.stores[0].body, kernel.stores[0]
    loads = {node for node in walk(body) if not isinstance(node, Apply | Cast | Constant)}
    load = loads.pop() if len(loads) == 1 else None
    if not isinstance(load, Load) or load.dtype != store.dtype or load.dtype not in ("float16", "bfloat16"):
        return None
    source, view = buffers[load.view.buffer], load.view
    whole = view.contiguous and not view.offset and not source.strides and source.size == math.prod(kernel.shape)
    if not whole or buffers[store.view.buffer].size != source.size:
        return None
    values, wanted = _values(body), torch.nn.functional.gelu(POINTS, approximate="tanh")
    return source.name if values is not None and torch.allclose(values, wanted, rtol=0, atol=CLOSE) else None


def _values(body: Expression) -> torch.Tensor | None:
    """What it is at the points; None where it has a function that no such GELU is written with."""
    if isinstance(body, Load):
        return POINTS
    if isinstance(body, Constant):
        return torch.full_like(POINTS, float(body.value))
    if isinstance(body, Cast):
        return _values(body.argument) if body.dtype in ("float32", "float64") else None
    inside = (
        [_values(argument) for argument in body.arguments] if isinstance(body, Apply) and body.function in FUNCTIONS else [None]
    )
    return None if any(value is None for value in inside) else FUNCTIONS[body.function](*inside)  # type: ignore[union-attr]
