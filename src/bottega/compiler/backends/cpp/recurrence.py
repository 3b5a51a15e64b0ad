"""Recurrent layers: a call of the function that walks all steps, with the tensors as they lie."""

from __future__ import annotations

from collections.abc import Sequence

from bottega.compiler.backends.cpp.function_writer import FunctionWriter, folded
from bottega.compiler.kernel import Recurrence
from bottega.compiler.library.cpp.recurrence import CELLS, STEPS
from bottega.compiler.view import View


def write_recurrence(function: FunctionWriter, kernel: Recurrence) -> list[str]:
    text, needs = CELLS[kernel.cell]
    for need in needs:
        function.prelude.use(need)
    function.prelude.add("every_step", STEPS)
    function.prelude.add(kernel.cell, text)
    states: Sequence[View | None] = kernel.begins or (None,) * (len(kernel.stores) - 1)
    read = [_pointer(function, view) for view in (kernel.gates, kernel.weight, kernel.bias, *states)]
    out, *last = (_pointer(function, store.view, written=True) for store in kernel.stores)
    sizes = [
        function.size(function.size_of(size, (axis,), [kernel.gates]) or str(size), name, f"{name}_size")
        for axis, (size, name) in enumerate(((kernel.steps, "steps"), (kernel.batch, "batch")))
    ]
    width = function.size(f"{kernel.weight.buffer}.shape[1]", "width", "width_size")
    lines: list[str] = []
    gates, weight, bias, *begins = read
    if kernel.bias is None:
        zeros = function.fresh("zeros", "no_bias")
        lines.append(f"const std::vector<float> {zeros}({kernel.weight.shape[0] // kernel.width} * {width});")
        bias = f"{zeros}.data()"
    arguments = [gates, *_steps(function, kernel.gates), weight, bias]
    for view, begin, end in zip(states, begins, last):
        arguments += [begin, "0" if view is None else function.stride(view, view.strides[0]), end]
    arguments += [out, *_steps(function, kernel.stores[0].view), *sizes, width, "true" if kernel.backward else "false"]
    return [*lines, folded(f"{kernel.cell}_steps(", arguments, ");", width=108)]


def _pointer(function: FunctionWriter, view: View | None, written: bool = False) -> str:
    """Where a view begins."""
    if view is None:
        return "nullptr"
    start, offset = function.pointer(view.buffer, written), function.offset(view)
    return f"{start} + {offset}" if offset else start


def _steps(function: FunctionWriter, view: View) -> tuple[str, str]:
    """From step to step, and from row to row of the batch."""
    return function.stride(view, view.strides[0]), function.stride(view, view.strides[1])
