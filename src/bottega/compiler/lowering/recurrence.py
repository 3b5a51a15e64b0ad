"""LSTM, GRU and plain recurrent layers as kernels: for each layer and direction the library's product over all steps at once, then the steps.

Only what a backend can write is taken apart: no projection of the state, no dropout between layers. Else torch's call stays. Cells compute in
fp32: around them halves are widened and narrowed, and the products over all steps stay in halves.
"""

from __future__ import annotations

from typing import Any

from bottega.compiler.compose import permuted
from bottega.compiler.expression import Cast, Load, Name
from bottega.compiler.kernel import RECURRENT_CELLS, RUNNING, FunctionCall, Kernel, Map, Recurrence, StoreOp
from bottega.compiler.lowering.scope import HALVES, LoweringScope, squeezed, squeezed_body, squeezed_shape
from bottega.compiler.sizes import marked
from bottega.compiler.traced_graph import Ref
from bottega.compiler.view import Buffer, View, contiguous_strides


def layers(scope: LoweringScope, names: tuple[str, ...], states: tuple[Any, ...]) -> tuple[Kernel, ...]:
    """The kernels of the current node; none where it stays torch's. `names` are its results: all steps, the last state, the last cell."""
    node = scope.node
    cell, count, weights = node.operator, int(scope.argument("num_layers")), scope.argument("params")
    directions = 2 if scope.argument("bidirectional") else 1
    each = 4 if scope.argument("has_biases") else 2
    shape, dtype = scope.spec()
    dropped = scope.argument("dropout") and scope.argument("train") and count > 1
    if dtype not in ("float32", *HALVES) or dropped or len(weights) != each * count * directions or len(shape) != 3:
        return ()
    begins = states[0] if states and isinstance(states[0], tuple) else states
    if any(view.strides[-1] != 1 for view in begins):
        return ()
    first = bool(scope.argument("batch_first"))
    width = shape[-1] // directions
    kernels: list[Kernel] = []
    x = scope.operand("input").view
    begins = tuple(_wide(scope, kernels, view, dtype) for view in begins)
    ends = [scope.buffers[name] for name in names[1:]]
    ends = ends if dtype == "float32" else [scope.fresh(end.shape, "float32", f"_end{place}") for place, end in enumerate(ends)]
    for layer in range(count):
        whole = scope.buffers[names[0]] if layer + 1 == count else scope.fresh(shape, dtype, f"_layer{layer}")
        wide = whole if dtype == "float32" else scope.fresh(shape, "float32", f"_steps{layer}")
        walks: list[Kernel] = []
        for way in range(directions):
            place = layer * directions + way
            own = [scope.tensor(ref).view for ref in weights[each * place : each * (place + 1)] if isinstance(ref, Ref)]
            gates = scope.fresh((*shape[:2], RECURRENT_CELLS[cell] * width), dtype, f"_gates{place}")
            kernels.append(FunctionCall("F.linear", (x, own[0], *own[2:3]), (), (gates.name,), ("linear",)))
            lying = View(wide.name, (*shape[:2], width), contiguous_strides(shape), way * width, wide.name)
            walks.append(
                Recurrence(
                    cell=cell,  # type: ignore[arg-type]
                    steps=shape[first],
                    batch=shape[not first],
                    width=width,
                    gates=_by_steps(_wide(scope, kernels, marked(gates), dtype), first),
                    weight=_wide(scope, kernels, own[1], dtype),
                    bias=_wide(scope, kernels, own[3], dtype) if each == 4 else None,
                    begins=tuple(_at(view, place) for view in begins),
                    backward=way == 1,
                    stores=(
                        StoreOp(_by_steps(lying, first), Name(RUNNING), "float32"),
                        *(StoreOp(_at(marked(end), place), Name(RUNNING), "float32") for end in ends),
                    ),
                    origin=(cell,),
                )
            )
        kernels += walks
        if whole is not wide:
            kernels.append(_cast(scope, marked(wide), "float32", whole))
        x = marked(whole)
    if dtype != "float32":
        kernels += [_cast(scope, marked(end), "float32", scope.buffers[name]) for end, name in zip(ends, names[1:])]
    return tuple(kernels)


def _wide(scope: LoweringScope, kernels: list[Kernel], view: View, dtype: str) -> View:
    """In fp32, by a kernel that is added where it is not."""
    if dtype == "float32":
        return view
    buffer = scope.fresh(view.shape, "float32", f"_wide{len(kernels)}")
    kernels.append(_cast(scope, view, dtype, buffer))
    return marked(buffer)


def _cast(scope: LoweringScope, view: View, dtype: str, to: Buffer) -> Map:
    store = StoreOp(squeezed(marked(to)), squeezed_body(Cast(to.dtype, Load(view, dtype)), view.shape), to.dtype)
    return Map(squeezed_shape(view.shape), (store,), scope.origin)


def _by_steps(view: View, batch_first: bool) -> View:
    """Steps first, then the batch."""
    return permuted(view, (1, 0, 2)) if batch_first else view


def _at(view: View, place: int) -> View:
    """The states of one layer and direction."""
    return View(view.buffer, view.shape[1:], view.strides[1:], view.offset + place * view.strides[0])
