"""Zeros around the input of a convolution of our own: it copies its input into padding anyway, so `F.pad` before it is a pass for nothing.

A kernel pads each dimension by one number, in front and behind. Fewer zeros behind are fine: outputs that would need the others are
not asked for. So a causal convolution, padded in front alone, pads for itself; where more lie behind, the call stays.
"""

from __future__ import annotations

import dataclasses

from bottega.compiler.bodies import made, read
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.kernel import Convolution, FunctionCall, Kernel
from bottega.compiler.view import Buffer, View

PADDED_CONVOLUTIONS = CompilerPass(
    "padded_convolutions",
    "Zeros put around the input of a convolution of our own, at least as many in front as behind, and not read otherwise.",
    "Pad in the convolution's own copy of its input ({origin}), without a tensor in between.",
)


def padded_convolutions(kernels: list[Kernel], buffers: dict[str, Buffer], kept: set[str]) -> list[Kernel]:
    """`kept`: buffers that are returned."""
    calls = {kernel.results[0]: kernel for kernel in kernels if isinstance(kernel, FunctionCall) and kernel.function == "F.pad"}
    gone: list[str] = []
    found: list[Kernel] = []
    for kernel in kernels:
        merged = None
        if isinstance(kernel, Convolution) and (call := calls.get(kernel.source.buffer)) is not None:
            name = call.results[0]
            alone = name not in kept and sum(name in read(one) for one in kernels) == 1
            merged = _merged(kernel, call, buffers[name]) if alone else None
            if merged is not None and not _written_between(kernels, call, kernel, merged.source.buffer):
                gone.append(name)
            else:
                merged = None
        found.append(merged or kernel)
    return [kernel for kernel in found if not any(kernel is calls[name] for name in gone)]


def _merged(kernel: Convolution, call: FunctionCall, padded: Buffer) -> Convolution | None:
    x, amounts, *mode = call.arguments
    count = len(kernel.stride)
    zeros = not call.keywords and mode in ([], ["constant"], ["constant", None], ["constant", 0])
    if not zeros or kernel.transposed or kernel.source != padded.whole() or not isinstance(x, View):
        return None
    from_last = [(int(front), int(behind)) for front, behind in zip(amounts[::2], amounts[1::2])]
    pairs = [(0, 0)] * (count - len(from_last)) + from_last[::-1]
    fits = len(pairs) == count and all(front >= behind >= 0 for front, behind in pairs) and len(x.shape) == count + 2
    if not fits or any(kernel.padding):
        return None
    return dataclasses.replace(
        kernel, source=x, padding=tuple(front for front, _ in pairs), origin=(*call.origin, *kernel.origin)
    )


def _written_between(kernels: list[Kernel], call: Kernel, user: Kernel, name: str) -> bool:
    places = [at for at, kernel in enumerate(kernels) if kernel is call or kernel is user]
    return any(name in made(kernel) for kernel in kernels[places[0] + 1 : places[-1]])
