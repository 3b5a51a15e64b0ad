"""Elementwise kernels: a thread for each element. Broadcast operands get their index from the grid or by division."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.map import invariants, pointers, stores
from bottega.compiler.backends.cpp.scalar import compute_type
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads, named, ordered_loops
from bottega.compiler.expression import Load, walk
from bottega.compiler.kernel import Map
from bottega.compiler.view import View

VECTORS, PLANES = "vector_loads", "grid_planes"
BLOCK = 256


@dataclass(frozen=True)
class Launch:
    """A kernel's body, and its grid and block as Python text."""

    lines: list[str]
    grid: str
    block: str = str(BLOCK)
    shared: str = ""


def python(function: FunctionWriter, size: str) -> str:
    """The Python text of a size that is a parameter, or of a product of them."""
    texts = [function.numbers[part][1] if part in function.numbers else part for part in size.split(" * ")]
    return " * ".join(f"({text})" if " " in text and len(texts) > 1 else text for text in texts)


def blocks_of(text: str, block: int = BLOCK) -> str:
    inside = f"({text}) + {block - 1}" if "//" in text else f"{text} + {block - 1}"
    return f"({inside}) // {block}"


class Flat(LoopSpace):
    """Loops walked by one flat index: an operand that lies dense over all of them needs no other."""

    def __init__(self, function: FunctionWriter, axes: list[Axis], flat: str) -> None:
        super().__init__(function, axes)
        self.flat = flat
        self.used: set[str] = set()

    def dense(self, view: View) -> bool:
        step = 1
        for axis in reversed(self.axes):
            if axis.step(view) != step:
                return False
            step *= axis.length
        return view.offset == 0

    def place(self, view: View, computed: tuple[tuple[int, str, int], ...] = ()) -> str:
        if not computed and len(self.axes) > 1 and self.dense(view):
            return self.flat
        self.used |= {axis.index for axis in self.axes if axis.step(view)}
        return super().place(view, computed)


def write_map(function: FunctionWriter, kernel: Map) -> Launch:
    bodies = [store.body for store in kernel.stores]
    operands = loads(bodies) + [store.view for store in kernel.stores]
    loops = ordered_loops(kernel.shape, operands, bodies, kernel.stores[0].view)
    pointers(function, bodies, kernel.stores)
    axes = named(function, loops, operands)
    if len(axes) == 1:
        return _vector(function, kernel, axes[0]) if _vectors(function, kernel, axes[0]) else _single(function, kernel, axes)
    plane = 1
    for axis in axes[:-1]:
        plane *= axis.length
    if PLANES in function.passes and plane <= 65535 and axes[-1].length >= 64:
        return _planes(function, kernel, axes)
    return _single(function, kernel, axes)


def _single(function: FunctionWriter, kernel: Map, axes: list[Axis]) -> Launch:
    if len(axes) == 1:
        flat, total = axes[0].index, axes[0].size
        space: LoopSpace = LoopSpace(function, axes)
    else:
        flat = function.fresh("at", "flat")
        total = " * ".join(axis.size for axis in axes)
        space = Flat(function, axes, flat)
    emitter = CppEmitter(function, space.place, {}, index_names(axes, len(kernel.shape)))
    body = stores(emitter, space, kernel.stores)
    lines = [f"const int64_t {flat} = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;", f"if ({flat} >= {total}) return;"]
    if len(axes) > 1:
        lines += unravelled(axes, flat, " ".join(body))
    return Launch([*lines, *body], blocks_of(python(function, total)))


def unravelled(axes: list[Axis], flat: str, text: str) -> list[str]:
    """Indices of the loops from a flat one, as far as a text uses them."""
    lines = []
    for at, axis in enumerate(axes):
        if not re.search(rf"\b{axis.index}\b", text):
            continue
        below = " / ".join(other.size for other in axes[at + 1 :][::-1]) if at + 1 < len(axes) else ""
        index = f"{flat} / {below}" if below else flat
        lines.append(f"const int64_t {axis.index} = {index}{f' % {axis.size}' if at else ''};")
    return lines


def _planes(function: FunctionWriter, kernel: Map, axes: list[Axis]) -> Launch:
    """A row of blocks for each plane: what is the same for a plane is found once, without dividing for each element."""
    outer, inner = axes[:-1], axes[-1]
    space = LoopSpace(function, axes)
    emitter = CppEmitter(function, space.place, {}, index_names(axes, len(kernel.shape)))
    bodies = [store.body for store in kernel.stores]
    fixed = invariants(emitter, bodies, [inner])
    body = stores(emitter, space, kernel.stores)
    lines = [
        f"const int64_t {inner.index} = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;",
        f"if ({inner.index} >= {inner.size}) return;",
    ]
    if len(outer) == 1:
        lines.append(f"const int64_t {outer[0].index} = blockIdx.y;")
    else:
        plane = function.fresh("plane", "flat")
        lines += [f"const int64_t {plane} = blockIdx.y;", *unravelled(outer, plane, " ".join([*fixed, *body]))]
    rows = python(function, " * ".join(axis.size for axis in outer))
    return Launch([*lines, *fixed, *body], f"({blocks_of(python(function, inner.size))}, {rows})")


def _vectors(function: FunctionWriter, kernel: Map, axis: Axis) -> bool:
    if VECTORS not in function.passes or len(kernel.stores) != 1 or axis.length % 4 or axis.length < 1024:
        return False
    nodes = list(walk(kernel.stores[0].body))
    views = [(node.view, node.dtype) for node in nodes if isinstance(node, Load)] + [
        (kernel.stores[0].view, kernel.stores[0].dtype)
    ]
    moving = all(dtype == "float32" and axis.step(view) == 1 and view.offset == 0 for view, dtype in views)
    return moving and not any(type(node).__name__ in ("Gather", "Index") for node in nodes)


def _vector(function: FunctionWriter, kernel: Map, axis: Axis) -> Launch:
    """Four elements in one load and one store; what happens to each is a function of its own."""
    store = kernel.stores[0]
    each = [node for node in walk(store.body) if isinstance(node, Load)]
    names = {node: function.pointer(node.view.buffer) for node in each}
    inner = CppEmitter(
        function,
        LoopSpace(function, [axis]).place,
        {},
        {},
        {node: (name, compute_type(node.dtype)) for node, name in names.items()},
    )
    statements, (text,) = inner.statements([store.body], ["float"])
    function.release(statements)
    called = function.fresh(f"{function.name.removesuffix('_kernel')}_element", "element")
    scalars = [(kind, name) for name, (kind, _) in function.numbers.items() if name != axis.size]
    parameters = [*(f"float {name}" for name in dict.fromkeys(names.values())), *(f"{kind} {name}" for kind, name in scalars)]
    head = f"__device__ __forceinline__ float {called}({', '.join(parameters)}) {{"
    body = [*(f"  {line}" for line in statements), f"  return {text};"]
    function.prelude.add(
        called, "\n".join([head, *body, "}"]) if statements or len(head) + len(text) > 100 else f"{head} return {text}; }}"
    )
    i = axis.index
    lines = [f"const int64_t {i} = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;", f"if ({i} >= {axis.size} / 4) return;"]
    quads = {}
    for name in dict.fromkeys(names.values()):
        quads[name] = function.fresh(f"{name}4", f"{name}_quad")
        lines.append(f"const float4 {quads[name]} = reinterpret_cast<const float4*>({name})[{i}];")
    out = function.pointer(store.view.buffer, written=True)
    result = function.fresh(f"{out}4", f"{out}_quad")
    more = [name for _, name in scalars]
    lines.append(f"float4 {result};")
    for part in "xyzw":
        arguments = ", ".join([*(f"{quad}.{part}" for quad in quads.values()), *more])
        lines.append(f"{result}.{part} = {called}({arguments});")
    lines.append(f"reinterpret_cast<float4*>({out})[{i}] = {result};")
    return Launch(lines, blocks_of(f"{python(function, axis.size)} // 4"))
