"""Every element for itself: one pass over memory, threads over the outer loops, vectors along the innermost."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from dataclasses import replace

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import block, braced, collapse, head, nest
from bottega.compiler.backends.cpp.pieces import pieces_of, within
from bottega.compiler.backends.cpp.scalar import compute_type
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads, named, ordered_loops
from bottega.compiler.expression import (
    Apply,
    Cast,
    Constant,
    Expression,
    Gather,
    Index,
    Load,
    Name,
    children,
    walk,
)
from bottega.compiler.kernel import Map, StoreOp
from bottega.compiler.view import View

GRAIN = "grain_threshold"
SMALL = 65536
SHORTEST_PIECE = 8
"""Of fewer elements no vector is made."""
MANY_TURNS = 16
"""So often must elements be read to be worth a copy."""


def write_map(function: FunctionWriter, kernel: Map) -> list[str]:
    bodies = [store.body for store in kernel.stores]
    operands = loads(bodies) + [store.view for store in kernel.stores]
    loops = ordered_loops(kernel.shape, operands, bodies, kernel.stores[0].view)
    pointers(function, bodies, kernel.stores)
    axes = named(function, loops, operands)
    space = LoopSpace(function, axes)
    emitter = CppEmitter(function, space.place, {}, index_names(axes, len(kernel.shape)))
    threshold = grain(function, axes)
    before = side_by_side(emitter, bodies, axes)
    inside = invariants(emitter, bodies, axes[-1:])
    if len(axes) == 1:
        lines = [*inside, f"#pragma omp parallel for simd schedule(static){threshold}", head(axes[0])]
        return lines + block(stores(emitter, space, kernel.stores))
    inside += _cut(emitter, space, axes[-1], kernel.stores) or in_parts(
        function, axes[-1], stores(emitter, space, kernel.stores)
    )
    return [*before, f"#pragma omp parallel for{collapse(len(axes) - 1)} schedule(static){threshold}", *nest(axes[:-1], inside)]


def _cut(emitter: CppEmitter, space: LoopSpace, axis: Axis, outputs: Sequence[StoreOp]) -> list[str]:
    """The innermost loop in pieces, where its index decides what is read."""
    bodies = [store.body for store in outputs]
    cyclic = any(isinstance(node, Apply) and node.function == "remainder" for body in bodies for node in walk(body))
    found = pieces_of(bodies, axis.loop.axes[0], axis.length) if len(axis.loop.axes) == 1 and not cyclic else []
    lines: list[str] = []
    for low, high in found:
        one = [replace(store, body=within(store.body, axis.loop.axes[0], low, high)) for store in outputs]
        end = axis.size if high == axis.length else str(high)
        loop = f"for (int64_t {axis.index} = {low}; {axis.index} < {end}; ++{axis.index})"
        lines += ["#pragma omp simd", loop, *block(stores(emitter, space, one))]
    return lines


def side_by_side(emitter: CppEmitter, bodies: Sequence[Expression], axes: Sequence[Axis]) -> list[str]:
    """Copies of elements that the innermost loop reads at a distance, and every turn of the outer loops reads again: they become vectors."""
    inner, lines = axes[-1], []
    turns = math.prod(axis.length for axis in axes[:-1])
    for node in dict.fromkeys(node for body in bodies for node in walk(body) if isinstance(node, Load)):
        apart = inner.step(node.view) not in (0, 1) and not any(_moves(node.view, axis) for axis in axes[:-1])
        if not apart or emitter.kind(node) == "bool" or turns < MANY_TURNS or inner.length < SHORTEST_PIECE:
            continue
        kind, text = emitter.kind(node), emitter.text(node)
        name = emitter.function.fresh(f"{emitter.function.pointer(node.view.buffer)}_line", "line")
        lines += [f"std::vector<{kind}> {name}({inner.size});", head(inner), f"  {name}[{inner.index}] = {text};"]
        emitter.known[node] = (f"{name}[{inner.index}]", kind)
    return lines


def in_parts(function: FunctionWriter, axis: Axis, body: list[str]) -> list[str]:
    """The innermost loop. Where its index is cut into equal pieces (`cat` of halves), a loop for each piece: the rest of a division makes no
    vectors, and what belongs to one piece is known before its loop."""
    text = "\n".join(body)
    lengths = {int(length) for length in re.findall(rf"remainder_of\({axis.index}, (\d+)\)", text)}
    length = lengths.pop() if len(lengths) == 1 else 0
    if length < SHORTEST_PIECE or axis.length % length:
        return ["#pragma omp simd", head(axis), *block(body)]
    piece = function.fresh("piece", "part")
    text = text.replace(f"remainder_of({axis.index}, {length})", f"({axis.index} - {piece})")
    text = text.replace(f"= ({axis.index} - {piece});", f"= {axis.index} - {piece};")
    text = re.sub(
        rf"\b{axis.index} < (\d+)\b", lambda found: f"{piece} < {found[1]}" if int(found[1]) % length == 0 else found[0], text
    )
    loop = f"for (int64_t {axis.index} = {piece}; {axis.index} < {piece} + {length}; ++{axis.index})"
    inner = ["#pragma omp simd", loop, *block(text.split("\n"))]
    return braced([f"for (int64_t {piece} = 0; {piece} < {axis.size}; {piece} += {length})"], inner)


def pointers(function: FunctionWriter, bodies: Sequence[Expression], outputs: Sequence[StoreOp]) -> None:
    """Parameters in the order in which they are read, results last."""
    for view in loads(bodies):
        function.pointer(view.buffer)
    for store in outputs:
        function.pointer(store.view.buffer, written=True)


def stores(emitter: CppEmitter, space: LoopSpace, outputs: Sequence[StoreOp]) -> list[str]:
    """The statements that compute and store one element of each result."""
    wanted = [compute_type(store.dtype) for store in outputs]
    before = set(emitter.known)
    taken = set(emitter.function.taken)
    lines, texts = emitter.statements([store.body for store in outputs], wanted)
    read = {view.buffer for view in loads([store.body for store in outputs])}
    if len(outputs) > 1 and any(
        store.view.buffer in read for store in outputs
    ):  # all is computed before an element is overwritten
        names = [emitter.function.fresh(f"new_{emitter.function.pointer(store.view.buffer)}", "fresh") for store in outputs]
        lines += [f"const {kind} {name} = {text};" for kind, name, text in zip(wanted, names, texts)]
        emitter.function.release(lines[-len(names) :], taken)
        texts = names
    for store, text in zip(outputs, texts):
        target = f"{emitter.function.pointer(store.view.buffer, written=True)}[{space.place(store.view)}]"
        lines.append(f"{target} = {emitter.stored(text, store.dtype)};")
    for node in set(emitter.known) - before:
        name = emitter.known.pop(node)[0]
        if name not in taken:
            emitter.function.taken.discard(name)
    return lines


def tail(
    emitter: CppEmitter, space: LoopSpace, outputs: Sequence[StoreOp], inner: Axis, changing: Container[str]
) -> tuple[list[str], list[str]]:
    """What becomes of a tile's elements along its inner loop: what is computed before that loop, and the loop's body.

    The compiler would compute all of it for every element: for what it knows, a store may change what is read.
    """
    before = invariants(emitter, [store.body for store in outputs], [inner], changing)
    return before, stores(emitter, space, outputs)


def tabled(function: FunctionWriter, before: Sequence[str], row: Axis, others: Sequence[Axis]) -> tuple[list[str], list[str]]:
    """What takes a root or a division and is the same for a whole row, for all rows once: the lines that fill the tables, to be put in
    front of all loops, and the lines with the tables' values in the place of what they hold."""
    tables: list[str] = []
    lines: list[str] = []
    moving = {axis.index for axis in others} | {line.split(" = ")[0].split()[-1] for line in before}
    for line in before:
        left, text = line.removesuffix(";").split(" = ", 1)
        kind, name = left.split()[-2:]
        costly = "std::sqrt" in text or " / " in text
        if not costly or row.index == "0" or moving & set(re.findall(r"\w+", text)):
            lines.append(line)
            continue
        table = function.fresh(f"{name}s", f"{name}_table")
        tables += [f"std::vector<{kind}> {table}({row.size});", head(row), f"  {table}[{row.index}] = {text};"]
        lines.append(f"{left} = {table}[{row.index}];")
    return tables, lines


def invariants(
    emitter: CppEmitter, bodies: Sequence[Expression], inner: Sequence[Axis], changing: Container[str] = ()
) -> list[str]:
    """Locals for what does not change along the inner axes: it is computed before that loop. Names in `changing` do."""
    lines: list[str] = []
    seen: set[Expression] = set()

    def visit(node: Expression) -> None:
        if node in seen or node in emitter.known or isinstance(node, Constant | Name | Index):
            return
        seen.add(node)
        if fixed(node, inner, changing) and not isinstance(node, Cast):
            kind, text = emitter.kind(node), emitter.text(node)
            name = emitter.function.fresh(*_wishes(emitter, node))
            lines.append(f"const {kind} {name} = {text};")
            emitter.known[node] = (name, kind)
            return
        for child in children(node):
            visit(child)

    for body in bodies:
        visit(body)
    return lines


def fixed(node: Expression, inner: Sequence[Axis], changing: Container[str] = ()) -> bool:
    """Whether a node is the same for all indices of the inner axes. A plain number is not worth a variable."""
    own = {at for axis in inner for at in axis.loop.axes}
    parts = list(walk(node))
    if not any(isinstance(part, Load | Gather | Name) for part in parts):
        return False
    for part in parts:
        if isinstance(part, Load | Gather) and any(_moves(part.view, axis) for axis in inner):
            return False
        if isinstance(part, Index) and part.axis in own:
            return False
        if isinstance(part, Name) and part.name in changing:
            return False
    return True


def _moves(view: View, axis: Axis) -> bool:
    return any(view.strides[at] != 0 for at in axis.loop.axes if at < len(view.strides))


def _wishes(emitter: CppEmitter, node: Expression) -> tuple[str, ...]:
    if isinstance(node, Load | Gather):
        name = emitter.function.pointer(node.view.buffer)
        return (f"{name}_here", f"{name}_value") if len(name) == 1 else (name[0], f"{name}_here", f"{name}_value")
    if isinstance(node, Apply):
        if node.function == "div" and any(isinstance(part, Name) and part.name == "row length" for part in node.arguments):
            return ("mean", "mean_here")
        wish = {"rsqrt": "scale", "reciprocal": "inverse", "div": "ratio", "sqrt": "root"}.get(node.function, "fixed")
        return (wish, f"{wish}_here")
    return ("fixed",)


def grain(function: FunctionWriter, axes: Sequence[Axis]) -> str:
    """Small kernels stay on one thread: waking a team costs more than they do."""
    count = 1
    for axis in axes:
        count *= axis.length
    if GRAIN not in function.passes or count > SMALL:
        return ""
    return f" if ({' * '.join(axis.size for axis in axes)} > 32768)"
