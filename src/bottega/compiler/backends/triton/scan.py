"""Scans: a row in one block, or block by block with what came before carried along."""

from __future__ import annotations

import math

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.reading import barriers, reader, store
from bottega.compiler.backends.triton.space import AxisGroup, IndexSpace, numbered_names
from bottega.compiler.backends.triton.spelling import kind_of
from bottega.compiler.expression import views
from bottega.compiler.kernel import RUNNING, Scan
from bottega.compiler.loops import Loop, merge

ROW, COLUMN = 0, 1
LONGEST = 8192
NEUTRAL = {"sum": "0.0", "prod": "1.0", "max": '-float("inf")', "min": 'float("inf")', "logaddexp": '-float("inf")'}
COMBINE = {"max": "nan_max", "min": "nan_min", "logaddexp": "logaddexp"}


def write_scan(file: FileWriter, kernel: Scan) -> None:
    writer = file.kernel_writer(kernel.origin)
    shape = (*kernel.kept, kernel.length)
    bodies = [item.body for item in kernel.stores]
    inputs = views(kernel.element)
    outputs = [view for body in bodies for view in views(body)] + [item.view for item in kernel.stores]
    writer.reserve([view.buffer for view in [*inputs, *outputs]])
    loops = merge(shape, [*inputs, *outputs], [len(kernel.kept), *barriers([kernel.element, *bodies])])
    kept = [loop for loop in loops if loop.axes and loop.axes[0] < len(kernel.kept)] or [Loop(1, ())]
    outer = (
        bool(inputs)
        and inputs[0].strides[-1] != 1
        and any(view.strides[-1] != 1 for view in inputs)
        and math.prod(kernel.kept) > 1
    )
    looped = kernel.length > (LONGEST if not outer else 128)
    packed = file.on("short_rows_packed") and not outer and kernel.length <= 512 and math.prod(kernel.kept) > 1
    tile = outer or packed
    row, column, mask = writer.fresh("row"), writer.fresh("column"), writer.fresh("mask")
    indices, sizes = numbered_names(writer, len(kept), row, "rows")
    length = Loop(kernel.length, (len(kernel.kept),))
    extent = "columns"
    rows = AxisGroup(row, kept, indices, sizes, "rows")
    space = IndexSpace(writer, shape, [*inputs, *outputs], [rows, AxisGroup(column, [length], [column], [extent], extent)])
    space.touch([*inputs, *outputs], [kernel.element, *bodies])
    columns = space.size(COLUMN, 0)
    writer.indexes([*inputs, *outputs])
    line = writer.line
    axis = 0 if outer or not tile else 1
    keep = ", keep_dims=True" if tile else ""
    height = ""
    if tile:
        height = writer.constexpr("ROWS", "")
        width = writer.constexpr("COLUMNS", "")
        line(f"{row} = tl.program_id(0) * {height} + tl.arange(0, {height}){'[None, :]' if outer else '[:, None]'}")
    else:
        width = writer.constexpr("BLOCK", "")
        line(f"{row} = tl.program_id(0)")
    space.define(ROW)
    integer = kind_of(kernel.dtype) != "float"
    neutral = NEUTRAL[kernel.operation] if not integer else {"sum": "0", "prod": "1"}.get(kernel.operation, "0")
    dtype = "int64" if integer else "float64" if kernel.dtype == "float64" else "float32"
    carry = writer.fresh("carry") if looped else ""
    depth = writer.depth
    if looped:
        form = f"(1, {height})" if outer else f"({height}, 1)"
        line(f"{carry} = tl.full({form}, {neutral}, tl.{dtype})" if tile else f"{carry} = {neutral}")
        start = writer.fresh("start")
        line(f"for {start} in range(0, {columns}, {width}):")
        writer.depth += 1
    lanes = f"tl.arange(0, {width})" + (("[:, None]" if outer else "[None, :]") if tile else "")
    place = f"{start} + {lanes}" if looped else lanes
    line(f"{column} = {place}")
    bound = f"{column} < {columns}"
    line(f"{mask} = {f'({row} < {space.total(ROW)}) & ({bound})' if tile else bound}")

    def masks(along: frozenset[int]) -> str:
        if COLUMN in along:
            return mask
        return f"{row} < {space.total(ROW)}" if tile and ROW in along else ""

    emitter = TritonEmitter(
        writer, reader(space, masks, lambda node: "0.0" if kind_of(node.dtype) == "float" else "0"), space.index_of
    )
    text = emitter.write([kernel.element])[0]
    if neutral not in ("0.0", "0") or not text.isidentifier():
        text = f"tl.where({mask}, {text}, {neutral})"
    value = text if text.isidentifier() else writer.fresh("element")
    if value != text:
        line(f"{value} = {text}")
    running = writer.fresh("running")
    name = {"sum": "cumsum", "prod": "cumprod"}.get(kernel.operation)
    if name is None:
        file.helpers.add(COMBINE[kernel.operation])
        line(f"{running} = tl.associative_scan({value}, {axis}, {COMBINE[kernel.operation]})")
    else:
        line(f"{running} = tl.{name}({value}, axis={axis})")
    if looped:
        sign = {"sum": "+", "prod": "*"}.get(kernel.operation)
        if sign:
            line(f"{running} = {running} {sign} {carry}")
        else:
            line(f"{running} = {COMBINE[kernel.operation]}({running}, {carry})")
        if kernel.operation == "sum":
            line(f"{carry} += tl.sum({value}, axis={axis}{keep})")
        else:
            function = COMBINE.get(kernel.operation, "times")
            file.helpers.add(function)
            reduced = f"tl.reduce({value}, {axis}, {function}{keep})"
            line(f"{carry} *= {reduced}" if sign else f"{carry} = {function}({carry}, {reduced})")
    tail = TritonEmitter(writer, reader(space, masks, lambda node: ""), space.index_of)
    tail.names[RUNNING] = running
    tail.kinds[RUNNING] = kind_of(kernel.dtype)
    store(space, tail, list(kernel.stores), lambda along: mask)
    writer.depth = depth
    _launch(file, writer, space, kernel, outer, looped, tile, width, height, columns)


def _launch(file, writer, target, kernel, outer, looped, tile, width, height, columns) -> None:  # type: ignore[no-untyped-def]
    named = {parameter.name: parameter for parameter in writer.parameters.values()}
    key = "size rows"
    rows = writer.size_text(writer.parameters[key].name) if key in writer.parameters else target.total_text(ROW)
    if not tile:
        named[width].text = "2048" if looped else f"triton.next_power_of_2({writer.size_text(columns)})"
        block = 2048 if looped else 1 << (kernel.length - 1).bit_length()
        writer.finish(f"({rows},)", "num_warps=8" if block > 2048 else "")
        return
    if looped:
        named[width].text, named[height].text = "32", "64"
        writer.finish(f"(triton.cdiv({rows}, 64),)")
        return
    size = file.variable("width")
    tall = file.variable("height")
    file.forward.append(f"{size} = triton.next_power_of_2({writer.size_text(columns)})")
    file.forward.append(f"{tall} = max(1, {4096 if outer else 2048} // {size})")
    named[width].text, named[height].text = size, tall
    writer.finish(f"(triton.cdiv({rows}, {tall}),)")
