"""Rows that lie across memory: tiles of neighbouring columns are reduced side by side, one vector lane for each.

The plain loop would jump a whole row for each element and use four bytes of every cache line it fetches.
"""

from __future__ import annotations

from collections.abc import Sequence

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.loop_text import better, block, braced, collapse, heads, indent, nest, start_of
from bottega.compiler.backends.cpp.map import fixed, grain, stores
from bottega.compiler.backends.cpp.row_cache import RowCache
from bottega.compiler.backends.cpp.row_space import ONCE, SPLIT, RowSpace, result_kind, spelled
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads
from bottega.compiler.expression import Apply, Expression, Gather, Load, Name, children, walk
from bottega.compiler.kernel import Reduction

COLUMN_TILES = "column_tiles"
TILE = 256
AHEAD, LINE, NEAR = 8, 64, 65_536
"""Rows of a table that are fetched ahead, bytes of a line, and of a table that lies in the first cache."""
DEEP = 2048


def lies_across(space: RowSpace) -> Axis | None:
    """The kept axis along which memory runs, where the row does not."""
    nodes = [node for reduction in space.reductions for node in walk(reduction.body)]
    chosen = [node for node in nodes if isinstance(node, Gather) and _moves_along(node.index, space.reduced)]
    places = {view for node in chosen for view in loads([node.index])}
    views = [view for view in loads([reduction.body for reduction in space.reductions]) if view not in places]
    views = [
        view for view in views if any(axis.step(view) for axis in space.reduced) or any(view == one.view for one in chosen)
    ]
    if not views or any(axis.step(view) == 1 for view in views for axis in space.reduced):
        return None
    found = [axis for axis in space.kept if all(axis.step(view) in (0, 1) for view in views)]
    found = [axis for axis in found if any(axis.step(view) == 1 for view in views)]
    return found[0] if found and found[0].length >= 8 else None


def _moves_along(index: Expression, axes: list[Axis]) -> bool:
    """Whether rows are chosen by what they hold: they then lie apart, however close their numbers are."""
    return any(axis.step(view) for view in loads([index]) for axis in axes)


def write_across(space: RowSpace, column: Axis) -> list[str]:
    function = space.function
    outer = [axis for axis in space.kept if axis is not column]
    tiles = -(-column.length // TILE)
    rows = 1
    for axis in outer:
        rows *= axis.length
    sums = all(reduction.operation == "sum" for reduction in space.reductions)
    private = SPLIT in function.passes and rows * tiles < 8 and sums and space.length >= 1024
    start, end = function.fresh("start", "first"), function.fresh("end", "stop")
    inner = Axis(column.loop, column.index, end)
    lane = f"{column.index} - {start}"
    loop = f"for (int64_t {column.index} = {start}; {column.index} < {end}; ++{column.index})"
    writer = _Tile(space, [*outer, column], inner, lane, loop, private)
    whole = column.length % writer.width == 0  # then the compiler knows how long a tile is, and keeps sums in registers
    after = f"{start} + {writer.width}"
    lines = [f"const int64_t {end} = {after if whole else f'std::min<int64_t>({after}, {column.size})'};"]
    for reduction in space.reductions:
        lines += writer.reduce(reduction)
    lines += writer.rows_out()
    lines += writer.elements_out()
    loops = [
        *heads(outer),
        indent(f"for (int64_t {start} = 0; {start} < {column.size}; {start} += {writer.width})", len(outer)),
    ]
    threads = f"#pragma omp parallel for{collapse(len(loops))} schedule(static){grain(function, space.axes)}"
    return [*([] if private else [threads]), *braced(loops, lines)]


class _Tile:
    def __init__(self, space: RowSpace, kept: list[Axis], inner: Axis, lane: str, loop: str, private: bool) -> None:
        self.space, self.function = space, space.function
        self.inner, self.lane, self.loop, self.private = inner, lane, loop, private
        self.width = min(TILE, inner.length)
        self.fetched: set[Expression] = set()
        self.axes = [*kept, *space.reduced]
        self.place = LoopSpace(self.function, self.axes)
        indices = index_names(self.axes, space.rank)
        self.emitter = CppEmitter(self.function, self.place.place, space.names, indices)
        once = ONCE in self.function.passes and not private
        self.cache = RowCache(space, self.emitter, scratch=False) if once else None

    def reduce(self, reduction: Reduction) -> list[str]:
        function, body, operation = self.function, reduction.body, reduction.operation
        lines = self.derived([body])
        kind = self.emitter.kind(body)
        result = result_kind(operation, kind)
        name = function.fresh(spelled(reduction.name), f"{spelled(reduction.name)}_tile")
        wide = "double" if result == "float" and operation in ("sum", "prod") and self.space.length > DEEP else result
        best = function.fresh("best", "best_tile") if operation.startswith("arg") else name
        local = CppEmitter(function, self.place.place, self.space.names, self.emitter.indices, self.emitter.known)
        if self.cache:
            self.cache.enter(local, self.place, body)
        statements, (text,) = local.statements([body], [kind])
        if self.cache:
            text, statements = self.cache.leave(local, self.place, body, text, statements)
        function.release(statements)
        at = f"{name}[{self.lane}]"
        if operation == "sum":
            lines.append(f"{wide} {name}[{self.width}] = {{}};")
            update = [*statements, f"{at} += {text};"]
        else:
            kept = kind if operation.startswith("arg") else wide
            lines += [
                f"{kept} {best}[{self.width}];",
                f"std::fill({best}, {best} + {self.width}, {start_of(operation, kind)});",
            ]
            if operation == "prod":
                update = [*statements, f"{at} *= {text};"]
            elif operation in ("any", "all"):
                update = [*statements, f"{at} = {text} {'||' if operation == 'any' else '&&'} {at};"]
            elif operation in ("max", "min"):
                function.prelude.use(f"{operation}imum", kind)
                update = [*statements, f"{at} = {operation}imum({at}, {text});"]
            else:
                lines.append(f"int64_t {name}[{self.width}] = {{}};")
                held, one, wins = f"{best}[{self.lane}]", function.fresh("candidate"), function.fresh("better")
                update = [
                    *statements,
                    f"const {kind} {one} = {text};",
                    f"const bool {wins} = {better(operation, one, held)};",
                    f"{at} = {wins} ? {self.place.place(self.space.position)} : {at};",
                    f"{held} = {wins} ? {one} : {held};",
                ]
                function.taken -= {one, wins}
        lines += self.sweep(update, f" reduction(+ : {name}[:{self.width}])" if self.private else "", self.fetched_ahead(body))
        self.space.names[reduction.name] = (at, result)
        return lines

    def fetched_ahead(self, body: Expression) -> list[str]:
        """Rows of a table that the next indices choose: no processor foresees them, and a sum waits for each."""
        lines: list[str] = []
        for node in walk(body):
            if not isinstance(node, Gather) or not isinstance(node.index, Load) or node in self.fetched:
                continue
            table, where = self.function.buffer(node.view.buffer), node.index.view
            bytes_each = 2 if node.dtype in ("bfloat16", "float16") else 4
            dense = not where.offset and self.space.reduced[-1].step(where) == 1 and not self.inner.step(where)
            if not dense or self.inner.step(node.view) != 1 or table.size * bytes_each <= NEAR:
                continue
            self.fetched.add(node)
            last = self.function.buffer(where.buffer).size - 1
            index = f"{self.function.pointer(where.buffer)}[std::min<int64_t>({self.place.place(where)} + {AHEAD}, {last})]"
            element = self.place.place(node.view, ((node.axis_stride, index, node.size),))
            step = self.loop.replace(f"++{self.inner.index}", f"{self.inner.index} += {LINE // bytes_each}")
            lines += [step, f"  __builtin_prefetch(&{self.function.pointer(node.view.buffer)}[{element}]);"]
        return lines

    def sweep(self, update: list[str], clause: str = "", before: Sequence[str] = ()) -> list[str]:
        reduced = self.space.reduced
        threads = [f"#pragma omp parallel for{collapse(len(reduced))} schedule(static){clause}"] if self.private else []
        return [*threads, *nest(reduced, [*before, "#pragma omp simd", self.loop, *block(update)])]

    def derived(self, bodies: list[Expression]) -> list[str]:
        """What follows from the reductions alone is computed once for each column of the tile."""
        lines: list[str] = []
        seen: set[Expression] = set()

        def visit(node: Expression) -> None:
            if node in seen or node in self.emitter.known:
                return
            seen.add(node)
            named = any(isinstance(part, Name) and part.name in reductions for part in walk(node))
            if isinstance(node, Apply) and named and fixed(node, self.space.reduced):
                kind, text = self.emitter.kind(node), self.emitter.text(node)
                wish = {"rsqrt": "scale", "reciprocal": "inverse", "div": "mean"}.get(node.function, "derived")
                name = self.function.fresh(wish, f"{wish}_tile")
                lines.extend(
                    [f"{kind} {name}[{self.width}];", "#pragma omp simd", self.loop, f"  {name}[{self.lane}] = {text};"]
                )
                self.emitter.known[node] = (f"{name}[{self.lane}]", kind)
                return
            for child in children(node):
                visit(child)

        reductions = {reduction.name for reduction in self.space.reductions}
        for body in bodies:
            visit(body)
        return lines

    def rows_out(self) -> list[str]:
        if not self.space.row_stores:
            return []
        lines = stores(self.emitter, self.place, self.space.row_stores)
        return ["#pragma omp simd", self.loop, *block(lines)]

    def elements_out(self) -> list[str]:
        if not self.space.element_stores:
            return []
        bodies = [store.body for store in self.space.element_stores]
        if self.cache:
            for body in bodies:
                self.cache.enter(self.emitter, self.place, body)
        lines = self.derived(bodies)
        return [*lines, *self.sweep(stores(self.emitter, self.place, self.space.element_stores))]


def write_columns(space: RowSpace) -> list[str] | None:
    """The tiled layout, where the technique is on and memory runs across the rows."""
    column = lies_across(space) if COLUMN_TILES in space.function.passes else None
    return None if column is None else write_across(space, column)
