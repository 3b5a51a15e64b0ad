"""Rows on a GPU: a block for each row, or a warp where rows are short; across memory, a thread for each column."""

from __future__ import annotations

from bottega.compiler.backends.cpp.columns import lies_across
from bottega.compiler.backends.cpp.emit import CppEmitter
from bottega.compiler.backends.cpp.function_writer import FunctionWriter
from bottega.compiler.backends.cpp.loop_text import better, block, heads, indent, over, start_of
from bottega.compiler.backends.cpp.map import invariants, stores
from bottega.compiler.backends.cpp.row_body import element_loops, reduction_body
from bottega.compiler.backends.cpp.row_cache import RowCache
from bottega.compiler.backends.cpp.row_space import RowSpace, result_kind, row_space, spelled
from bottega.compiler.backends.cpp.space import Axis, LoopSpace, index_names, loads
from bottega.compiler.backends.cuda.map import Launch, blocks_of, python, unravelled
from bottega.compiler.build_step import Refusal
from bottega.compiler.expression import Expression
from bottega.compiler.kernel import Reduction, RowProgram

WARP, SHARED = "warp_per_row", "row_in_shared"
SHORT, MOST_SHARED = 1024, 12288

_BLOCK = """__device__ TYPE block_NAME(TYPE v) {
  __shared__ TYPE parts[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int offset = 16; offset > 0; offset >>= 1) v = JOIN(v, __shfl_xor_sync(0xffffffffu, v, offset));
  __syncthreads();
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  v = lane < warps ? parts[lane] : NEUTRAL;
  for (int offset = 16; offset > 0; offset >>= 1) v = JOIN(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}"""
_WARP = """__device__ TYPE warp_NAME(TYPE v) {
  for (int offset = 16; offset > 0; offset >>= 1) v = JOIN(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}"""
_WORDS = {"sum": "sum", "prod": "product", "max": "max", "min": "min", "any": "any", "all": "all"}


def write_rows(function: FunctionWriter, kernel: RowProgram) -> Launch:
    space = row_space(function, kernel)
    return _along(space) if lies_across(space) is None else _serial(space)


def _join(function: FunctionWriter, operation: str, kind: str) -> str:
    """How two partial results, A and B, become one."""
    if operation in ("max", "min"):
        function.prelude.use(f"{operation}imum", kind)
        return f"{operation}imum(A, B)"
    return {"sum": "A + B", "prod": "A * B", "any": "A || B", "all": "A && B"}[operation]


def _reducer(function: FunctionWriter, operation: str, kind: str, warp: bool) -> str:
    join = _join(function, operation, kind)
    text = (_WARP if warp else _BLOCK).replace("TYPE", kind).replace("NEUTRAL", start_of(operation, kind))
    text = text.replace(
        "JOIN(v, __shfl_xor_sync(0xffffffffu, v, offset))",
        join.replace("A", "v").replace("B", "__shfl_xor_sync(0xffffffffu, v, offset)"),
    )
    name = f"{'warp' if warp else 'block'}_{_WORDS[operation]}"
    wide = "" if kind == "float" else f"_{kind.removesuffix('_t')}"
    function.prelude.add(name + wide, text.replace(f"{'warp' if warp else 'block'}_NAME", name + wide))
    return name + wide


def _update(function: FunctionWriter, operation: str, kind: str, held: str, text: str) -> str:
    if operation in ("sum", "prod"):
        return f"{held} {'+' if operation == 'sum' else '*'}= {text};"
    return f"{held} = {_join(function, operation, kind).replace('A', held, 1).replace('B', text)};"


def _loop(axis: Axis, first: str, step: str) -> str:
    return f"for (int64_t {axis.index} = {first}; {axis.index} < {axis.size}; {axis.index} += {step})"


def _heads(axes: list[Axis], first: str, step: str) -> list[str]:
    return [*heads(axes[:-1]), indent(_loop(axes[-1], first, step), len(axes) - 1)]


def _along(space: RowSpace) -> Launch:
    function = space.function
    warp = WARP in function.passes and space.length <= SHORT and bool(space.kept)
    if any(reduction.operation.startswith("arg") for reduction in space.reductions):
        return _serial(space)
    emitter = space.emitter()
    cache = RowCache(space, emitter) if SHARED in function.passes and space.length <= MOST_SHARED and not warp else None
    if cache is not None and cache.node is not None:
        cache.view, cache.scratch = space.position, True
        cache.pointer = function.fresh("row_values", "kept")
    row, lane = function.fresh("row_at", "which"), "threadIdx.x"
    first, step = ("lane", "32") if warp else (lane, "blockDim.x")
    lines: list[str] = []
    for reduction in space.reductions:
        lines += _reduction(space, emitter, reduction, warp, first, step, cache)
    if space.row_stores:
        out = stores(emitter, LoopSpace(function, space.kept), space.row_stores)
        lines += [f"if ({'lane' if warp else 'threadIdx.x'} == 0)", *block(out)]
    lines += _elements(space, emitter, first, step, cache)
    rows = " * ".join(axis.size for axis in space.kept) or "1"
    head: list[str] = []
    used = " ".join(lines)
    if warp:
        head = [
            f"const int64_t {row} = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;",
            "const int lane = threadIdx.x % 32;",
            f"if ({row} >= {rows}) return;",
        ]
    elif space.kept:
        head = [f"const int64_t {row} = blockIdx.x;"]
    if len(space.kept) == 1:
        head = [line.replace(row, space.kept[0].index) for line in head]
    else:
        head += unravelled(space.kept, row, used)
    shared = ""
    if cache is not None and cache.node is not None and cache.kept:
        head.insert(0, f"extern __shared__ float {cache.pointer}[];")
        shared = f"{python(function, ' * '.join(axis.size for axis in space.reduced))} * 4"
    if warp:
        return Launch([*head, *lines], blocks_of(python(function, rows), 8))
    threads = 256 if space.length >= 256 else 128 if space.length > 64 else 64
    if not space.kept:
        threads = 1024
    return Launch([*head, *lines], python(function, rows) if space.kept else "1", str(threads), shared)


def _reduction(
    space: RowSpace, emitter: CppEmitter, reduction: Reduction, warp: bool, first: str, step: str, cache: RowCache | None
) -> list[str]:
    function = space.function
    body = reduction_body(space, emitter, reduction, cache)
    name, result, axes = body.name, body.result, body.axes
    update = _update(function, reduction.operation, result, name, body.text)
    lines = [*body.lines, f"{result} {name} = {start_of(reduction.operation, result)};", *_heads(axes, first, step)]
    lines += [indent(line, len(axes) - 1) for line in block([*body.statements, update])]
    lines.append(f"{name} = {_reducer(function, reduction.operation, result, warp)}({name});")
    space.names[reduction.name] = (name, result)
    return lines


def _elements(space: RowSpace, emitter: CppEmitter, first: str, step: str, cache: RowCache | None) -> list[str]:
    if not space.element_stores:
        return []
    bodies = [store.body for store in space.element_stores]
    lines = invariants(emitter, bodies, space.reduced)
    axes, inside, local = element_loops(space, emitter, loads(bodies), cache)
    body_lines = block(stores(local, inside, space.element_stores))
    return [*lines, *_heads(axes, first, step), *(indent(line, len(axes) - 1) for line in body_lines)]


def _serial(space: RowSpace) -> Launch:
    """A thread for each row: where neighbouring threads read neighbouring memory, and for positions of extremes."""
    function = space.function
    emitter = space.emitter()
    lines: list[str] = []
    for reduction in space.reductions:
        lines += _thread_reduction(space, emitter, reduction)
    if space.row_stores:
        lines += stores(emitter, LoopSpace(function, space.kept), space.row_stores)
    if space.element_stores:
        bodies: list[Expression] = [store.body for store in space.element_stores]
        lines += invariants(emitter, bodies, space.reduced)
        lines += over(space.reduced, stores(emitter, LoopSpace(function, space.axes), space.element_stores))
    if not space.kept:
        raise Refusal("the place of an extreme over a whole tensor is not written in CUDA")
    rows = " * ".join(axis.size for axis in space.kept)
    flat = function.fresh("at", "flat")
    head = [f"const int64_t {flat} = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;", f"if ({flat} >= {rows}) return;"]
    if len(space.kept) == 1:
        head = [
            line.replace(f" {flat} ", f" {space.kept[0].index} ").replace(f"({flat} ", f"({space.kept[0].index} ")
            for line in head
        ]
    else:
        head += unravelled(space.kept, flat, " ".join(lines))
    return Launch([*head, *lines], blocks_of(python(function, rows)))


def _thread_reduction(space: RowSpace, emitter: CppEmitter, reduction: Reduction) -> list[str]:
    function, body, operation = space.function, reduction.body, reduction.operation
    kind = emitter.kind(body)
    result = result_kind(operation, kind)
    lines = invariants(emitter, [body], space.reduced)
    local = CppEmitter(
        function, LoopSpace(function, space.axes).place, space.names, index_names(space.axes, space.rank), emitter.known
    )
    name = function.fresh(spelled(reduction.name), f"{spelled(reduction.name)}_row")
    statements, (text,) = local.statements([body], [kind])
    function.release(statements)
    if operation.startswith("arg"):
        best, one = function.fresh("best", "best_so_far"), function.fresh("candidate", "each")
        place = LoopSpace(function, space.axes).place(space.position)
        lines += [f"{kind} {best} = {start_of(operation, kind)};", f"int64_t {name} = 0;"]
        update = [
            *statements,
            f"const {kind} {one} = {text};",
            f"if ({better(operation, one, best)}) {{",
            f"  {best} = {one};",
            f"  {name} = {place};",
            "}",
        ]
        function.taken.discard(one)
    else:
        lines.append(f"{result} {name} = {start_of(operation, result)};")
        update = [*statements, _update(function, operation, result, name, text)]
    lines += over(space.reduced, update)
    space.names[reduction.name] = (name, result)
    return lines
