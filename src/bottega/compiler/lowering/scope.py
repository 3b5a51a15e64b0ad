"""The state of lowering: the buffers so far, what each node of the graph has become, and the statements that compute it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from bottega.compiler.build_step import Refusal
from bottega.compiler.compose import reshaped
from bottega.compiler.expression import (
    BITS,
    TRUTHS,
    Apply,
    Cast,
    Constant,
    Expression,
    Gather,
    Index,
    Load,
    children,
    walk,
    with_views,
)
from bottega.compiler.kernel import FunctionCall, Kernel, Map, Reduction, RowProgram, StoreOp
from bottega.compiler.sizes import marked, wrapped
from bottega.compiler.traced_graph import Graph, Ref, TraceNode
from bottega.compiler.view import Buffer, Shape, View, contiguous_strides

HALVES = ("float16", "bfloat16")
WHOLE = frozenset(("add", "sub", "mul", "neg", "abs", "maximum", "minimum", "remainder", "floor_divide")) | BITS
"""What gives whole numbers of whole numbers."""


@dataclass(frozen=True)
class LoweredTensor:
    view: View
    dtype: str

    @property
    def shape(self) -> Shape:
        return self.view.shape

    @property
    def floating(self) -> bool:
        return "float" in self.dtype


@dataclass(frozen=True)
class Statement:
    """What one operator does: a kernel of ours, torch's own call, or either."""

    kernel: Kernel | None
    call: FunctionCall | None = None
    library_call: FunctionCall | None = None
    """A call of the kernel library that does the same."""
    pieces: tuple[Kernel, ...] = ()
    """Kernels and calls that do the same together, for the backends that write recurrences, or windows that do not overlap as a product."""


@dataclass
class LoweringScope:
    graph: Graph
    label: str
    buffers: dict[str, Buffer] = field(default_factory=dict)
    values: dict[str, LoweredTensor | tuple[LoweredTensor | None, ...]] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)
    node: TraceNode = field(default_factory=lambda: TraceNode("", "", {}, ()))
    decisive: frozenset[str] = frozenset()
    """Nodes that a choice depends on, such as a router's: their results are rounded as torch rounds them, also inside a fused kernel, since
    near a tie the last bit decides."""
    looked_at: set[str] = field(default_factory=set)
    """Arguments of the current node that its lowering asked for."""
    unwritten: set[str] = field(default_factory=set)
    """Operators of the families that refused the options which this module gives them."""

    def refuse(self, reason: str) -> Refusal:
        return Refusal(f"{self.label}: {self.node.operator}: {reason}")

    @property
    def origin(self) -> tuple[str, ...]:
        """The operator by the name that people know."""
        operator = self.node.operator
        known = next((word for word in ("batch_norm", "layer_norm", "group_norm") if word in operator), None)
        return (known or operator.removesuffix("_with_indices").strip("_"),)

    # What arguments are

    def tensor(self, value: Any) -> LoweredTensor:
        found = self.values.get(value.name) if isinstance(value, Ref) else None
        if not isinstance(found, LoweredTensor):
            raise self.refuse("an argument is no tensor")
        return found

    def argument(self, name: str) -> Any:
        self.looked_at.add(name)
        return self.node.arguments.get(name)

    def operand(self, name: str) -> LoweredTensor:
        return self.tensor(self.argument(name))

    def optional(self, name: str) -> LoweredTensor | None:
        return None if self.argument(name) is None else self.operand(name)

    def constant(self, value: float | int | bool) -> Constant:
        return Constant(value)

    def load(self, value: Any, shape: Shape) -> Expression:
        """An argument as an element's expression over `shape`: a load, or a number."""
        if isinstance(value, Ref) and value.name in self.graph.numbers:
            return Constant(self.graph.numbers[value.name])
        if isinstance(value, Ref):
            found = self.tensor(value)
            return Load(found.view.broadcast(shape), found.dtype)
        if isinstance(value, bool | int | float):
            return self.constant(value)
        raise self.refuse(f"cannot use {value!r} as a number")

    # What statements make

    def fresh(self, shape: Shape, dtype: str, suffix: str = "") -> Buffer:
        name = self.node.name + suffix
        buffer = Buffer(name, shape, dtype)
        self.buffers[name] = buffer
        return buffer

    def spec(self, number: int = 0) -> tuple[Shape, str]:
        found = self.node.outputs[number]
        if found is None:
            raise self.refuse("returns something that is no tensor")
        return found.shape, found.dtype

    def map(self, body: Expression, shape: Shape, dtype: str, suffix: str = "") -> LoweredTensor:
        """A new tensor, every element for itself."""
        buffer = self.fresh(shape, dtype, suffix)
        whole = marked(buffer)
        body = self.stored(body, dtype)
        store = StoreOp(squeezed(whole), squeezed_body(body, shape), dtype)
        self.state(Map(squeezed_shape(shape), (store,), self.origin))
        return LoweredTensor(whole, dtype)

    def stored(self, body: Expression, dtype: str) -> Expression:
        """The body as it is once it was stored, also inside a fused kernel: whole numbers wrap and lose their fraction, of a sum of truth values the
        truth is left, and what was loaded has the result's type, so that a bare load is a copy. Halves are rounded only where that decides."""
        if isinstance(body, Cast | Load | Gather) and body.dtype == dtype:
            return body
        if "float" not in dtype and isinstance(body, Constant):
            return Constant(bool(body.value) if dtype == "bool" else int(body.value), body.text)
        if dtype in HALVES and self.node.name in self.decisive:
            return Cast(dtype, body)
        changes = isinstance(body, Load | Gather) or (
            "float" not in dtype and isinstance(body, Apply) and not _is_of(body, dtype)
        )
        return Cast(dtype, body) if changes else body

    def rows(
        self,
        shape: Shape,
        dims: tuple[int, ...],
        reductions: Sequence[tuple[str, str, Expression]],
        per_row: Expression | None,
        per_element: Expression | None,
        dtype: str,
        keep: bool = False,
        suffix: str = "",
        stored: Shape | None = None,
    ) -> LoweredTensor:
        """A row program over a space of `shape` whose rows lie along `dims`. Bodies are over `shape`; `per_row` is over the kept ones.

        `stored` is the shape of the result where the space is a finer look at it.
        """
        dims = tuple(sorted(d % max(len(shape), 1) for d in dims))
        order = tuple(axis for axis in range(len(shape)) if axis not in dims) + dims
        kept = tuple(shape[axis] for axis in range(len(shape)) if axis not in dims)
        reduced = tuple(shape[axis] for axis in dims)
        made = tuple(
            Reduction(name, operation, turned(body, shape, order))  # type: ignore[arg-type]
            for name, operation, body in reductions
        )
        if per_element is not None:
            buffer = self.fresh(stored or shape, dtype, suffix)
            seen = reshaped(marked(buffer), shape)
            assert seen is not None
            view = turned_view(seen, order)
            stores, row_stores = (StoreOp(view, turned(self.stored(per_element, dtype), shape, order), dtype),), ()
            result = marked(buffer)
        else:
            assert per_row is not None
            keeping = tuple(1 if axis in dims else size for axis, size in enumerate(shape)) if keep else kept
            buffer = self.fresh(keeping, dtype, suffix)
            view = View(buffer.name, squeezed_shape(kept), contiguous_strides(squeezed_shape(kept)))
            stores, row_stores = (), (StoreOp(view, squeezed_body(self.stored(per_row, dtype), kept), dtype),)  # type: ignore[assignment]
            result = marked(buffer)
        self.state(RowProgram(squeezed_shape(kept), squeezed_shape(reduced), made, row_stores, stores, self.origin))
        return LoweredTensor(result, dtype)

    def state(
        self,
        kernel: Kernel | None,
        call: FunctionCall | None = None,
        library_call: FunctionCall | None = None,
        pieces: tuple[Kernel, ...] = (),
    ) -> None:
        self.statements.append(Statement(kernel, call, library_call, pieces))

    def count(self, tensor: LoweredTensor, dims: tuple[int, ...], less: float = 0) -> Constant:
        """How many elements a row has, less a correction; at least none."""
        less = int(less) if less == int(less) else less
        number = math.prod(tensor.shape[dim] for dim in dims) - less
        if number <= 0:
            return Constant(0.0)
        texts = [wrapped(tensor.view.axis_text(dim)) for dim in dims if tensor.shape[dim] != 1]
        text = " * ".join(texts)
        if not text or text.isdigit():
            return Constant(float(number))
        return Constant(float(number), f"{text} - {less}" if less else text)

    def epsilon(self) -> Constant:
        value = self.argument("eps")
        if value is None:
            value = 1.1920928955078125e-07
        return Constant(float(value))

    def along(self, tensor: LoweredTensor, axis: int, shape: Shape) -> Load:
        """A vector that runs along one axis of a space and repeats along the others: a bias, a gain."""
        strides = tuple(tensor.view.strides[-1] if place == axis else 0 for place in range(len(shape)))
        view = tensor.view
        return Load(View(view.buffer, shape, strides, view.offset, view.text), tensor.dtype)

    def dense(self, tensor: LoweredTensor) -> LoweredTensor:
        """The tensor itself where it lies dense and in order, else a copy that does."""
        return tensor if tensor.view.contiguous else self.copied(tensor)

    def copied(self, tensor: LoweredTensor) -> LoweredTensor:
        number = sum(name.startswith(self.node.name) for name in self.buffers)
        return self.map(Load(tensor.view, tensor.dtype), tensor.shape, tensor.dtype, f"_copy{number or ''}")

    def reshape(self, tensor: LoweredTensor, shape: Shape) -> LoweredTensor:
        view = reshaped(tensor.view, shape)
        if view is None:
            tensor = self.dense(tensor)
            view = reshaped(tensor.view, shape)
            assert view is not None
        sizes = ", ".join(map(str, shape)) or "()"
        text = f"{tensor.view.text}.reshape({sizes})"
        axes = reshaped_axes(tensor.view, shape)
        return LoweredTensor(View(view.buffer, view.shape, view.strides, view.offset, text, axes), tensor.dtype)


def _is_of(body: Expression, dtype: str) -> bool:
    """Whether a body gives this whole type anyway. Kernels compute with whole numbers of 64 bits."""

    @cache
    def given(node: Expression) -> bool:
        if isinstance(node, Apply) and node.function in TRUTHS:
            return dtype == "bool"
        if isinstance(node, Apply) and node.function == "where":
            return all(map(given, node.arguments[1:]))
        if isinstance(node, Constant):
            return isinstance(node.value, bool) if dtype == "bool" else isinstance(node.value, int)
        if isinstance(node, Load | Gather | Cast):
            return node.dtype == dtype
        if dtype != "int64":
            return False
        whole = isinstance(node, Apply) and node.function in WHOLE
        return isinstance(node, Index) or (whole and all(map(given, children(node))))

    return given(body)


def squeezed_shape(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != 1)


def squeezed(view: View) -> View:
    """Without dimensions of size one: they are no loops."""
    kept = [axis for axis, size in enumerate(view.shape) if size != 1]
    axes = tuple(view.axes[axis] for axis in kept) if view.axes else ()
    shape, strides = tuple(view.shape[axis] for axis in kept), tuple(view.strides[axis] for axis in kept)
    return View(view.buffer, shape, strides, view.offset, view.text, axes)


def squeezed_body(body: Expression, shape: Shape) -> Expression:
    return turned(body, shape, tuple(range(len(shape))))


def turned_view(view: View, order: tuple[int, ...]) -> View:
    """Dimensions in another order, those of size one left out."""
    axes = tuple(view.axes[axis] for axis in order) if view.axes else ()
    shape, strides = tuple(view.shape[axis] for axis in order), tuple(view.strides[axis] for axis in order)
    return squeezed(View(view.buffer, shape, strides, view.offset, view.text, axes))


def turned(body: Expression, shape: Shape, order: tuple[int, ...]) -> Expression:
    """A body over `shape`, over the same space with its dimensions in another order and single ones left out."""
    places = [axis for axis in order if shape[axis] != 1]
    indices: dict[Expression, Expression] = {
        node: Index(places.index(node.axis)) if node.axis in places else Constant(0)
        for node in walk(body)
        if isinstance(node, Index)
    }
    found = with_views(body, lambda view: turned_view(view, order), indices)
    assert found is not None
    return found


def reshaped_axes(view: View, shape: Shape) -> tuple[str, ...]:
    """Texts for the sizes after a reshape: kept where a dimension stays, multiplied where dimensions are joined, else numbers."""
    texts: list[str] = []
    old = [(size, view.axis_text(axis)) for axis, size in enumerate(view.shape)]
    place = 0
    for size in shape:
        while place < len(old) and old[place][0] == 1 and size != 1:
            place += 1
        product, parts, end = 1, [], place
        while end < len(old) and product < size:
            product *= old[end][0]
            parts += [wrapped(old[end][1])] if old[end][0] != 1 else []
            end += 1
        if size != 1 and product == size and parts:
            texts.append(" * ".join(parts))
            place = end
        else:
            texts.append(str(size))
            if size != 1 and place < len(old) and old[place][0] % size == 0:
                old[place] = (old[place][0] // size, str(old[place][0] // size))
    return tuple(texts)
