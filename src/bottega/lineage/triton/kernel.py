"""What stands inside a kernel: hints, precisions, cheaper functions, unrolled and pipelined loops, a loop that makes programs persistent."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bottega.lineage.rule import Rule, Technique, conditions
from bottega.lineage.triton.rewriting import Change, triton_rule
from bottega.lineage.triton.text import TritonText, keyword_of, tl_name, with_keyword

LOG2E, LN2 = "1.4426950408889634", "0.6931471805599453"
HALVES = ("tl.float16", "tl.bfloat16")
COUNT = "programs"
"""The argument of a kernel that becomes persistent: how many programs it had."""


def _loops(kernel: ast.FunctionDef) -> list[ast.For]:
    return [node for node in ast.walk(kernel) if isinstance(node, ast.For)]


def _loads_in_loops(found: TritonText) -> list[tuple[str, ast.Call]]:
    inside = {id(node) for kernel in found.kernels.values() for loop in _loops(kernel) for node in ast.walk(loop)}
    return [(kernel, call) for kernel, call in found.calls("load") if id(call) in inside]


def undo_cache_hints(found: TritonText) -> Iterator[Change]:
    sites = []
    for name in ("load", "store"):
        for kernel, call in found.calls(name):
            hint = keyword_of(call, "eviction_policy") or keyword_of(call, "cache_modifier")
            if hint is not None:
                plain = ast.parse(with_keyword(call, "eviction_policy", None), mode="eval").body
                assert isinstance(plain, ast.Call)
                sites.append((call, with_keyword(plain, "cache_modifier", None), kernel, ast.unparse(hint).strip("'\"")))
    if sites:
        yield [(call, new) for call, new, _, _ in sites], sites[0][2], sites[0][3]


def redo_cache_hints(found: TritonText, value: str) -> Iterator[Change]:
    key = "eviction_policy" if value.startswith("evict") else "cache_modifier"
    loads = [(k, call) for k, call in (_loads_in_loops(found) or found.calls("load")) if keyword_of(call, key) is None]
    if loads:
        yield [(call, with_keyword(call, key, ast.Constant(value))) for _, call in loads], loads[0][0], value


def undo_dot_precision(found: TritonText) -> Iterator[Change]:
    sites = []
    for kernel, call in found.calls("dot"):
        given = keyword_of(call, "input_precision")
        if isinstance(given, ast.Constant) and given.value != "ieee":
            sites.append((kernel, call, str(given.value)))
    if sites:
        changes = [(call, with_keyword(call, "input_precision", ast.Constant("ieee"))) for _, call, _ in sites]
        yield changes, sites[0][0], sites[0][2]


def redo_dot_precision(found: TritonText, value: str) -> Iterator[Change]:
    sites = []
    for kernel, call in found.calls("dot"):
        given = keyword_of(call, "input_precision")
        if given is None or (isinstance(given, ast.Constant) and given.value == "ieee"):
            sites.append((kernel, call))
    if sites:
        yield [(call, with_keyword(call, "input_precision", ast.Constant(value))) for _, call in sites], sites[0][0], value


def _halved(node: ast.expr) -> tuple[ast.expr, str] | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to" and node.args:
        kind = ast.unparse(node.args[0])
        return (node.func.value, kind) if kind in HALVES else None
    return None


def undo_half_operands(found: TritonText) -> Iterator[Change]:
    sites = []
    for kernel, call in found.calls("dot"):
        halves = [_halved(argument) for argument in call.args]
        kinds = [half[1] for half in halves if half]
        if kinds:
            arguments = [half[0] if half else argument for half, argument in zip(halves, call.args)]
            sites.append((call, ast.unparse(ast.Call(call.func, arguments, call.keywords)), kernel, kinds[0]))
    if sites:
        yield [(call, new) for call, new, _, _ in sites], sites[0][2], sites[0][3]


def redo_half_operands(found: TritonText, value: str) -> Iterator[Change]:
    sites = []
    for kernel, call in found.calls("dot"):
        if not any(_halved(argument) for argument in call.args[:2]):
            arguments = [ast.parse(f"({ast.unparse(each)}).to({value})", mode="eval").body for each in call.args[:2]]
            sites.append((call, ast.unparse(ast.Call(call.func, [*arguments, *call.args[2:]], call.keywords)), kernel))
    if sites:
        yield [(call, new) for call, new, _ in sites], sites[0][2], value


def _scaled(node: ast.expr, factor: str) -> ast.expr | None:
    """X of `X * factor`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and ast.unparse(node.right) == factor:
        return node.left
    return None


def _exchanged(found: TritonText, old: str, new: str, factor: str, inverse: str, value: str) -> Iterator[Change]:
    sites = []
    for kernel, call in found.calls(old):
        if len(call.args) == 1:
            bare = _scaled(call.args[0], inverse)
            inside = ast.unparse(bare) if bare is not None else f"({ast.unparse(call.args[0])}) * {factor}"
            sites.append((kernel, call, f"tl.{new}({inside})"))
    if sites:
        yield [(call, text) for _, call, text in sites], sites[0][0], value


def undo_rsqrt(found: TritonText) -> Iterator[Change]:
    sites = [(kernel, call) for kernel, call in found.calls("rsqrt") if call.args]
    if sites:
        yield [(call, f"(1.0 / tl.sqrt({ast.unparse(call.args[0])}))") for _, call in sites], sites[0][0], ""


def redo_rsqrt(found: TritonText, value: str) -> Iterator[Change]:
    sites = []
    for kernel, function in found.kernels.items():
        for node in ast.walk(function):
            inverse = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.left) in ("1.0", "1")
            root = node.right if inverse and isinstance(node, ast.BinOp) else None
            if isinstance(node, ast.BinOp) and isinstance(root, ast.Call) and tl_name(root.func) == "sqrt":
                sites.append((kernel, node, f"tl.rsqrt({ast.unparse(root.args[0])})"))
    if sites:
        yield [(node, text) for _, node, text in sites], sites[0][0], value


def undo_contiguity(found: TritonText) -> Iterator[Change]:
    sites = []
    for name in ("max_contiguous", "multiple_of"):
        for kernel, call in found.calls(name):
            inside = call.args[0]
            while isinstance(inside, ast.Call) and tl_name(inside.func) in ("max_contiguous", "multiple_of"):
                inside = inside.args[0]
            sites.append((kernel, call, ast.unparse(inside)))
    if sites:
        yield [(call, text) for _, call, text in sites], sites[0][0], ""


def redo_contiguity(found: TritonText, value: str) -> Iterator[Change]:
    """Where offsets are made: `number * BLOCK + tl.arange(0, BLOCK)`."""
    sites = []
    for kernel, call in found.calls("arange"):
        if len(call.args) == 2:
            width = ast.unparse(call.args[1])
            for node in ast.walk(found.kernels[kernel]):
                added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and node.right is call
                if added and isinstance(node, ast.BinOp) and ast.unparse(node.left).endswith(f"* {width}"):
                    text = ast.unparse(node)
                    sites.append((kernel, node, f"tl.max_contiguous(tl.multiple_of({text}, {width}), {width})"))
    if sites:
        yield [(node, text) for _, node, text in sites], sites[0][0], value


def undo_static_range(found: TritonText) -> Iterator[Change]:
    sites = list(found.calls("static_range"))
    if sites:
        changes = [(call, ast.unparse(ast.Call(ast.Name("range"), call.args, []))) for _, call in sites]
        yield changes, sites[0][0], ""


def redo_static_range(found: TritonText, value: str) -> Iterator[Change]:
    """Loops with bounds that are known when the kernel is compiled."""
    for kernel, function in found.kernels.items():
        known = {each.arg for each in function.args.args if each.annotation and "constexpr" in ast.unparse(each.annotation)}
        for loop in _loops(function):
            called = loop.iter
            if isinstance(called, ast.Call) and ast.unparse(called.func) == "range":
                names = {node.id for argument in called.args for node in ast.walk(argument) if isinstance(node, ast.Name)}
                if names <= known:
                    text = ast.unparse(ast.Call(ast.parse("tl.static_range", mode="eval").body, called.args, []))
                    yield [(called, text)], kernel, value


def undo_loop_stages(found: TritonText) -> Iterator[Change]:
    for kernel, call in found.calls("range"):
        stages = keyword_of(call, "num_stages")
        if stages is not None:
            new = ast.unparse(ast.Call(ast.Name("range"), call.args, []))
            yield [(call, new)], kernel, ast.unparse(stages)


def redo_loop_stages(found: TritonText, value: str) -> Iterator[Change]:
    for kernel, function in found.kernels.items():
        for loop in _loops(function):
            called = loop.iter
            loads = any(isinstance(node, ast.Call) and tl_name(node.func) == "load" for node in ast.walk(loop))
            if loads and isinstance(called, ast.Call) and ast.unparse(called.func) == "range":
                arguments = ", ".join(ast.unparse(argument) for argument in called.args)
                yield [(called, f"tl.range({arguments}, num_stages={value})")], kernel, value


def undo_persistent(found: TritonText) -> Iterator[Change]:
    """`for t in range(tl.program_id(0), n, tl.num_programs(0))` becomes one turn, and the grid has a program for each."""
    for name, function in found.kernels.items():
        for loop in function.body:
            if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or len(loop.iter.args) != 3:
                continue
            begin, _, step = (ast.unparse(argument) for argument in loop.iter.args)
            if "program_id(0)" not in begin or "num_programs(0)" not in step:
                continue
            body = "\n".join([f"{ast.unparse(loop.target)} = {begin}", *(ast.unparse(node) for node in loop.body)])
            changes: list[tuple[ast.expr | ast.stmt, str]] = [(loop, body)]
            for least in _grid_minima(found, name):
                changes.append((least, ast.unparse(least.args[0])))
            yield changes, name, ", ".join(ast.unparse(each.args[1]) for each in _grid_minima(found, name))


def _grid_minima(found: TritonText, kernel: str) -> list[ast.Call]:
    """`min(tiles, programs)` in the launch's grid, or in what its name is assigned."""
    grids = [launch.grid for launch in found.launches if launch.kernel == kernel]
    names = {grid.id for grid in grids if isinstance(grid, ast.Name)}
    assigned = [node.value for node in found.host if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names]
    return [
        node
        for grid in (*grids, *assigned)
        for node in ast.walk(grid)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "min" and len(node.args) == 2
    ]


def redo_persistent(found: TritonText, value: str) -> Iterator[Change]:
    """A kernel with a one-dimensional grid: its program's number becomes the variable of a loop, and the grid has at most `value` programs."""
    for launch in found.launches:
        function = found.kernels[launch.kernel]
        first = next(
            (node for node in function.body if isinstance(node, ast.Assign) and "tl.program_id(0)" in ast.unparse(node)), None
        )
        grid = launch.grid
        if first is None or not isinstance(grid, ast.Tuple) or len(grid.elts) != 1 or _loops_over_programs(function):
            continue
        if ast.unparse(first.value) not in ("tl.program_id(0)", "tl.program_id(0).to(tl.int64)"):
            continue
        rest = function.body[function.body.index(first) + 1 :]
        body = "\n".join("\n".join(f"    {line}" for line in ast.unparse(node).split("\n")) for node in rest)
        loop = f"for {ast.unparse(first.targets[0])} in range({ast.unparse(first.value)}, {COUNT}, tl.num_programs(0)):\n{body}"
        header = ast.unparse(
            ast.arguments([], [ast.arg(COUNT), *function.args.args], None, [], [], None, function.args.defaults)
        )
        before = "\n".join(ast.unparse(node) for node in function.body[: function.body.index(first)])
        decorators = "\n".join(f"@{ast.unparse(each)}" for each in function.decorator_list)
        lines = "\n".join(f"    {line}" for line in f"{before}\n{loop}".strip("\n").split("\n"))
        count = ast.unparse(grid.elts[0])
        call = ast.unparse(ast.Call(ast.Name(launch.kernel), [grid.elts[0], *launch.call.args], launch.call.keywords))
        launched = call.replace(f"{launch.kernel}(", f"{launch.kernel}[(min({count}, {value}),)](", 1)
        # The definition is replaced from its first decorator on, which stands before the node's own place.
        whole = ast.FunctionDef(function.name, function.args, function.body, function.decorator_list)
        top = function.decorator_list[0] if function.decorator_list else function
        whole.lineno, whole.col_offset = top.lineno, function.col_offset
        whole.end_lineno, whole.end_col_offset = function.end_lineno, function.end_col_offset
        yield [(whole, f"{decorators}\ndef {function.name}({header}):\n{lines}"), (launch.call, launched)], launch.kernel, value


def _loops_over_programs(function: ast.FunctionDef) -> bool:
    return any("num_programs" in ast.unparse(loop.iter) for loop in _loops(function))


CACHE_HINTS = triton_rule(
    Technique(
        "cache_hints",
        "Tell the cache what will not be read again: streamed data leaves first, reused data stays.",
        "`tl.load` of data that a kernel reads once, beside data that all programs read.",
        "Pass `eviction_policy=\"evict_first\"` to loads of streamed tensors, `\"evict_last\"` to what every program reads.",
        conditions(storage="The streamed tensor exceeds L2, the reused one does not.", hardware="NVIDIA L2 with eviction priorities."),
        ("evict_first on data that a second pass reads again sends that pass to memory.",),
        ("cache", "l2_cache", "streaming"),
    ),
    undo_cache_hints,
    redo_cache_hints,
)  # fmt: skip
DOT_PRECISION = triton_rule(
    Technique(
        "dot_precision",
        "Products on tensor cores at the precision that the task allows: three tf32 products in place of one fp32 one.",
        "`tl.dot` of fp32 tiles with `input_precision=\"ieee\"`.",
        "Pass `input_precision=\"tf32x3\"` to `tl.dot` where fp32 accuracy is asked for, `\"tf32\"` where tf32 is allowed.",
        conditions(data_types="fp32 operands; tf32x3 keeps about fp32's accuracy, tf32 keeps ten bits.", hardware="Tensor cores: Ampere or later."),
        ("Plain tf32 where fp32 is asked for is refused as a downgrade.",),
        ("precision", "tensor_cores", "tf32"),
    ),
    undo_dot_precision,
    redo_dot_precision,
)  # fmt: skip
HALF_OPERANDS = triton_rule(
    Technique(
        "half_operands",
        "Multiply in half precision with fp32 sums: twice to four times the tensor cores' rate.",
        "`tl.dot` of fp32 tiles in a task whose tensors are fp16 or bf16.",
        "Cast the operands of `tl.dot` to the task's half type and leave the accumulator in fp32.",
        conditions(data_types="The task's own type is fp16 or bf16, or such arithmetic is allowed.", hardware="Tensor cores."),
        ("On fp32 tasks the error shows, and the kernel is refused as a downgrade.",),
        ("precision", "bf16", "tensor_cores"),
    ),
    undo_half_operands,
    redo_half_operands,
)  # fmt: skip
EXP2 = triton_rule(
    Technique(
        "exp2",
        "exp2 in place of exp: the hardware computes powers of two, and the factor is folded into a scale that is there anyway.",
        "`tl.exp` in an inner loop: softmax, attention, cross-entropy.",
        "Write `tl.exp2(x * 1.4426950408889634)`, and move the factor into the scale of the scores.",
        conditions(data_types="fp32 arguments.", pipeline="Maximum and difference are taken in the scaled values throughout."),
        ("Scaling the scores but not the running maximum makes the correction factors wrong.",),
        ("exp2", "softmax", "special_function"),
    ),
    lambda found: _exchanged(found, "exp2", "exp", LN2, LOG2E, ""),
    lambda found, value: _exchanged(found, "exp", "exp2", LOG2E, LN2, value),
)  # fmt: skip
RSQRT = triton_rule(
    Technique(
        "rsqrt",
        "The reciprocal square root in one instruction, instead of a root and a division.",
        "`1 / tl.sqrt(x)` in a norm.",
        "Write `tl.rsqrt(x)`.",
        conditions(data_types="fp32; good to two units in the last place.", pipeline="x is above zero: an epsilon is added before."),
        ("Without the epsilon a row of zeros gives infinity.",),
        ("rsqrt", "norm"),
    ),
    undo_rsqrt,
    redo_rsqrt,
)  # fmt: skip
CONTIGUITY = triton_rule(
    Technique(
        "contiguity_hints",
        "Promise that offsets are contiguous and aligned, so that loads become 16-byte vectors.",
        "Offsets `program * BLOCK + tl.arange(0, BLOCK)`, above all behind a modulo.",
        "Wrap the offsets: `tl.max_contiguous(tl.multiple_of(offsets, BLOCK), BLOCK)`.",
        conditions(layout="The offsets are what is promised: contiguous, beginning at a multiple of BLOCK."),
        ("A promise that does not hold reads wrong elements without any error.",),
        ("vector_access", "alignment"),
    ),
    undo_contiguity,
    redo_contiguity,
)  # fmt: skip
UNROLL = triton_rule(
    Technique(
        "unroll",
        "Unroll a loop whose count is known when the kernel is compiled: no counter, loads of all turns at once.",
        "`for i in range(N)` in a kernel, N a small constexpr.",
        "Write `tl.static_range` in place of `range`.",
        conditions(pipeline="The count is a constexpr, and small."),
        ("A large count makes the kernel long, slow to compile, and spills registers.",),
        ("unroll", "static_range"),
    ),
    undo_static_range,
    redo_static_range,
)  # fmt: skip
LOOP_STAGES = triton_rule(
    Technique(
        "loop_stages",
        "Pipeline a loop of loads without a product in it: the next turn's loads are under way during this one.",
        "A loop over tiles with `tl.load` in a memory-bound kernel.",
        "Write `tl.range(start, stop, step, num_stages=N)` in place of `range`, N from 2 to 4.",
        conditions(storage="N tiles fit into shared memory.", pipeline="Addresses do not depend on loaded values."),
        ("In a loop of few turns, filling and draining the pipeline costs more than it hides.",),
        ("pipelining", "latency"),
    ),
    undo_loop_stages,
    redo_loop_stages,
)  # fmt: skip
PERSISTENT = triton_rule(
    Technique(
        "persistent",
        "As many programs as the GPU runs at once, each going over several tiles: launches and set-up are paid once.",
        "A one-dimensional grid of very many short programs.",
        "Let the kernel loop `for tile in range(tl.program_id(0), tiles, tl.num_programs(0))`, and launch `min(tiles, N)` programs, "
        "N a small multiple of the number of SMs.",
        conditions(pipeline="Tiles are independent.", hardware="More tiles than programs fit on the GPU."),
        ("A grid below the number of SMs leaves some idle; a fixed N fits one GPU only.",),
        ("persistent", "grid", "launch"),
    ),
    undo_persistent,
    redo_persistent,
)  # fmt: skip

KERNEL_RULES: tuple[Rule, ...] = (
    CACHE_HINTS, CONTIGUITY, UNROLL, LOOP_STAGES, RSQRT, EXP2, DOT_PRECISION, HALF_OPERANDS, PERSISTENT,
)  # fmt: skip
