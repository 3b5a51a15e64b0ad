"""Biases of what is left to the library, added by kernels of ours instead: torch adds a convolution's in a pass of its own over the result."""

from __future__ import annotations

import dataclasses

from bottega.compiler.bodies import operands, read, rewritten
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.expression import Expression, Gather, Load, apply, replace, walk
from bottega.compiler.kernel import FunctionCall, Kernel, Map, RowProgram
from bottega.compiler.view import Buffer, View

BIASES_APART = CompilerPass(
    "biases_apart",
    "A convolution of halves with a bias, left to the vendor's library, whose result kernels of ours read.",
    "Add the convolution's bias where its result is read ({origin}).",
)


def biases_apart(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    for place, call in enumerate(kernels):
        if not isinstance(call, FunctionCall) or not _has_bias(call) or call.results[0] in returned:
            continue
        result, bias = buffers[call.results[0]], call.arguments[2]
        others = [kernel for number, kernel in enumerate(kernels) if number != place]
        added = [_adding(kernel, result, bias, buffers[bias.buffer].dtype) for kernel in others]
        batched = len(result.shape) == len(buffers[call.arguments[1].buffer].shape)
        if result.dtype not in ("float16", "bfloat16") or not batched or not all(added):
            continue
        plain = dataclasses.replace(call, arguments=(*call.arguments[:2], None, *call.arguments[3:]), text="", looks=())
        made = [kernel for kernel in added if kernel is not None]
        return biases_apart([*made[:place], plain, *made[place:]], buffers, returned)
    return kernels


def bias_along(view: View, buffer: Buffer, axis: int, bias: str, dtype: str) -> Load | None:
    """A bias over the same loops as a look at a buffer along one of whose dimensions it lies; None where no loop is that dimension."""
    size, step = buffer.shape[axis], buffer.steps[axis]
    own = [extent == size and stride == step for extent, stride in zip(view.shape, view.strides)]
    apart = all(
        mine or extent == 1 or stride % (step * size) == 0 or stride * extent <= step
        for mine, extent, stride in zip(own, view.shape, view.strides)
    )
    if view.offset or sum(own) != 1 or not apart:
        return None
    return Load(View(bias, view.shape, tuple(map(int, own)), 0, bias), dtype)


def _has_bias(call: FunctionCall) -> bool:
    if not call.function.startswith("F.conv") or call.library_call or call.then or len(call.arguments) < 3:
        return False
    weight, bias = call.arguments[1:3]
    return all(isinstance(view, View) and view.text == view.buffer for view in (weight, bias))


def _adding(kernel: Kernel, result: Buffer, bias: View, dtype: str) -> Kernel | None:
    """The kernel with the bias added to every element that it loads of a result; None where it cannot."""
    if result.name not in read(kernel):
        return kernel
    if not isinstance(kernel, Map | RowProgram) or result.name in {view.buffer for view in operands(kernel)}:
        return None

    def rewrite(body: Expression) -> Expression | None:
        swap: dict[Expression, Expression] = {}
        for node in walk(body):
            if isinstance(node, Load | Gather) and node.view.buffer == result.name:
                added = bias_along(node.view, result, 1, bias.buffer, dtype) if isinstance(node, Load) else None
                if added is None:
                    return None
                swap[node] = apply("add", node, added)
        return replace(body, swap)

    return rewritten(kernel, rewrite)
