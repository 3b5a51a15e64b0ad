"""Loops of a kernel: unrolled, pipelined, or around the whole kernel, which makes its programs persistent."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bottega.lineage.rule import Rule, Technique, conditions
from bottega.lineage.triton.kernel import for_loops
from bottega.lineage.triton.rewriting import Change, triton_rule
from bottega.lineage.triton.text import TritonText, keyword_of, tl_name

COUNT = "programs"
"""The argument of a kernel that becomes persistent: how many programs it had."""


def undo_static_range(found: TritonText) -> Iterator[Change]:
    sites = list(found.calls("static_range"))
    if sites:
        changes = [(call, ast.unparse(ast.Call(ast.Name("range"), call.args, []))) for _, call in sites]
        yield changes, sites[0][0], ""


def redo_static_range(found: TritonText, value: str) -> Iterator[Change]:
    """Loops with bounds that are known when the kernel is compiled."""
    for kernel, function in found.kernels.items():
        known = {each.arg for each in function.args.args if each.annotation and "constexpr" in ast.unparse(each.annotation)}
        for loop in for_loops(function):
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
        for loop in for_loops(function):
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
    return any("num_programs" in ast.unparse(loop.iter) for loop in for_loops(function))


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

LOOP_RULES: tuple[Rule, ...] = (UNROLL, LOOP_STAGES, PERSISTENT)
