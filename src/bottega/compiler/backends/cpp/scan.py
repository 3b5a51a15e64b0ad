"""Running sums and the like. A thread carries along a row; few long rows are cut in two passes; rows that lie across memory
are carried side by side."""

from __future__ import annotations

import math
from dataclasses import replace

from bottega.compiler.backends.cpp.columns import COLUMN_TILES, TILE
from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import block, braced, collapse, heads, indent, nest, start_of
from bottega.compiler.backends.cpp.map import pointers, stores
from bottega.compiler.backends.cpp.row_space import FEW, LONG
from bottega.compiler.backends.cpp.scalar import compute_type
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads, named, ordered_loops
from bottega.compiler.kernel import RUNNING, Scan

CHUNKS = "scan_chunks"


class Run:
    """The names of a scan's loops."""

    def __init__(self, function: FunctionWriter, kernel: Scan) -> None:
        self.function, self.kernel = function, kernel
        bodies = [kernel.element, *(store.body for store in kernel.stores)]
        pointers(function, bodies, kernel.stores)
        operands = [*loads(bodies), *(store.view for store in kernel.stores)]
        lead = kernel.stores[0].view
        kept = [loop for loop in ordered_loops((*kernel.kept, 1), operands, bodies, lead) if loop.axes]
        along = ordered_loops((*(1 for _ in kernel.kept), kernel.length), operands, bodies, lead)
        loops = [*kept, *along]
        order = sorted(range(len(loops)), key=lambda at: -lead.strides[loops[at].axes[-1]] if loops[at].axes else 0)
        axes = named(function, [loops[at] for at in order], operands)
        self.kept = [axes[order.index(at)] for at in range(len(kept))]
        self.along = axes[order.index(len(kept))]
        self.kind = compute_type(kernel.dtype)
        self.wide = "double" if self.kind == "float" and kernel.operation in ("sum", "prod") else self.kind
        self.start = start_of(kernel.operation, self.kind)
        if kernel.operation == "logaddexp":
            function.prelude.use("log_sum")
            self.wide, self.start = f"log_sum<{self.kind}>", f"log_sum<{self.kind}>{{}}"
        self.rank = len(kernel.kept) + 1

    def loop(self, begin: str = "0", end: str = "") -> str:
        """The head of the loop along the row."""
        index = self.along.index
        return f"for (int64_t {index} = {begin}; {index} < {end or self.along.size}; ++{index})"

    def joined(self, held: str, text: str) -> str:
        if self.kernel.operation in ("sum", "prod"):
            return f"{held} {'+' if self.kernel.operation == 'sum' else '*'} {text}"
        if self.kernel.operation == "logaddexp":
            return f"joined({held}, {text})"
        name = f"{self.kernel.operation}imum"
        self.function.prelude.use(name, self.kind)
        return f"{name}({held}, {text})"

    def body(self, carry: str, position: str = "") -> list[str]:
        """One step: the element joins the carry, and what is stored."""
        along = replace(self.along, index=position or self.along.index)
        axes = [*self.kept, along]
        space = LoopSpace(self.function, axes)
        indices = index_names(axes, self.rank)
        running = f"value_of({carry})" if self.kernel.operation == "logaddexp" else carry
        emitter = CppEmitter(self.function, space.place, {RUNNING: (running, self.kind)}, indices)
        taken = set(self.function.taken)
        statements, (text,) = emitter.statements([self.kernel.element], [self.kind])
        simple = text if " " not in text or self.kernel.operation not in ("sum", "prod") else f"({text})"
        step = f"{carry} = {self.joined(carry, simple)};"
        if self.kernel.operation in ("sum", "prod"):
            step = f"{carry} {'+' if self.kernel.operation == 'sum' else '*'}= {text};"
        done = stores(emitter, space, self.kernel.stores)
        self.function.release(statements, taken)
        return [*statements, step, *done]


def write_scan(function: FunctionWriter, kernel: Scan) -> list[str]:
    run = Run(function, kernel)
    across = next((axis for axis in run.kept if axis.step(kernel.stores[0].view) == 1 and axis.length >= 8), None)
    if COLUMN_TILES in function.passes and across is not None and run.along.step(kernel.stores[0].view) != 1:
        return _across(run, across)
    rows = math.prod(axis.length for axis in run.kept)
    costly = kernel.operation == "logaddexp"  # exponentials twice
    if CHUNKS in function.passes and rows <= FEW and run.along.length >= LONG and not costly:
        return _chunks(run)
    return _plain(run)


def _plain(run: Run) -> list[str]:
    carry = run.function.fresh("carry", "running", "carried")
    lines = [f"{run.wide} {carry} = {run.start};", run.loop(), *block(run.body(carry))]
    threads = [f"#pragma omp parallel for{collapse(len(run.kept))} schedule(static)"] if run.kept else []
    return [*threads, *nest(run.kept, lines)]


def _across(run: Run, column: Axis) -> list[str]:
    function = run.function
    outer = [axis for axis in run.kept if axis is not column]
    start, end, carry = function.fresh("start", "first"), function.fresh("end", "stop"), function.fresh("carry", "running")
    loop = f"for (int64_t {column.index} = {start}; {column.index} < {end}; ++{column.index})"
    wide = run.kind if run.wide == "double" and run.along.length <= 2048 else run.wide
    fill = f"{wide} {carry}[{TILE}] = {{}};" if run.kernel.operation == "sum" else f"{wide} {carry}[{TILE}];"
    lines = [f"const int64_t {end} = std::min<int64_t>({start} + {TILE}, {column.size});", fill]
    if run.kernel.operation != "sum":
        lines.append(f"std::fill({carry}, {carry} + {TILE}, {run.start});")
    lines += [
        run.loop() + " {",
        "  #pragma omp simd",
        indent(loop, 1),
        *(indent(line, 1) for line in block(run.body(f"{carry}[{column.index} - {start}]"))),
        "}",
    ]
    tiles = indent(f"for (int64_t {start} = 0; {start} < {column.size}; {start} += {TILE})", len(outer))
    loops = [*heads(outer), tiles]
    return [f"#pragma omp parallel for{collapse(len(loops))} schedule(static)", *braced(loops, lines)]


def _chunks(run: Run) -> list[str]:
    """Each chunk's own result first, then what came before it, then every chunk from there."""
    function = run.function
    names = {name: function.fresh(name, f"{name}_") for name in ("chunk", "chunks", "before", "part", "total", "carry", "held")}
    chunk, chunks, before, part, total, carry = (names[key] for key in ("chunk", "chunks", "before", "part", "total", "carry"))
    begin = f"{part} * {chunk}"
    end = f"std::min(({part} + 1) * {chunk}, {run.along.size})"
    axes = [*run.kept, run.along]
    space = LoopSpace(function, axes)
    emitter = CppEmitter(function, space.place, {}, index_names(axes, run.rank))
    taken = set(function.taken)
    statements, (text,) = emitter.statements([run.kernel.element], [run.kind])
    function.release(statements, taken)
    sign = {"sum": "+", "prod": "*"}.get(run.kernel.operation)
    update = f"{total} {sign}= {text};" if sign else f"{total} = {run.joined(total, text)};"
    simd = [f"#pragma omp simd reduction({sign} : {total})"] if sign else []
    parts = [f"for (int64_t {part} = 0; {part} < {chunks}; ++{part})"]
    first = [
        f"{run.wide} {total} = {run.start};",
        *simd,
        run.loop(begin, end),
        *block([*statements, update]),
        f"{before}[{part}] = {total};",
    ]
    shift = [
        f"const {run.wide} {names['held']} = {before}[{part}];",
        f"{before}[{part}] = {carry};",
        f"{carry} = {run.joined(carry, names['held'])};",
    ]
    second = [f"{run.wide} {total} = {before}[{part}];", run.loop(begin, end), *block(run.body(total))]
    parallel = "#pragma omp parallel for schedule(static)"
    lines = [
        f"const int64_t {chunk} = 16384, {chunks} = ({run.along.size} + {chunk} - 1) / {chunk};",
        f"std::vector<{run.wide}> {before}({chunks});",
    ]
    inside = [
        parallel,
        *braced(parts, first),
        f"{run.wide} {carry} = {run.start};",
        *braced(parts, shift),
        parallel,
        *braced(parts, second),
    ]
    return [*lines, *nest(run.kept, inside)]
