"""Windows slid over the last dimensions. Plain: every window for itself. Separated: rows are combined first, then columns."""

from __future__ import annotations

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import block, collapse, indent, nest, region, start_of
from bottega.compiler.backends.cpp.map import invariants, pointers, stores
from bottega.compiler.backends.cpp.scalar import compute_type, literal
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads, named, ordered_loops
from bottega.compiler.build_step import Refusal
from bottega.compiler.kernel import WINDOW, Pool
from bottega.compiler.loops import Loop

SEPARATED = "pool_rows_then_columns"
LETTERS = {1: "x", 2: "yx", 3: "zyx"}
SIZES = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}


class Window:
    """The names of a pool's loops: outputs, window and input positions, one for each dimension of space."""

    def __init__(self, function: FunctionWriter, kernel: Pool) -> None:
        self.function, self.kernel = function, kernel
        self.count = len(kernel.window)
        self.kept_rank = len(kernel.shape) - self.count
        if self.count not in LETTERS:
            raise Refusal("a window over more than three dimensions")
        bodies = [store.body for store in kernel.stores]
        pointers(function, [kernel.element, *bodies], kernel.stores)
        outputs = [*loads(bodies), *(store.view for store in kernel.stores)]
        inputs = loads([kernel.element])
        kept_shape = kernel.shape[: self.kept_rank] + (1,) * self.count
        loops = ordered_loops(kept_shape, [*inputs, *outputs], [kernel.element, *bodies], kernel.stores[0].view)
        self.kept = named(function, loops, [*inputs, *outputs]) if loops[0].axes else []
        letters = LETTERS[self.count]
        self.out: list[Axis] = []
        self.source: list[Axis] = []
        for at, (letter, size) in enumerate(zip(letters, SIZES[self.count])):
            axis = self.kept_rank + at
            out_loop, in_loop = Loop(kernel.shape[axis], (axis,)), Loop(kernel.source[axis], (axis,))
            in_size = function.size(function.size_of(in_loop.size, in_loop.axes, inputs), size, f"in_{size}")
            self.source.append(Axis(in_loop, function.fresh(f"i{letter}", f"in_{letter}"), in_size))
            out_size = function.size(function.size_of(out_loop.size, out_loop.axes, outputs[::-1]), f"out_{size}", f"o{size}")
            self.out.append(Axis(out_loop, function.fresh(f"o{letter}", f"out_{letter}"), out_size))
        self.taps = [function.fresh(f"k{letter}", f"tap_{letter}") for letter in letters]
        self.kind = compute_type(kernel.dtype)
        self.fixed: list[str] = []
        """Locals for what is the same for a whole window, once its element has been written."""

    def position(self, at: int, tap: str) -> str:
        """The input position of an output and a tap."""
        kernel = self.kernel
        text = self.out[at].index
        text += f" * {kernel.stride[at]}" if kernel.stride[at] != 1 else ""
        text += f" + {tap}" if tap else ""
        text += f" * {kernel.dilation[at]}" if kernel.dilation[at] != 1 and tap else ""
        return text + (f" - {kernel.padding[at]}" if kernel.padding[at] else "")

    def element(self) -> tuple[list[str], str]:
        axes = [*self.kept, *self.source]
        space = LoopSpace(self.function, axes)
        emitter = CppEmitter(self.function, space.place, {}, index_names(axes, len(self.kernel.source)))
        self.fixed = invariants(emitter, [self.kernel.element], self.source)
        taken = set(self.function.taken)
        statements, (text,) = emitter.statements([self.kernel.element], [self.kind])
        self.function.release(statements, taken)
        return statements, text

    def results(self, window: str) -> list[str]:
        axes = [*self.kept, *self.out]
        space = LoopSpace(self.function, axes)
        names = {WINDOW: (window, self.kind)}
        return stores(
            CppEmitter(self.function, space.place, names, index_names(axes, len(self.kernel.shape))), space, self.kernel.stores
        )

    def tap_lines(self, at: int, counter: str) -> list[str]:
        """The loop over the taps along one dimension, still open, with the input's place."""
        tap, index = self.taps[at], self.source[at].index
        lines = [
            f"for ({counter} {tap} = 0; {tap} < {self.kernel.window[at]}; ++{tap}) {{",
            f"  const int64_t {index} = {self.position(at, tap)};",
        ]
        return [*lines, f"  if ({index} < 0 || {index} >= {self.source[at].size}) continue;"] if self.guarded(at) else lines

    def guarded(self, at: int) -> bool:
        """Whether a tap may fall outside the input."""
        kernel = self.kernel
        axis = self.kept_rank + at
        last = (kernel.shape[axis] - 1) * kernel.stride[at] + (kernel.window[at] - 1) * kernel.dilation[at] - kernel.padding[at]
        return kernel.padding[at] > 0 or last >= kernel.source[axis]

    def divided(self, total: str, counts: list[str]) -> str:
        """An average of a sum. `counts` are the taps inside, along each dimension, where they must be counted."""
        kernel = self.kernel
        if kernel.divisor is not None:
            return f"{total} / {literal(kernel.divisor, self.kind)}"
        if counts and not kernel.count_padding:
            return f"{total} / {counts[0]}"
        if any(self.beyond(at) for at in range(self.count)):
            return f"{total} / ({' * '.join(self.reach(at) for at in range(self.count))})"
        product = " * ".join(str(size) for size in kernel.window)
        return f"{total} / ({product})" if self.count > 1 else f"{total} / {product}"

    def beyond(self, at: int) -> bool:
        """Whether the last window reaches past the padded input, as with ceil_mode: torch does not count that part."""
        kernel = self.kernel
        axis = self.kept_rank + at
        return (kernel.shape[axis] - 1) * kernel.stride[at] + kernel.window[at] > kernel.source[axis] + 2 * kernel.padding[at]

    def reach(self, at: int) -> str:
        kernel = self.kernel
        if not self.beyond(at):
            return str(kernel.window[at])
        end = f"{self.source[at].size} + {kernel.padding[at]}" if kernel.padding[at] else self.source[at].size
        begin = self.position(at, "")
        return f"std::min<int64_t>({kernel.window[at]}, {end} - ({begin}))"


def write_pool(function: FunctionWriter, kernel: Pool) -> list[str]:
    window = Window(function, kernel)
    big = kernel.shape[-1] >= 8 and kernel.window[-1] > 1 and window.count > 1
    counted = (
        kernel.operation == "average" and not kernel.count_padding and any(window.guarded(at) for at in range(window.count))
    )
    if counted and (window.count > 2 or max(kernel.dilation) > 1):
        big = False
    if SEPARATED in function.passes and big and window.kind == "float":
        return _separated(window)
    return _plain(window)


def _combine(window: Window, held: str, text: str) -> str:
    if window.kernel.operation == "average":
        return f"{held} += {text};"
    window.function.prelude.use("maximum", window.kind)
    return f"{held} = maximum({held}, {text});"


def _plain(window: Window) -> list[str]:
    axes = [*window.kept, *window.out]
    return [
        f"#pragma omp parallel for{collapse(max(len(axes) - 1, 1))} schedule(static)",
        *nest(axes, window_lines(window, "int64_t")),
    ]


def window_lines(window: Window, counter: str) -> list[str]:
    """One window by itself. `counter` is the type that counts taps."""
    kernel, function = window.kernel, window.function
    total = function.fresh("best" if kernel.operation == "max" else "sum", "window")
    counted = kernel.operation == "average" and not kernel.count_padding and kernel.divisor is None
    counted = counted and any(window.guarded(at) for at in range(window.count))
    seen = function.fresh("seen", "inside") if counted else ""
    statements, text = window.element()
    start = start_of("max" if kernel.operation == "max" else "sum", window.kind)
    lines = [f"{window.kind} {total} = {start};", *([f"{counter} {seen} = 0;"] if seen else [])]
    for at in range(window.count):
        lines += [indent(line, at) for line in window.tap_lines(at, counter)]
    update = [*statements, _combine(window, total, text), *([f"++{seen};"] if seen else [])]
    lines += [indent(line, window.count) for line in update]
    lines += [indent("}", at) for at in reversed(range(window.count))]
    result = total
    if kernel.operation == "average":
        result = function.fresh("average", "mean")
        lines.append(f"const {window.kind} {result} = {window.divided(total, [seen] if seen else [])};")
    return [*window.fixed, *lines, *window.results(result)]


def _separated(window: Window) -> list[str]:
    """One output row: its input rows combined elementwise into a buffer, then the taps along the row."""
    kernel, function = window.kernel, window.function
    last = window.count - 1
    memory, row, out = function.fresh("memory", "scratch"), function.fresh("row", "line"), function.fresh("window", "result")
    statements, text = window.element()
    source, result = window.source[last], window.out[last]
    x, ox = source.index, result.index
    lines = [
        f"std::fill({row}, {row} + {source.size}, {literal(float('-inf'), 'float') if kernel.operation == 'max' else '0.f'});"
    ]
    depth = 0
    closing: list[str] = []
    counts: list[str] = []
    average = kernel.operation == "average" and not kernel.count_padding and kernel.divisor is None
    for at in range(last):
        if average and window.guarded(at):
            counts.append(function.fresh("seen", "inside"))
            lines.insert(0, f"int64_t {counts[-1]} = 0;")
        lines += [indent(line, depth) for line in window.tap_lines(at, "int64_t")]
        if average and window.guarded(at):
            lines.append(indent(f"++{counts[-1]};", depth + 1))
        closing.insert(0, indent("}", depth))
        depth += 1
    inner = [
        "#pragma omp simd",
        f"for (int64_t {x} = 0; {x} < {source.size}; ++{x})",
        *block([*statements, _combine(window, f"{row}[{x}]", text)]),
    ]
    lines += [indent(line, depth) for line in inner] + closing
    tap = window.taps[last]
    stride, pad, dilation, size = kernel.stride[last], kernel.padding[last], kernel.dilation[last], kernel.window[last]
    shift = tap if dilation == 1 else f"{tap} * {dilation}"
    shift += f" - {pad}" if pad else ""
    lines.append(
        f"std::fill({out}, {out} + {result.size}, {literal(float('-inf'), 'float') if kernel.operation == 'max' else '0.f'});"
    )
    lines.append(f"for (int64_t {tap} = 0; {tap} < {size}; ++{tap}) {{")
    move, begin, stop = function.fresh("shift", "move"), function.fresh("begin", "low"), function.fresh("stop", "high")
    bounds: list[str] = []
    if window.guarded(last):
        low = f"{move} < 0 ? (-{move} + {stride} - 1) / {stride} : 0" if stride != 1 else f"std::max<int64_t>(-{move}, 0)"
        high = (
            f"std::min({result.size}, ({source.size} - 1 - {move} + {stride}) / {stride})"
            if stride != 1
            else f"std::min({result.size}, {source.size} - {move})"
        )
        bounds = [f"const int64_t {move} = {shift};", f"const int64_t {begin} = {low}, {stop} = {high};"]
        loop = f"for (int64_t {ox} = {begin}; {ox} < {stop}; ++{ox})"
        shift = move
    else:
        loop = f"for (int64_t {ox} = 0; {ox} < {result.size}; ++{ox})"
    at_row = f"{ox} * {stride} + {shift}" if stride != 1 else f"{ox} + {shift}"
    lines += [
        indent(line, 1)
        for line in [*bounds, "#pragma omp simd", loop, indent(_combine(window, f"{out}[{ox}]", f"{row}[{at_row}]"), 1)]
    ] + ["}"]
    value = f"{out}[{ox}]"
    final: list[str] = []
    if kernel.operation == "average":
        factors = [
            count if count else str(kernel.window[at]) for at, count in enumerate(_per_dimension(window, counts, average))
        ]
        if average and window.guarded(last):
            begin_text = window.position(last, "")
            covered = (
                f"(std::min({source.size}, {begin_text} + {(size - 1) * dilation + 1}) - std::max<int64_t>({begin_text}, 0))"
            )
            factors.append(covered if dilation == 1 else str(size))
        else:
            factors.append(window.reach(last))
        text = window.divided(value, []) if kernel.divisor is not None else f"{value} / ({' * '.join(factors)})"
        mean = function.fresh("average", "mean")
        final = [f"const float {mean} = {text};"]
        value = mean
    lines += [
        "#pragma omp simd",
        f"for (int64_t {ox} = 0; {ox} < {result.size}; ++{ox})",
        *block([*final, *window.results(value)]),
    ]
    lines = [*window.fixed, *lines]
    axes = [*window.kept, *window.out[:-1]]
    body = [
        f"std::vector<float> {memory}({source.size} + {result.size});",
        f"float *{row} = {memory}.data(), *{out} = {row} + {source.size};",
        f"#pragma omp for{collapse(len(axes))} schedule(static)",
        *nest(axes, lines),
    ]
    return region("#pragma omp parallel", body)


def _per_dimension(window: Window, counts: list[str], average: bool) -> list[str]:
    remaining = list(counts)
    found = []
    for at in range(window.count - 1):
        if average and window.guarded(at):
            found.append(remaining.pop(0))
        else:
            found.append("" if not window.beyond(at) else window.reach(at))
    return found
