"""LSTM, GRU and plain recurrent layers as kernels: for each layer and direction the library's product over all steps at once, then the steps.

Only what a backend can write is taken apart: fp32, no projection of the state, no dropout between layers. Else torch's call stays.
"""

from __future__ import annotations

from typing import Any

from bottega.compiler.compose import permuted
from bottega.compiler.expression import Name
from bottega.compiler.kernel import RECURRENT_CELLS, RUNNING, FunctionCall, Kernel, Recurrence, StoreOp
from bottega.compiler.lowering.scope import LoweringScope
from bottega.compiler.sizes import marked
from bottega.compiler.trace import Ref
from bottega.compiler.view import View, contiguous_strides


def layers(scope: LoweringScope, names: tuple[str, ...], states: tuple[Any, ...]) -> tuple[Kernel, ...]:
    """The kernels of the current node; none where it stays torch's. `names` are its results: all steps, the last state, the last cell."""
    node = scope.node
    cell, count, weights = node.operator, int(scope.argument("num_layers")), scope.argument("params")
    directions = 2 if scope.argument("bidirectional") else 1
    each = 4 if scope.argument("has_biases") else 2
    shape, dtype = scope.spec()
    dropped = scope.argument("dropout") and scope.argument("train") and count > 1
    if dtype != "float32" or dropped or len(weights) != each * count * directions or len(shape) != 3:
        return ()
    begins = states[0] if states and isinstance(states[0], tuple) else states
    if any(view.strides[-1] != 1 for view in begins):
        return ()
    first = bool(scope.argument("batch_first"))
    width = shape[-1] // directions
    kernels: list[Kernel] = []
    x = scope.operand("input").view
    for layer in range(count):
        whole = scope.buffers[names[0]] if layer + 1 == count else scope.fresh(shape, dtype, f"_layer{layer}")
        walks: list[Kernel] = []
        for way in range(directions):
            place = layer * directions + way
            own = [scope.tensor(ref).view for ref in weights[each * place : each * (place + 1)] if isinstance(ref, Ref)]
            gates = scope.fresh((*shape[:2], RECURRENT_CELLS[cell] * width), dtype, f"_gates{place}")
            kernels.append(FunctionCall("F.linear", (x, own[0], *own[2:3]), (), (gates.name,), ("linear",)))
            lying = View(whole.name, (*shape[:2], width), contiguous_strides(shape), way * width, whole.name)
            walks.append(
                Recurrence(
                    cell=cell,  # type: ignore[arg-type]
                    steps=shape[first],
                    batch=shape[not first],
                    width=width,
                    gates=_by_steps(marked(gates), first),
                    weight=own[1],
                    bias=own[3] if each == 4 else None,
                    begins=tuple(_at(view, place) for view in begins),
                    backward=way == 1,
                    stores=(
                        StoreOp(_by_steps(lying, first), Name(RUNNING), dtype),
                        *(StoreOp(_at(marked(scope.buffers[name]), place), Name(RUNNING), dtype) for name in names[1:]),
                    ),
                    origin=(cell,),
                )
            )
        kernels += walks
        x = marked(whole)
    return tuple(kernels)


def _by_steps(view: View, batch_first: bool) -> View:
    """Steps first, then the batch."""
    return permuted(view, (1, 0, 2)) if batch_first else view


def _at(view: View, place: int) -> View:
    """The states of one layer and direction."""
    return View(view.buffer, view.shape[1:], view.strides[1:], view.offset + place * view.strides[0])
