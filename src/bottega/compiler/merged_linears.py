"""Linear layers over one input as one product: queries, keys and values, a gate and what it gates.

A product with few columns leaves a large device half idle; the same columns side by side fill it. The weights are joined once and kept until one of
them changes. Each layer's result is a slice of the whole, which kernels read in its strides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from bottega.compiler.bodies import read, rewritten
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.compose import compose
from bottega.compiler.expression import Expression, Gather, walk, with_views
from bottega.compiler.kernel import FunctionCall, Kernel, Map, PythonText, RowProgram
from bottega.compiler.view import Buffer, View, contiguous_strides

MERGED_LINEARS = CompilerPass(
    "merged_linears",
    "Several linear layers over the same input, left to the vendor's library.",
    "Join the weights of linear layers over one input and multiply once ({origin}).",
)
JOINED = '''def joined(module, name, *tensors):
    """These tensors as one, made again when one of them has changed."""
    state = [(tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]
    kept = module.__dict__.get(name)
    if kept is None or kept[0] != state:
        kept = module.__dict__[name] = (state, torch.cat(tensors))
    return kept[1]'''
"""What a candidate with merged layers needs."""


def merged_linears(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    """The kernels with such layers merged where whatever reads their results can read slices; `buffers` learns how those lie."""
    groups: dict[tuple[View, int], list[int]] = {}
    for place, kernel in enumerate(kernels):
        if isinstance(kernel, FunctionCall) and kernel.function == "F.linear" and not kernel.library_call and not kernel.then:
            groups.setdefault((kernel.arguments[0], len(kernel.arguments)), []).append(place)
    for places in (places for places in groups.values() if len(places) > 1):
        made = _merged(kernels, places, buffers, returned)
        if made is not None:
            return merged_linears(made, buffers, returned)
    return kernels


def _merged(kernels: list[Kernel], places: list[int], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel] | None:
    calls = [call for place in places if isinstance(call := kernels[place], FunctionCall)]
    results = [call.results[0] for call in calls]
    sizes = [buffers[result].shape[-1] for result in results]
    rows = buffers[results[0]].shape[:-1]
    if returned & set(results) or any(not isinstance(value, View) for call in calls for value in call.arguments):
        return None
    if not all(value.text.startswith("self.") for call in calls for value in call.arguments[1:]):  # type: ignore[union-attr]
        return None  # what is computed, or given, is another one in every call
    sliced = {
        result: dataclasses.replace(buffers[result], strides=contiguous_strides((*rows, sum(sizes)))) for result in results
    }
    rest = [_reading(kernel, sliced) for place, kernel in enumerate(kernels) if place not in places]
    if any(kernel is None for kernel in rest):
        return None
    buffers.update(sliced)
    operands = [
        PythonText(f'joined(self, "joined_{results[0]}_{place}", {", ".join(call.arguments[place].text for call in calls)})')
        for place in range(1, len(calls[0].arguments))
    ]
    split = f".split(({', '.join(map(str, sizes))}), -1)"
    origin = tuple(dict.fromkeys(word for call in calls for word in call.origin))
    whole = FunctionCall("F.linear", (calls[0].arguments[0], *operands), (), tuple(results), origin, then=split)
    kept = [kernel for kernel in rest if kernel is not None]
    return [*kept[: places[0]], whole, *kept[places[0] :]]


def _reading(kernel: Kernel, sliced: dict[str, Buffer]) -> Kernel | None:
    """The kernel with its looks at these buffers through their strides; None where it cannot look so."""
    if not read(kernel) & sliced.keys() or isinstance(kernel, FunctionCall):
        return kernel
    if not isinstance(kernel, Map | RowProgram):
        return None

    def seen(view: View) -> View | None:
        buffer = sliced.get(view.buffer)
        if buffer is None:
            return view
        found = compose(buffer.whole(), buffer.shape, view)
        return None if found is None else dataclasses.replace(view, strides=found.strides, offset=found.offset)

    def rewrite(body: Expression) -> Expression | None:
        return None if _gathers_rows(walk(body), sliced) else with_views(body, seen)

    return rewritten(kernel, rewrite)


def _gathers_rows(nodes: Iterable[Expression], sliced: dict[str, Buffer]) -> bool:
    """Whether an index is computed along another dimension than the last."""
    return any(isinstance(node, Gather) and node.view.buffer in sliced and node.axis_stride != 1 for node in nodes)
