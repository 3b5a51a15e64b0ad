"""One C function while it is written: its parameters, and what `forward` passes for each of them.

Sizes and strides reach the kernel as arguments that are read off the tensors, never as numbers somebody had to work out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from bottega.compiler.allocate import axis_text
from bottega.compiler.backends.cpp.prelude import Prelude
from bottega.compiler.backends.cpp.scalar import memory_type
from bottega.compiler.expression import Constant
from bottega.compiler.plan import KernelPlan
from bottega.compiler.view import Buffer, View, contiguous_strides

_KEYWORDS = (
    "for if int float double const auto bool char long short void return static inline while do else new this default switch case "
    "break continue signed unsigned register template class struct union and or not xor std y0 y1 j0 j1 jn yn main double operator"
)
_LIBM = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh pow sqrt cbrt floor ceil "
    "round trunc rint nearbyint abs fabs fmod remainder div erf erfc fmax fmin fma hypot lgamma tgamma time free read write index "
    "signal select clamp copysign frexp ldexp modf logb scalbn isnan isinf gamma"
)
_OURS = (
    "relu maximum minimum square sign sigmoid widen narrow sum_of product_of any_of all_of largest_of smallest_of floor_divide vec "
    "neg reciprocal rsqrt mean_of"
)
_RESERVED = frozenset(f"{_KEYWORDS} {_LIBM} {_OURS}".split())
RESERVED_NAMES = _RESERVED


@dataclass
class FunctionWriter:
    name: str
    plan: KernelPlan
    prelude: Prelude
    passes: frozenset[str]
    on_gpu: bool = False
    taken: set[str] = field(default_factory=set)
    pointers: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By buffer: the parameter's name, and whether it is written."""
    numbers: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Sizes, strides and scalars by parameter name: type and Python text."""
    packed: dict[str, str] = field(default_factory=dict)
    """By buffer: the Python that gives its panels, which are passed in its place."""

    def fresh(self, *wishes: str) -> str:
        """The first of the wished names that is free; numbered when none is."""
        for wish in wishes:
            if wish not in self.taken and wish not in _RESERVED:
                self.taken.add(wish)
                return wish
        number = 1
        while f"{wishes[-1]}{number}" in self.taken:
            number += 1
        name = f"{wishes[-1]}{number}"
        self.taken.add(name)
        return name

    def release(self, statements: Iterable[str], but: Container[str] = ()) -> None:
        """Names of locals that are declared in an inner scope are free again outside of it; those in `but` are not its own."""
        names = {line.split(" = ")[0].split()[-1] for line in statements}
        self.taken -= {name for name in names if name not in but}

    def buffer(self, name: str) -> Buffer:
        return self.plan.buffers[name]

    def pointer(self, name: str, written: bool = False) -> str:
        """The parameter that points to a buffer."""
        if name not in self.pointers:
            parts = [part for part in re.split(r"\W+", name) if part and part != "self" and not part.isdigit()]
            wishes = ["_".join(parts[-count:]) for count in range(1, len(parts) + 1)] or ["data"]
            self.pointers[name] = (
                self.fresh(*wishes, *(f"{wish}_{'out' if written else 'in'}" for wish in wishes), f"{wishes[-1]}_data"),
                written,
            )
        elif written:
            self.pointers[name] = (self.pointers[name][0], True)
        return self.pointers[name][0]

    def number(self, kind: str, python: str, *wishes: str) -> str:
        """A parameter for a number; the same Python text is passed once."""
        for name, (other, text) in self.numbers.items():
            if text == python and other == kind:
                return name
        name = self.fresh(*wishes)
        self.numbers[name] = (kind, python)
        return name

    def scalar(self, constant: Constant, kind: str) -> str:
        """An attribute of the module, passed by value."""
        wish = re.sub(r"\W+", "_", constant.text.removeprefix("self.")).strip("_").lower() or "value"
        return self.number(kind, constant.text, wish, f"{wish}_value")

    def size(self, python: str, *wishes: str) -> str:
        return self.number("int64_t", python, *wishes)

    def stride(self, view: View, stride: int) -> str:
        """A stride that is not a product of loop sizes, as a parameter read off the tensor."""
        buffer = self.buffer(view.buffer)
        strides = buffer.strides or contiguous_strides(buffer.shape)
        base = self.pointer(view.buffer)
        for axis, have in enumerate(strides):
            if have == stride and buffer.shape[axis] > 1:
                return self.size(f"{buffer.name}.stride({axis})", f"{base}_stride", f"{base}_step")
        for axis, have in enumerate(strides):
            if have > 1 and stride % have == 0 and buffer.shape[axis] > 1:
                times = stride // have
                return f"{times} * " + self.size(f"{buffer.name}.stride({axis})", f"{base}_stride", f"{base}_step")
        return str(stride)

    def offset(self, view: View) -> str:
        """Where in its buffer a view starts, as a parameter; empty for the start."""
        if view.offset == 0:
            return ""
        buffer = self.buffer(view.buffer)
        rest, terms = view.offset, []
        steps = enumerate(buffer.strides or contiguous_strides(buffer.shape))
        for axis, step in sorted(steps, key=lambda pair: -pair[1]):
            at, rest = divmod(rest, step)
            if at:
                scale = "" if step == 1 else f" * {buffer.name}.stride({axis})"
                terms.append(self._position(buffer, axis, at) + scale)
        base = self.pointer(view.buffer)
        text = " + ".join(terms)
        return self.size(text, f"{base}_offset", f"{base}_start")

    def _position(self, buffer: Buffer, axis: int, at: int) -> str:
        size, text = buffer.shape[axis], axis_text(buffer, axis)
        for parts in (2, 3, 4, 6, 8):
            if size % parts == 0 and at % (size // parts) == 0 and not text.isdigit():
                times = at * parts // size
                part = f"{text} // {parts}"
                return part if times == 1 else f"{times} * ({part})"
        return str(at)

    def size_of(self, size: int, axes: Sequence[int], views: Iterable[View]) -> str:
        """Python text for the length of a loop over `axes`, read off a tensor that is walked by it."""
        ranked = sorted(views, key=lambda view: _RANK[self.buffer(view.buffer).kind])
        for view in ranked:
            text = self._dimension(size, axes, view)
            if text:
                return text
        for view in ranked:
            if view.axes and all(view.axes[axis] for axis in axes):
                return " * ".join(view.axes[axis] for axis in axes if view.shape[axis] > 1) or str(size)
        for view in ranked:
            text = self._part(size, axes, view)
            if text:
                return text
        return str(size)

    def _dimension(self, size: int, axes: Sequence[int], view: View) -> str:
        """The consecutive dimensions of the buffer that a loop runs over, if it runs over whole ones."""
        buffer = self.buffer(view.buffer)
        strides = contiguous_strides(buffer.shape)
        step = view.strides[axes[-1]]
        if step == 0:
            return ""
        if size == buffer.size and step == 1 and (len(buffer.shape) > 1 or buffer.kind in ("input", "result")):
            return f"{buffer.name}.numel()"
        for last in range(len(strides)):
            for first in range(last, -1, -1):
                if strides[last] == step and math.prod(buffer.shape[first : last + 1]) == size and buffer.shape[first] > 1:
                    texts = [axis_text(buffer, axis) for axis in range(first, last + 1) if buffer.shape[axis] > 1]
                    if buffer.kind == "parameter" and not buffer.axes:
                        texts = [f"{buffer.name}.shape[{axis}]" for axis in range(first, last + 1) if buffer.shape[axis] > 1]
                    return " * ".join(texts)
        return ""

    def _part(self, size: int, axes: Sequence[int], view: View) -> str:
        buffer = self.buffer(view.buffer)
        for axis, stride in enumerate(contiguous_strides(buffer.shape)):
            whole = buffer.shape[axis]
            if stride == view.strides[axes[-1]] and whole % size == 0 and whole > size and buffer.kind in ("input", "result"):
                return f"{axis_text(buffer, axis)} // {whole // size}"
        return ""

    def called(self, name: str, kind: str) -> str:
        """A function of the mathematical library at a type."""
        if not self.on_gpu:
            return f"std::{name}"
        name = {"nearbyint": "rint"}.get(name, name)
        return f"{name}f" if kind == "float" else name

    def head(self) -> str:
        """The declaration, up to its brace, folded at 120 columns."""
        parameters = []
        device = self.on_gpu
        for buffer, (name, written) in self._in_order():
            kind = memory_type(self.buffer(buffer).dtype)
            kind = "__half" if device and kind == "_Float16" else kind
            kind = "uint8_t" if not device and kind == "bool" else kind  # a compiler makes no vectors of bool
            parameters.append(f"{'' if written else 'const '}{kind}* {'__restrict__ ' if device else ''}{name}")
        parameters += [f"{kind} {name}" for name, (kind, _) in self.numbers.items()]
        return folded(f'extern "C" {"__global__ " if device else ""}void {self.name}(', parameters, ") {")

    def arguments(self) -> list[str]:
        """What `forward` passes, in the order of the parameters; a tensor in another layout by its address, since the strides are written out."""
        pointers = [
            self.packed.get(name, f"{name}.data_ptr()" if self.buffer(name).strides else name) for name, _ in self._in_order()
        ]
        return [*pointers, *(text for _, text in self.numbers.values())]

    def _in_order(self) -> list[tuple[str, tuple[str, bool]]]:
        return sorted(self.pointers.items(), key=lambda item: item[1][1])


_RANK = {"input": 0, "result": 1, "parameter": 2, "constant": 3}


def folded(start: str, parts: Sequence[str], end: str, width: int = 118) -> str:
    """A list that is broken into lines under its opening bracket."""
    lines, line = [], start
    indent = " " * len(start) if len(start) < 60 else "    "
    for number, part in enumerate(parts):
        piece = part + (", " if number + 1 < len(parts) else end)
        if len(line) + len(piece.rstrip()) > width and line.strip() and line != start:
            lines.append(line.rstrip())
            line = indent
        line += piece
    return "\n".join([*lines, line if parts else start + end])
