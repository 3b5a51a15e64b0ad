"""Rows: reductions over each row, then what is stored. A thread takes whole rows; where there are few, a row is shared.

Which way the row lies in memory decides the layout: along it, a sweep over one row; across it, tiles of neighbouring columns
(`columns.py`) that walk down together.
"""

from __future__ import annotations

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import better, block, collapse, head, heads, indent, nest, over, region, start_of
from bottega.compiler.backends.cpp.map import grain, invariants, stores
from bottega.compiler.backends.cpp.row_body import ReductionBody, element_loops, reduction_body
from bottega.compiler.backends.cpp.row_cache import RowCache
from bottega.compiler.backends.cpp.row_space import (
    FEW,
    LONG,
    ONCE,
    SIMD_REDUCTIONS,
    SPLIT,
    RowSpace,
)
from bottega.compiler.backends.cpp.space import LoopSpace
from bottega.compiler.backends.cpp.sweeps import first_of, sweep
from bottega.compiler.backends.cpp.top import Top, joined_tops, write_top
from bottega.compiler.expression import (
    Expression,
    Gather,
    Load,
    children,
)
from bottega.compiler.kernel import Reduction
from bottega.compiler.view import View


def write_along(space: RowSpace) -> list[str]:
    function = space.function
    split = SPLIT in function.passes and space.rows <= FEW and space.length >= LONG and SIMD_REDUCTIONS in function.passes
    emitter = space.emitter()
    lines: list[str] = []
    in_memory = SIMD_REDUCTIONS in function.passes and len(space.reduced) == 1 and not split
    program = joined_tops(space.reductions) if in_memory else list(space.reductions)
    space.reductions = tuple(one.first if isinstance(one, Top) else one for one in program)
    cache = RowCache(space, emitter) if ONCE in function.passes and not split else None
    for one in program:
        if isinstance(one, Top):
            lines += write_top(space, emitter, one, cache)
        else:
            lines += _reduction(space, emitter, one, split, cache)
    lines += _row_results(space, emitter)
    lines += _elements(space, emitter, split, cache)
    if not space.kept:
        return lines
    threads = (
        "" if split else f"#pragma omp parallel for{collapse(len(space.kept))} schedule(static){grain(function, space.axes)}"
    )
    scratch = cache.declaration() if cache is not None else []
    if scratch:
        threads = threads.replace("parallel for", "for")
    whole = [*([threads] if threads else []), *nest(space.kept, lines)]
    if scratch:
        guard = grain(function, space.axes)
        whole[0] = whole[0].replace(guard, "")
        return region(f"#pragma omp parallel{guard}", [*scratch, *whole])
    return whole


def _reduction(space: RowSpace, emitter: CppEmitter, reduction: Reduction, split: bool, cache: RowCache | None) -> list[str]:
    function = space.function
    position = reduction.operation.startswith("arg")
    body = reduction_body(space, emitter, reduction, cache, [space.position] if position else [])
    if SIMD_REDUCTIONS in function.passes and not (position and len(body.axes) > 1):
        return [*body.lines, *_swept(function, reduction.operation, body, split, _best(space, reduction))]
    return [*body.lines, *_plain(function, reduction.operation, body, body.inside.place(space.position))]


def _best(space: RowSpace, reduction: Reduction) -> str:
    """The extreme itself, where an earlier reduction over the same elements found it."""
    for other in space.reductions:
        if other.name in space.names and f"arg{other.operation}" == reduction.operation and other.body == reduction.body:
            return space.names[other.name][0]
    return ""


def _plain(function: FunctionWriter, operation: str, body: ReductionBody, position: str) -> list[str]:
    name, kind, result, axes = body.name, body.kind, body.result, body.axes
    statements, text = body.statements, body.text
    wide = "double" if result == "float" and operation in ("sum", "prod") else result
    start = start_of(operation, kind)
    if operation in ("sum", "prod"):
        update = [*statements, f"{name} {'+' if operation == 'sum' else '*'}= {text};"]
        first = [f"{wide} {name} = {start};"]
    elif operation in ("any", "all"):
        update = [*statements, f"{name} = {name} {'||' if operation == 'any' else '&&'} {text};"]
        first = [f"bool {name} = {start};"]
    else:
        best = function.fresh("best", "best_so_far") if operation.startswith("arg") else name
        first = [f"{kind} {best} = {start};"]
        one = function.fresh("candidate", "each")
        statements = [*statements, f"const {kind} {one} = {text};"]
        if operation.startswith("arg"):
            first.append(f"int64_t {name} = 0;")
            update = [
                *statements,
                f"if ({better(operation, one, best)}) {{",
                f"  {best} = {one};",
                f"  {name} = {position};",
                "}",
            ]
        else:
            update = [*statements, f"if ({one} {'>' if operation == 'max' else '<'} {best} || {one} != {one}) {best} = {one};"]
        function.taken.discard(one)
    return [*first, *over(axes, update)]


def _swept(function: FunctionWriter, operation: str, body: ReductionBody, split: bool, best: str) -> list[str]:
    name, kind, result, axes = body.name, body.kind, body.result, body.axes
    here = split and len(axes) == 1
    last = axes[-1]
    called = f"{sweep(function, operation, kind, here) if not best else first_of(function, kind)}({last.size}"
    called += f", {best}" if best else ""
    inner = [*body.statements, f"return {body.text};"]
    one_line = f"{called}, [=](int64_t {last.index}) {{ {' '.join(inner)} }})"
    if len(axes) == 1:
        first = f"const {result} {name} = {one_line};"
        if len(first) <= 108:
            return [first]
        return [
            f"const {result} {name} = {called}, [=](int64_t {last.index}) {{",
            *(indent(line, 1) for line in inner),
            "});",
        ]
    wide = "double" if result == "float" and operation in ("sum", "prod") else result
    if operation in ("max", "min"):
        function.prelude.use(f"{operation}imum", kind)
        update = f"{name} = {operation}imum({name}, {one_line});"
    elif operation in ("any", "all"):
        update = f"{name} = {one_line} {'||' if operation == 'any' else '&&'} {name};"
    else:
        update = f"{name} {'+' if operation == 'sum' else '*'}= {one_line};"
    pragma = []
    if split and operation == "sum":
        pragma = [f"#pragma omp parallel for{collapse(len(axes) - 1)} schedule(static) reduction(+ : {name})"]
    return [f"{wide} {name} = {start_of(operation, kind)};", *pragma, *heads(axes[:-1]), indent(update, len(axes) - 1)]


def _row_results(space: RowSpace, emitter: CppEmitter) -> list[str]:
    if not space.row_stores:
        return []
    place = LoopSpace(space.function, space.kept)
    return stores(emitter, place, space.row_stores)


def _elements(space: RowSpace, emitter: CppEmitter, split: bool, cache: RowCache | None) -> list[str]:
    if not space.element_stores:
        return []
    bodies = [store.body for store in space.element_stores]
    lines = invariants(emitter, bodies, space.reduced)
    shown = [view for body in bodies for view in _shown(body, emitter)]
    axes, inside, local = element_loops(space, emitter, shown, cache)
    more = invariants(local, bodies, axes[-1:]) if len(axes) > 1 else []
    inner = [head(axes[-1]), *block(stores(local, inside, space.element_stores))]
    if len(axes) == 1:
        return [*lines, f"#pragma omp {'parallel for ' if split else ''}simd", *inner]
    threads = [f"#pragma omp parallel for{collapse(len(axes) - 1)} schedule(static)"] if split else []
    return [*lines, *threads, *nest(axes[:-1], [*more, "#pragma omp simd", *inner])]


def _shown(body: Expression, emitter: CppEmitter) -> list[View]:
    """Views that are still loaded once what is known has become a name."""
    seen: dict[Expression, None] = {}

    def visit(node: Expression) -> None:
        if node not in seen and node not in emitter.known:
            seen[node] = None
            for child in children(node):
                visit(child)

    visit(body)
    return [node.view for node in seen if isinstance(node, Load | Gather)]
