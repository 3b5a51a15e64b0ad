"""A residual added to a linear layer that is left to the library: the product goes on from the residual where it lies.

Apart, the sum reads two tensors and writes one, after the product has written its own. The library's product adds what lies in its result for
one more read of it, in fp32, and rounds once.
"""

from __future__ import annotations

import math

from bottega.compiler.bodies import made, operands, read
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.expression import Apply, Cast, Expression, Load
from bottega.compiler.kernel import FunctionCall, Kernel, Map
from bottega.compiler.layouts import is_dense
from bottega.compiler.view import Buffer, View

SUMMED_PRODUCTS = CompilerPass(
    "summed_products",
    "A linear layer without a bias, left to the vendor's library, and a residual of our own making that is added to it and not read again.",
    "Let the library's product add to the residual where it lies ({origin}).",
)
ONTO = "linear_onto"
LINEAR_ONTO = f'''def {ONTO}(residual, x, weight):
    """The residual and a linear layer of x, summed where the residual lies."""
    residual.view(-1, residual.shape[-1]).addmm_(x.reshape(-1, x.shape[-1]), weight.t())
    return residual'''
"""What a candidate with such a product needs."""


def summed_products(kernels: list[Kernel], buffers: dict[str, Buffer], kept: set[str]) -> list[Kernel]:
    """`kept`: buffers that are returned, or given back in a layout of their own."""
    for place, kernel in enumerate(kernels):
        found = _sum(kernel, buffers)
        for name, residual in (found, found[::-1]) if found is not None else ():
            call = next((one for one in kernels if name in made(one)), None)
            if not _is_plain(call) or name in kept or _readers(kernels, name) != [place]:
                continue
            assert isinstance(call, FunctionCall) and isinstance(kernel, Map)
            maker = next((one for one in kernels if residual in made(one)), None)
            last = [each for each in _readers(kernels, residual) if each >= kernels.index(call)] == [place]
            if maker is None or isinstance(maker, FunctionCall) or residual in kept or not last or _seen_as(kernels, residual):
                continue
            arguments = (buffers[residual].whole(), *call.arguments)
            whole = FunctionCall(ONTO, arguments, (), (kernel.stores[0].view.buffer,), (*call.origin, *kernel.origin))
            rest = [whole if number == place else one for number, one in enumerate(kernels) if one is not call]
            return summed_products(rest, buffers, kept)
    return kernels


def _readers(kernels: list[Kernel], name: str) -> list[int]:
    return [number for number, one in enumerate(kernels) if name in read(one)]


def _seen_as(kernels: list[Kernel], name: str) -> bool:
    """Whether torch may have given another tensor over the same memory, as it does for the complex numbers that a tensor holds."""
    return any(isinstance(one, FunctionCall) and not is_dense(one) and name in read(one) for one in kernels)


def _sum(kernel: Kernel, buffers: dict[str, Buffer]) -> tuple[str, str] | None:
    """The two buffers that a map adds, element by element, and does nothing else."""
    if not isinstance(kernel, Map) or len(kernel.stores) != 1 or not kernel.stores[0].view.contiguous:
        return None
    body: Expression = kernel.stores[0].body
    body = body.argument if isinstance(body, Cast) else body
    if not isinstance(body, Apply) or body.function != "add" or len(body.arguments) != 2:
        return None
    names = []
    for load in body.arguments:
        if not isinstance(load, Load) or not _whole(load.view, kernel, buffers) or load.dtype != kernel.stores[0].dtype:
            return None
        names.append(load.view.buffer)
    return (names[0], names[1]) if names[0] != names[1] else None


def _whole(view: View, kernel: Map, buffers: dict[str, Buffer]) -> bool:
    buffer = buffers[view.buffer]
    same = view.contiguous and view.shape == kernel.shape and buffer.size == math.prod(kernel.shape) and not buffer.strides
    return same and buffers[kernel.stores[0].view.buffer].shape == buffer.shape


def _is_plain(call: Kernel | None) -> bool:
    """Whether it is a linear layer without a bias, whose weight is a parameter as it is."""
    if not isinstance(call, FunctionCall) or call.function != "F.linear" or call.library_call or call.then:
        return False
    views = operands(call)
    if len(views) != 2 or len(call.arguments) != 2 or call.keywords or views[1].text != views[1].buffer:
        return False
    return call.text in ("", f"F.linear({views[0].text}, {views[1].text})")
