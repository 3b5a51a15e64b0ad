"""Matrix products with their tail. Plain: a dot product for each element. Packed: panels of one operand, a tile in registers.

Panels of a weight are kept from call to call: for a few dozen rows, packing takes as long as a third of the product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import block, collapse, head, indent, nest, region
from bottega.compiler.backends.cpp.map import pointers, stores, tabled, tail
from bottega.compiler.backends.cpp.scalar import E4M3, compute_type, memory_type
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads, without
from bottega.compiler.expression import Index, walk
from bottega.compiler.kernel import ACCUMULATOR, Product
from bottega.compiler.library.cpp.vectors import LINED, PACKED_CALL, PACKS, PANEL, TALL, TURNED, VECTOR, WIDENED
from bottega.compiler.loops import Loop, merge
from bottega.compiler.view import View

STREAM, PACKED, PACKED_ONCE = "stream_weights", "packed_panels", "packed_once"
FEW_ROWS = 16
FEWEST_ROWS, MOST_ROWS, WORTH = 4, 512, 16_384
"""Rows between which the panels of a weight are worth memory of their own, and elements from which they are worth being looked up."""
MANY_COLUMNS = 64
"""From so many on, rows are copied side by side: rows a power of two apart push each other out of the cache."""
MANY_BATCHES = 8
FEW_WEIGHTS = 65_536
"""Elements of the right operand that fit a cache beside the rows."""
SHALLOW, PAGE = 128, 1024
"""Elements of rows that lie in the first cache as they are, unless they begin a page apart."""
MANY_ROWS, DEEPEST = 128, 8192
"""From so many on, threads share rows alone, and each copies its own side by side in turn: all at once they pass through memory twice. Rows that are
deeper do not fit its stack."""


@dataclass
class Operands:
    """The product's loops once they have names. Left and right are seen over batch + (rows, columns, depth)."""

    function: FunctionWriter
    kernel: Product
    batch: list[Axis]
    row: Axis
    column: Axis
    depth: Axis
    left: View
    right: View

    def place(self, view: View, row: str = "", column: str = "", depth: str = "") -> str:
        axes = [
            *self.batch,
            replace(self.row, index=row or self.row.index),
            replace(self.column, index=column or self.column.index),
            replace(self.depth, index=depth or self.depth.index),
        ]
        axes = [replace(axis, index="@") if axis.index == "0" else axis for axis in axes]
        return without(LoopSpace(self.function, axes).place(view))

    def element(self, view: View, **indices: str) -> str:
        text = f"{self.function.pointer(view.buffer)}[{self.place(view, **indices)}]"
        return self.emitter("").converted(text, self.kernel.dtype)

    def emitter(self, accumulator: str) -> CppEmitter:
        axes = [*self.batch, self.row, self.column]
        space = LoopSpace(self.function, axes)
        names = {ACCUMULATOR: (accumulator, compute_type(self.kernel.dtype))}
        return CppEmitter(self.function, space.place, names, index_names(axes, len(self.kernel.batch) + 3))

    def tail(self, accumulator: str) -> tuple[list[str], list[str]]:
        """The results along a row: what is the same for all of it, and each of them."""
        space = LoopSpace(self.function, [*self.batch, self.row, self.column])
        return tail(self.emitter(accumulator), space, self.kernel.stores, self.column, (ACCUMULATOR,))

    def results(self, accumulator: str) -> list[str]:
        space = LoopSpace(self.function, [*self.batch, self.row, self.column])
        return stores(self.emitter(accumulator), space, self.kernel.stores)


def write_product(function: FunctionWriter, kernel: Product) -> list[str]:
    operands = _operands(function, kernel)
    single = kernel.dtype in ("float32", "bfloat16", "float16", E4M3)
    dense = operands.depth.step(operands.left) == 1 and operands.depth.step(operands.right) == 1
    few = operands.row.length <= FEW_ROWS and not operands.batch
    if STREAM in function.passes and few and dense and operands.column.length > 1 and not _packs_once(operands):
        return _stream(operands)
    if PACKED in function.passes and single and operands.row.length >= 4 and operands.column.length >= 8:
        return _packed(operands)
    return _plain(operands)


def _operands(function: FunctionWriter, kernel: Product) -> Operands:
    count = len(kernel.batch)
    shape = (*kernel.batch, kernel.rows, kernel.columns)
    left = replace(
        kernel.left, shape=(*shape, kernel.depth), strides=(*kernel.left.strides[:-1], 0, kernel.left.strides[-1]), axes=()
    )
    right = replace(
        kernel.right,
        shape=(*shape, kernel.depth),
        strides=(*kernel.right.strides[:-2], 0, kernel.right.strides[-1], kernel.right.strides[-2]),
        axes=(),
    )
    bodies = [store.body for store in kernel.stores]
    function.pointer(left.buffer)
    function.pointer(right.buffer)
    pointers(function, bodies, kernel.stores)
    views = [left, right, *loads(bodies), *(store.view for store in kernel.stores)]
    alone = {node.axis for body in bodies for node in walk(body) if isinstance(node, Index)}
    barriers = [count + 1, *(axis + shift for axis in alone for shift in (0, 1))]
    loops = [loop for loop in merge(shape, views, barriers) if loop.axes]
    column = next((loop for loop in loops if loop.axes[-1] == count + 1), Loop(1, ()))
    row = next((loop for loop in loops if loop.axes[-1] == count), Loop(1, ()))
    batch = [loop for loop in loops if loop is not column and loop is not row]
    names = ("rows", "columns", "depth")
    indices = ("r", "c", "k")

    def named(loop: Loop, size: str, index: str, operands: Sequence[View]) -> Axis:
        if not loop.axes:
            return Axis(loop, "0", "1")
        return Axis(
            loop,
            function.fresh(index, f"{index}_at"),
            function.size(function.size_of(loop.size, loop.axes, operands), size, f"{size}_size"),
        )

    batch_names = [
        named(loop, "batch" if at == 0 else "heads", "b" if at == 0 else "h", views) for at, loop in enumerate(batch)
    ]
    row_axis = named(row, names[0], indices[0], [left, *views])
    column_axis = named(column, names[1], indices[1], views)
    seen = [replace(view, shape=view.shape[:-1], strides=view.strides) for view in (left, right)]
    depth_axis = named(Loop(kernel.depth, (count + 2,)), names[2], indices[2], seen)
    return Operands(function, kernel, batch_names, row_axis, column_axis, depth_axis, left, right)


def _plain(o: Operands) -> list[str]:
    function = o.function
    kind = compute_type(o.kernel.dtype)
    total = function.fresh("sum", "total")
    dense = o.depth.step(o.left) == 1 and o.depth.step(o.right) == 1
    inside = [f"{kind} {total} = 0;"]
    if dense:
        inside.append(f"#pragma omp simd reduction(+ : {total})")
    inside += [head(o.depth), indent(f"{total} += {o.element(o.left)} * {o.element(o.right)};", 1), *o.results(total)]
    axes = [axis for axis in (*o.batch, o.row, o.column) if axis.index != "0"]
    if not axes:
        return inside
    return [f"#pragma omp parallel for{collapse(len(axes))} schedule(static)", *nest(axes, inside)]


def _stream(o: Operands) -> list[str]:
    """Few rows: every weight is read once, by one thread, and meets four rows while it is in a register."""
    function, kind = o.function, compute_type(o.kernel.dtype)
    convert = o.emitter("").converted
    count = min(4, o.row.length)
    base = function.fresh("first", "from_row")
    weights = function.fresh("w", "weights")
    left, right = function.pointer(o.left.buffer), function.pointer(o.right.buffer)
    memory = f"const {_memory(o)}*"
    rows = [function.fresh(f"x{at}", f"row{at}") for at in range(count)]
    sums = [function.fresh(f"s{at}", f"sum{at}") for at in range(count)]
    inside = []
    for at, name in enumerate(rows):
        index = base if at == 0 else f"std::min({base} + {at}, {o.row.size} - 1)"
        if o.row.index == "0":
            index = "0"
        inside.append(f"{memory} {name} = {left} + {o.place(o.left, row=index, depth='0')};".replace(" + 0;", ";"))
    inside.append(f"{kind} {', '.join(f'{name} = 0' for name in sums)};")
    k = o.depth.index
    inside += [f"#pragma omp simd reduction(+ : {', '.join(sums)})", head(o.depth) + " {"]
    inside += [
        f"  {total} += {convert(f'{name}[{k}]', o.kernel.dtype)} * {convert(f'{weights}[{k}]', o.kernel.dtype)};"
        for name, total in zip(rows, sums)
    ]
    inside.append("}")
    if o.row.index == "0":
        body = [f"{memory} {weights} = {right} + {o.place(o.right, depth='0')};", *inside, *o.results(sums[0])]
    else:
        array = function.fresh("sums", "totals")
        r = o.row.index
        inside.append(f"const {kind} {array}[{count}] = {{{', '.join(sums)}}};")
        inside.append(f"for (int64_t {r} = {base}; {r} < std::min<int64_t>({base} + {count}, {o.row.size}); ++{r})")
        inside += block(o.results(f"{array}[{r} - {base}]"))
        body = [f"{memory} {weights} = {right} + {o.place(o.right, depth='0')};"]
        body += [
            f"for (int64_t {base} = 0; {base} < {o.row.size}; {base} += {count}) {{",
            *(indent(line, 1) for line in inside),
            "}",
        ]
    return ["#pragma omp parallel for schedule(static)", *nest([o.column], body)]


def _memory(o: Operands) -> str:
    return memory_type(o.kernel.dtype)


def _packs_once(o: Operands) -> bool:
    """Whether the right operand is a whole weight whose panels are worth keeping, in a type that is packed as it is."""
    function, name = o.function, o.right.buffer
    weight = function.buffer(name)
    whole = len(weight.shape) == 2 and weight.size == o.column.length * o.depth.length and not o.right.offset
    alone = name != o.left.buffer and all(view.buffer != name for view in loads([store.body for store in o.kernel.stores]))
    few = FEWEST_ROWS <= o.row.length <= MOST_ROWS and not o.batch and o.column.length >= MANY_COLUMNS and weight.size >= WORTH
    on = PACKED_ONCE in function.passes and weight.kind == "parameter" and o.kernel.dtype in ("float32", "bfloat16")
    return on and few and whole and alone


def _keep_panels(o: Operands) -> None:
    """Has `forward` pass the weight's panels in its place."""
    function = o.function
    function.prelude.add(f"pack {_memory(o)}", PACKS[_memory(o)])
    weight = o.right.buffer if o.column.step(o.right) > o.depth.step(o.right) else f"{o.right.buffer}.t()"
    function.packed[o.right.buffer] = f'{PACKED_CALL}"panels_of_{function.name}", {weight})'


def _copied(o: Operands, view: View, axis: Axis, width: str, first: str, to: str) -> list[str]:
    """A copy of some rows or columns, side by side, with vectors; nothing where the operand has no dimension along memory."""
    if o.kernel.dtype != "float32" or 1 not in (o.depth.step(view), axis.step(view)):
        return []
    along = o.depth.step(view) == 1
    o.function.prelude.add(*(("turned", TURNED) if along else ("lined", LINED)))
    place = o.place(view, row=first, depth="0") if axis is o.row else o.place(view, column=first, depth="0")
    apart, packs = (axis.step(view), "pack_rows") if along else (o.depth.step(view), "pack_columns")
    start = f"{o.function.pointer(view.buffer)} + {place},".replace(" + 0,", ",")
    count = f"std::min<int64_t>({width}, {axis.size} - {first})"
    return [f"{packs}<{width}>({start} {apart}, {count}, {o.depth.size}, {to});"]


def _batch_inside(o: Operands) -> bool:
    """Whether rows come before batches in memory, as tokens before heads, and all panels fit a cache: then memory is walked once, in order."""
    if len(o.batch) != 1 or o.row.length < MANY_ROWS or o.depth.step(o.left) != 1:
        return False
    few = o.batch[0].length * o.column.length * o.depth.length <= FEW_WEIGHTS
    return few and o.batch[0].length >= MANY_BATCHES and 0 < o.batch[0].step(o.left) < o.row.step(o.left)


def _ends_in_half(columns: int) -> bool:
    """Whether the second vector of the last panel is nothing but padding, and a part of the work that shows."""
    return any(0 < columns % (2 * lanes) <= lanes and columns < 20 * lanes for lanes in (4, 8, 16))


def _symmetric(o: Operands) -> bool:
    """Whether it is a matrix times itself: then one half of the result is the other."""
    left, right = o.left, o.right
    steps = [axis.step(left) == axis.step(right) for axis in (*o.batch, o.depth)]
    same = left.buffer == right.buffer and left.offset == right.offset and o.row.step(left) == o.column.step(right)
    return same and all(steps) and o.row.length == o.column.length


def _packed(o: Operands) -> list[str]:
    """The right operand in panels of two vectors, some rows of the left against each, the tail applied to the tile."""
    function, once = o.function, _packs_once(o)
    function.prelude.add("vector", VECTOR)
    function.prelude.add("panel", PANEL)
    function.prelude.add("tall", TALL)
    if once:
        _keep_panels(o)
    wishes = ("panels", "packed", "pack", "first", "start", "panel", "sum", "tile", "lines", "side", "some")
    n = {name: function.fresh(name, f"{name}_") for name in wishes}
    n |= {"p": function.fresh("t", "at"), "j": function.fresh("l", "lane"), "m": function.fresh("u", "high")}
    row, column, depth = o.row, o.column, o.depth
    batch_inside = not once and _batch_inside(o)
    panel_at = f"({o.batch[0].index} * {n['panels']} + {n['p']})" if batch_inside else n["p"]
    at = f"{n['start']} + {n['j']}"
    packing = [
        head(depth),
        indent(f"for (int64_t {n['j']} = 0; {n['j']} < WIDE; ++{n['j']})", 1),
        indent(f"{n['pack']}[({panel_at} * {depth.size} + {depth.index}) * WIDE + {n['j']}] =", 2),
        indent(f"    {column.length} % WIDE == 0 || {at} < {column.size} ? {o.element(o.right, column=f'({at})')} : 0.f;", 2),
    ]
    if not once:
        to = f"{n['pack']} + {panel_at} * {depth.size} * WIDE"
        packing = _copied(o, o.right, column, "WIDE", n["start"], to) or packing
    end = f"({column.length} % WIDE ? std::min({n['start']} + WIDE, {column.size}) : {n['start']} + WIDE)"  # mostly steps that are known
    start = f"const int64_t {n['start']} = {n['p']} * WIDE;"
    left = function.pointer(o.left.buffer)
    clamped = f"std::min({n['first']} + {n['m']}, {row.size} - 1)"
    few = column.length * depth.length <= FEW_WEIGHTS
    apart = depth.length > SHALLOW or row.step(o.left) % PAGE == 0
    across = o.depth.step(o.left) != 1 or (column.length >= MANY_COLUMNS and (apart or not few) and not batch_inside)
    in_turn = across and few and row.length >= MANY_ROWS and depth.length <= DEEPEST
    line = f"{n['first']} * {depth.size}"
    value = o.emitter("").converted(f"{n['lines']}[{n['m']}][{depth.index}]", o.kernel.dtype)
    if across:
        value = f"{n['lines']}[{depth.index} * TALL + {n['m']}]"
    before, each = o.tail(f"{n['tile']}[{row.index} - {n['first']}][{column.index} - {n['start']}]")
    tables, before = tabled(function, before, row, [*o.batch, column])
    pointed = [
        f"const {_memory(o)}* {n['lines']}[TALL];",
        f"for (int64_t {n['m']} = 0; {n['m']} < TALL; ++{n['m']}) {n['lines']}[{n['m']}] = {left} + {o.place(o.left, row=clamped, depth='0')};",
    ]
    if across:
        pointed = [
            f"const float* {n['lines']} = {n['side']};" if in_turn else f"const float* {n['lines']} = {n['side']} + {line};"
        ]
    panel = f"const vec* {n['panel']} = &{n['packed']}[{panel_at} * {depth.size} * 2];"
    vectors = f"{n['panel']}[2 * {depth.index} + {n['j']}]"
    if once and o.kernel.dtype == "bfloat16":
        function.prelude.add("widened", WIDENED)
        panel = f"const uint16_t* {n['panel']} = {function.pointer(o.right.buffer)} + {n['start']} * {depth.size};"
        vectors = f"widened({n['panel']} + {depth.index} * WIDE, {n['j']})"
    each_row = f"for (int64_t {n['m']} = 0; {n['m']} < TALL; ++{n['m']})"
    sums = [
        head(depth) + " {",
        "  #pragma GCC unroll 2",
        f"  for (int64_t {n['j']} = 0; {n['j']} < 2; ++{n['j']}) {{",
        f"    const vec {n['some']} = {vectors};",
        "    #pragma GCC unroll 8",
        f"    {each_row} {n['sum']}[{n['m']}][{n['j']}] += {value} * {n['some']};",
        "  }",
        "}",
    ]
    if _ends_in_half(column.length):
        half = vectors.replace(f" + {n['j']}]", "]").replace(f", {n['j']})", ", 0)")
        sums = [
            f"if ({n['start']} + LANES >= {column.size})  // half a panel",
            indent(head(depth) + " {", 1),
            f"    const vec {n['some']} = {half};",
            "    #pragma GCC unroll 8",
            f"    {each_row} {n['sum']}[{n['m']}][0] += {value} * {n['some']};",
            "  }",
            "else",
            *(indent(line, 1) for line in sums),
        ]
    mirrored = not once and _symmetric(o)
    tile = [
        start,
        *(
            [f"if (WIDE % TALL == 0 && {n['start']} + WIDE <= {n['first']}) continue;  // as on the other side"]
            if mirrored
            else []
        ),
        panel,
        *pointed,
        f"vec {n['sum']}[TALL][2] = {{}};",
        *sums,
        f"float {n['tile']}[TALL][WIDE];",
        f"std::memcpy({n['tile']}, {n['sum']}, sizeof {n['tile']});",
        f"for (int64_t {row.index} = {n['first']}; {row.index} < std::min({n['first']} + TALL, {row.size}); ++{row.index}) {{",
        *(indent(line, 1) for line in before),
        "  #pragma omp simd",
        f"  for (int64_t {column.index} = {n['start']}; {column.index} < {end}; ++{column.index})",
        *(indent(line, 1) for line in block(each)),
        "}",
    ]
    if mirrored:
        swapped = replace(o, row=replace(row, index=column.index), column=replace(column, index=row.index))
        value_there = f"{n['tile']}[{row.index} - {n['first']}][{column.index} - {n['start']}]"
        tile += [
            f"if (WIDE % TALL == 0 && {n['start']} > {n['first']})",
            f"  for (int64_t {column.index} = {n['start']}; {column.index} < {end}; ++{column.index})",
            f"    for (int64_t {row.index} = {n['first']}; {row.index} < std::min({n['first']} + TALL, {row.size}); ++{row.index})",
            *(indent(line, 2) for line in block(swapped.results(value_there))),
        ]
    panels = f"for (int64_t {n['p']} = 0; {n['p']} < {n['panels']}; ++{n['p']})"
    rows = f"for (int64_t {n['first']} = 0; {n['first']} < {row.size}; {n['first']} += TALL) {{"
    fill = [panels + " {", indent(start, 1), *(indent(line, 1) for line in packing), "}"]
    loops = (
        [rows.removesuffix(" {"), f"{panels} {{"] if few else [panels, rows]
    )  # few panels stay in the cache, and rows are read once
    work = [loops[0], indent(loops[1], 1), *(indent(line, 2) for line in tile), "  }"]
    turns = [f"{panels} {{", *(indent(line, 1) for line in tile), "}"]  # of some rows
    beside = _copied(o, o.left, row, "TALL", n["first"], n["side"] if in_turn else f"{n['side']} + {line}") or [
        head(depth),
        f"  {each_row}",
        f"    {n['side']}[{'' if in_turn else line + ' + '}{depth.index} * TALL + {n['m']}] = {o.element(o.left, row=clamped)};",
    ]  # side by side as a tile reads them
    if in_turn:
        mine = [f"float {n['side']}[{depth.length} * TALL];", *beside, *turns]
        work = [rows, *(indent(line, 1) for line in mine), "}"]
    declared = [*tables, f"const int64_t {n['panels']} = ({column.size} + WIDE - 1) / WIDE;"]
    rest = f" + ({row.size} + TALL) * {depth.size} / LANES + 1" if across and not in_turn else ""
    memory = [
        f"vec* const {n['packed']} = kept_panels({n['panels']} * {depth.size} * 2{rest});",
        f"float* const {n['pack']} = reinterpret_cast<float*>({n['packed']});",
    ]
    if once:
        side = f"float* const {n['side']} = reinterpret_cast<float*>(kept_panels({rest.removeprefix(' + ')}));"
        memory = [side] if across and not in_turn else []
        if o.kernel.dtype == "float32":
            given = function.pointer(o.right.buffer)
            memory.insert(0, f"const vec* const {n['packed']} = reinterpret_cast<const vec*>({given});")
    elif across and not in_turn:
        memory.append(f"float* const {n['side']} = {n['pack']} + {n['panels']} * {depth.size} * WIDE;")
    if across and not in_turn:
        beside = [rows, *(indent(line, 1) for line in beside), "}"]
        fill = beside if once else [*beside, "#pragma omp for schedule(static)", *fill]
    elif once:
        fill = []
    if batch_inside:
        kept = f"vec* const {n['packed']} = kept_panels({o.batch[0].size} * {n['panels']} * {depth.size} * 2);"
        inside = [
            kept,
            memory[1],
            *nest(o.batch, fill),
            "#pragma omp for schedule(static)",
            rows.removesuffix(" {"),
            *(indent(line, 1) for line in nest(o.batch, turns)),
        ]
        return [*declared, *region("#pragma omp parallel", inside)]
    if math.prod(axis.length for axis in o.batch) >= MANY_BATCHES:
        inside = [
            *memory,
            f"#pragma omp for{collapse(len(o.batch))} schedule(static)",
            *nest(o.batch, [*(line for line in fill if "#pragma" not in line), *work]),
        ]
        return [*declared, *region("#pragma omp parallel", inside)]
    threads = f"#pragma omp for{'' if in_turn else collapse(2)} schedule(static{', 1' if mirrored else ''})"
    shared = [*(["#pragma omp for schedule(static)", *fill] if fill else []), threads, *work]
    return [*declared, *memory, *nest(o.batch, region("#pragma omp parallel", shared))]
