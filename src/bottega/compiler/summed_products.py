"""A residual added to a linear layer that is left to the library: the product goes on from the residual where it lies.

Apart, the sum reads two tensors and writes one, after the product has written its own. The library's product adds what lies in its result for
one more read of it, in fp32, and rounds once. A bias is added to the residual by the kernel that makes it.
"""

from __future__ import annotations

import dataclasses
import math

from bottega.compiler.biases import bias_along
from bottega.compiler.bodies import made, operands, read, stores
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.expression import Apply, Cast, Expression, Load, apply
from bottega.compiler.kernel import FunctionCall, Kernel, Map, PythonText, RowProgram, StoreOp
from bottega.compiler.layouts import is_dense
from bottega.compiler.view import Buffer, View

SUMMED_PRODUCTS = CompilerPass(
    "summed_products",
    "A linear layer that is left to the vendor's library, and a residual of our own making that is added to it and not read again.",
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
            factors = linear_factors(call, buffers)
            if factors is None or name in kept or _readers(kernels, name) != [place]:
                continue
            assert isinstance(call, FunctionCall) and isinstance(kernel, Map)
            maker, result = next((one for one in kernels if residual in made(one)), None), kernel.stores[0].view.buffer
            last = [each for each in _readers(kernels, residual) if each >= kernels.index(call)] == [place]
            if maker is None or isinstance(maker, FunctionCall) or residual in kept or not last or _seen_as(kernels, residual):
                continue
            x, weight, bias = factors
            begun: Kernel | None = maker
            if bias is not None and any(bias.buffer in made(one) for one in kernels):
                continue  # it may be computed later than the residual
            if bias is not None:
                begun = _with_bias(maker, buffers[residual], bias) if _readers(kernels, residual) == [place] else None
            if begun is None or buffers[residual].shape != buffers[result].shape:
                continue
            whole = FunctionCall(ONTO, (buffers[residual].whole(), x, weight), (), (result,), (*call.origin, *kernel.origin))
            rest = [whole if one is kernel else begun if one is maker else one for one in kernels if one is not call]
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
    return view.contiguous and view.shape == kernel.shape and buffer.size == math.prod(kernel.shape) and not buffer.strides


def linear_factors(call: Kernel | None, buffers: dict[str, Buffer]) -> tuple[View, PythonText, View | None] | None:
    """The rows, the weight as a linear layer has it, and the bias, of a call of torch that is a linear layer of parameters and no more."""
    if not isinstance(call, FunctionCall) or call.library_call or call.then or call.keywords:
        return None
    views = operands(call)
    plain = ("", f"{call.function}({', '.join(view.text for view in views)})")
    if call.function not in ("F.linear", "torch.addmm") or len(views) != len(call.arguments) or call.text not in plain:
        return None
    x, weight, *biases = views if call.function == "F.linear" else (*views[1:], views[0])
    bias = biases[0] if biases else None
    if weight.text != weight.buffer:
        return None
    if bias is not None and (bias.text != bias.buffer or bias.shape != buffers[call.results[0]].shape[-1:]):
        return None
    return x, PythonText(weight.text if call.function == "F.linear" else f"{weight.text}.t()"), bias


def _with_bias(maker: Kernel, residual: Buffer, bias: View) -> Kernel | None:
    """The kernel that makes the residual, storing it with the bias added."""

    def begun(store: StoreOp) -> StoreOp:
        added = bias_along(store.view, residual, len(residual.shape) - 1, bias.buffer, residual.dtype)
        return store if added is None else StoreOp(store.view, apply("add", store.body, added), store.dtype)

    kept = stores(maker)
    made_anew = tuple(begun(store) if store.view.buffer == residual.name else store for store in kept)
    if any(new is old for new, old in zip(made_anew, kept) if old.view.buffer == residual.name):
        return None
    if isinstance(maker, Map):
        return dataclasses.replace(maker, stores=made_anew)
    return (
        dataclasses.replace(maker, element_stores=made_anew) if isinstance(maker, RowProgram) and not maker.row_stores else None
    )
