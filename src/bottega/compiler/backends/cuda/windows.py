"""Pools and scans on a GPU: a thread for each window; a block that carries along a row, or a thread for each row across memory."""

from __future__ import annotations

from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import block, braced
from bottega.compiler.backends.cpp.map import stores
from bottega.compiler.backends.cpp.pool import Window, window_lines
from bottega.compiler.backends.cpp.scan import Run
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names
from bottega.compiler.backends.cuda.map import Launch, blocks_of, python, unravelled
from bottega.compiler.kernel import RUNNING, Pool, Scan

BLOCK_SCAN = "block_scan"

_SCAN = """// inclusive sum over the block's values; total becomes the sum of all of them
__device__ float block_scan(float v, float& total) {
  __shared__ float sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int offset = 1; offset < 32; offset <<= 1) {
    const float other = __shfl_up_sync(0xffffffffu, v, offset);
    if (lane >= offset) v += other;
  }
  __syncthreads();
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  float before = 0.f;
  total = 0.f;
  for (int w = 0; w < warps; ++w) {
    if (w < warp) before += sums[w];
    total += sums[w];
  }
  return before + v;
}"""


def write_pool(function: FunctionWriter, kernel: Pool) -> Launch:
    window = Window(function, kernel)
    lines = [line.replace("std::min<int64_t>(", "min((int64_t)") for line in window_lines(window, "int")]
    return _per_thread(function, [*window.kept, *window.out], lines)


def _per_thread(function: FunctionWriter, axes: list[Axis], lines: list[str]) -> Launch:
    flat = function.fresh("at", "flat")
    total = " * ".join(axis.size for axis in axes) or "1"
    head = [f"const int64_t {flat} = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;", f"if ({flat} >= {total}) return;"]
    return Launch([*head, *unravelled(axes, flat, " ".join(lines)), *lines], blocks_of(python(function, total)))


def write_scan(function: FunctionWriter, kernel: Scan) -> Launch:
    run = Run(function, kernel)
    along = run.along.step(kernel.stores[0].view) == 1
    if BLOCK_SCAN in function.passes and along and kernel.operation == "sum" and run.kind == "float" and run.along.length >= 64:
        return _block(run)
    carry = function.fresh("carry", "running")
    lines = [f"{run.wide} {carry} = {run.start};", run.loop(), *block(run.body(carry))]
    return _per_thread(function, run.kept, lines)


def _block(run: Run) -> Launch:
    """A block walks its row tile by tile; every tile is scanned by all its threads and added to what was carried."""
    function, kernel = run.function, run.kernel
    function.prelude.add("block_scan", _SCAN)
    carry, start, step, total, value, running, row = (
        function.fresh(*wish)
        for wish in (
            ("carry",),
            ("start", "tile"),
            ("step", "offset_at"),
            ("total", "tile_total"),
            ("value", "own"),
            ("running", "scanned"),
            ("row_at", "which"),
        )
    )
    axis = run.along
    axes = [*run.kept, axis]
    space = LoopSpace(function, axes)
    element = CppEmitter(function, space.place, {}, index_names(axes, run.rank))
    statements, (text,) = element.statements([kernel.element], [run.kind])
    result = CppEmitter(function, space.place, {RUNNING: (running, run.kind)}, index_names(axes, run.rank))
    out = stores(result, space, kernel.stores)
    body = [
        f"const int64_t {step} = {start} + threadIdx.x, {axis.index} = {step};",
        f"float {value} = 0.f, {total};",
        f"if ({step} < {axis.size})",
        *block([*statements, f"{value} = {text};"]),
        f"const float {running} = {carry} + block_scan({value}, {total});",
        f"if ({step} < {axis.size})",
        *block(out),
        f"{carry} += {total};",
    ]
    lines = [
        f"float {carry} = 0.f;",
        *braced([f"for (int64_t {start} = 0; {start} < {axis.size}; {start} += blockDim.x)"], body),
    ]
    if not run.kept:
        return Launch(lines, "1", "1024")
    head = [f"const int64_t {row} = blockIdx.x;"]
    if len(run.kept) == 1:
        head = [f"const int64_t {run.kept[0].index} = blockIdx.x;"]
    else:
        head += unravelled(run.kept, row, " ".join(lines))
    return Launch(
        [*head, *lines], python(function, " * ".join(axis.size for axis in run.kept)), "256" if axis.length >= 256 else "64"
    )
