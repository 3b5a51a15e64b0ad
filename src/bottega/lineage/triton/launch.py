"""What a kernel is launched with: warps, stages, registers, and the compile-time numbers that say how work is cut into programs."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from bottega.lineage.rule import Rule, Technique, conditions
from bottega.lineage.triton.rewriting import Change, triton_rule
from bottega.lineage.triton.text import KernelLaunch, TritonText, keyword_of, with_keyword

_TILE = re.compile(r"B(LOCK)?[A-Z0-9_]*|[A-Z_]*TILE[A-Z_]*")
_GROUP = re.compile(r"[A-Z_]*GROUP[A-Z_]*")
_SPLIT = re.compile(r"SPLITS?(_[A-Z]+)?|PARTS|CHUNKS")
_ROWS = re.compile(r"ROWS(_[A-Z]+)*")
_EVEN = re.compile(r"EVEN(_[A-Z]+)*|UNMASKED")
SMALLEST = 16
"""What `tl.dot` takes at least; below it a tile is no tile."""


def option_rule(technique: Technique, option: str, plain: int | None) -> Rule:
    """A launch option; without it the launch has `plain`, or none."""

    def undo(found: TritonText) -> Iterator[Change]:
        sites = []
        for launch in found.launches:
            value = keyword_of(launch.call, option)
            if value is not None and ast.unparse(value) != str(plain):
                new = None if plain is None else ast.Constant(plain)
                sites.append((launch, ast.unparse(value), with_keyword(launch.call, option, new)))
        if sites:
            yield [(launch.call, new) for launch, _, new in sites], sites[0][0].kernel, sites[0][1]

    def redo(found: TritonText, value: str) -> Iterator[Change]:
        wanted = ast.parse(value or "4", mode="eval").body
        sites = [
            launch
            for launch in found.launches
            if (given := keyword_of(launch.call, option)) is None or ast.unparse(given) == str(plain)
        ]
        if sites:
            yield [(launch.call, with_keyword(launch.call, option, wanted)) for launch in sites], sites[0].kernel, value

    return triton_rule(technique, undo, redo)


Site = tuple[str, ast.expr, Callable[[ast.expr], tuple[ast.expr | ast.stmt, str]]]


def _numbers(found: TritonText, names: re.Pattern[str]) -> Iterator[Site]:
    """Numbers that the host gives such a name: launch keywords and assignments, each with how it is written anew."""

    def of_launch(launch: KernelLaunch, name: str) -> Callable[[ast.expr], tuple[ast.expr | ast.stmt, str]]:
        return lambda new: (launch.call, with_keyword(launch.call, name, new))

    def of_assignment(node: ast.Assign) -> Callable[[ast.expr], tuple[ast.expr | ast.stmt, str]]:
        return lambda new: (node, f"{ast.unparse(node.targets[0])} = {ast.unparse(new)}")

    for launch in found.launches:
        for keyword in launch.call.keywords:
            if keyword.arg and names.fullmatch(keyword.arg) and isinstance(keyword.value, ast.Constant):
                yield keyword.arg, keyword.value, of_launch(launch, keyword.arg)
    for node in found.host:
        target = node.targets[0] if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and names.fullmatch(target.id):
            yield target.id, node.value, of_assignment(node)


def number_rule(technique: Technique, names: re.Pattern[str], plain: int) -> Rule:
    """A compile-time number that the host chooses; plain kernels have a small one.

    Put in, it raises a smaller number of the same name, and no other: twice the rows of a tile is not its depth too. A kernel that has no such
    name has its own ones raised.
    """

    def undo(found: TritonText) -> Iterator[Change]:
        for name, value, rewritten in _numbers(found, names):
            if isinstance(value, ast.Constant) and type(value.value) is int and value.value > plain:
                yield [rewritten(ast.Constant(plain))], name, f"{name}={value.value}"

    def redo(found: TritonText, value: str) -> Iterator[Change]:
        wanted, _, count = value.partition("=")
        sites = list(_numbers(found, names))
        for name, number, rewritten in [each for each in sites if each[0] == wanted] or sites:
            if isinstance(number, ast.Constant) and type(number.value) is int and number.value < int(count):
                yield [rewritten(ast.Constant(int(count)))], name, value

    return triton_rule(technique, undo, redo)


def undo_even(found: TritonText) -> Iterator[Change]:
    for launch in found.launches:
        for keyword in launch.call.keywords:
            if keyword.arg and _EVEN.fullmatch(keyword.arg) and ast.unparse(keyword.value) != "False":
                new = with_keyword(launch.call, keyword.arg, ast.Constant(False))
                yield [(launch.call, new)], launch.kernel, f"{keyword.arg}={ast.unparse(keyword.value)}"


def redo_even(found: TritonText, value: str) -> Iterator[Change]:
    _, _, expression = value.partition("=")
    for launch in found.launches:
        for keyword in launch.call.keywords:
            if keyword.arg and _EVEN.fullmatch(keyword.arg) and ast.unparse(keyword.value) == "False":
                new = with_keyword(launch.call, keyword.arg, ast.parse(expression, mode="eval").body)
                yield [(launch.call, new)], launch.kernel, value


WARPS = option_rule(
    Technique(
        "num_warps",
        "Give a program as many warps as its tile keeps busy, instead of the default four.",
        "A launch `kernel[grid](...)` without num_warps, or with one that does not fit its tile.",
        "Pass `num_warps=N` at the launch: 1 to 2 for rows below 1,000 elements, 8 for long rows and for tiles of 128 by 128.",
        conditions(storage="The tile divided by 32 N threads leaves 4 to 64 values a thread.", hardware="An NVIDIA GPU."),
        ("Too many warps for a short row leave lanes idle and add barriers; too few spill registers.",),
        ("launch", "occupancy", "warps"),
    ),
    "num_warps",
    None,
)  # fmt: skip
STAGES = option_rule(
    Technique(
        "num_stages",
        "Load the next tiles while this one is multiplied: software pipelining of the loop over k.",
        "A kernel with `tl.dot` in a loop over tiles of its operands.",
        "Pass `num_stages=N` at the launch, N from 2 to 5. Each stage keeps one more pair of tiles in shared memory.",
        conditions(
            storage="N pairs of tiles fit into shared memory.",
            pipeline="Addresses of the next tiles do not depend on this one's result.",
            hardware="Asynchronous copies: Ampere or later.",
        ),
        ("Too many stages exceed shared memory, and the launch fails or fewer programs fit on an SM.",),
        ("pipelining", "shared_memory", "launch"),
    ),
    "num_stages",
    1,
)  # fmt: skip
REGISTERS = option_rule(
    Technique(
        "maxnreg",
        "Cap the registers of a thread so that more programs fit on an SM.",
        "A memory-bound kernel whose occupancy is limited by registers.",
        "Pass `maxnreg=N` at the launch, N a multiple of 8.",
        conditions(storage="What is cut off is spilled rarely.", hardware="An NVIDIA GPU; Triton 3 or later."),
        ("Too low a cap spills in the inner loop, and costs more than occupancy gives.",),
        ("registers", "occupancy"),
    ),
    "maxnreg",
    None,
)  # fmt: skip
TILE = number_rule(
    Technique(
        "tile",
        "A larger tile for each program: what is loaded is used more often, and fewer programs are launched.",
        "A `BLOCK` constant of a launch that is at its smallest.",
        "Raise the block size; powers of two. For products 64 to 256 for rows and columns and 32 to 64 for k; element-wise 1,024 to 4,096. "
        "Let the grid be computed from the same constant.",
        conditions(
            layout="The grid is computed from the block size, and loads are masked at the edges.",
            storage="Accumulators fit into registers, operand tiles into shared memory.",
        ),
        ("A grid that was computed from the old constant leaves parts of the output unwritten.",),
        ("tiling", "block_size"),
    ),
    _TILE,
    SMALLEST,
)  # fmt: skip
GROUP = number_rule(
    Technique(
        "group_order",
        "Let programs that share operands run at the same time: an order of tiles by groups of rows, so that they meet in L2.",
        "A product with more tiles than SMs, whose programs walk the output row by row.",
        "Map the program's number to a tile in groups of GROUP rows: first down the group, then to the next column. GROUP of 4 to 16.",
        conditions(storage="The operands exceed L2.", pipeline="Programs are independent of their order."),
        ("With a wrong last group, tiles are done twice or not at all where rows are no multiple of GROUP.",),
        ("swizzle", "l2_cache", "order"),
    ),
    _GROUP,
    1,
)  # fmt: skip
SPLIT = number_rule(
    Technique(
        "split",
        "Split a long reduction among several programs where there are too few outputs to fill the GPU.",
        "A reduction or product with few output tiles and a long inner dimension.",
        "Give the grid a second axis of SPLIT programs, let each reduce its part into a partial result, and add the parts in a second launch.",
        conditions(
            data_types="Sums of partial sums round differently: fp32 partials.",
            pipeline="The reduction is associative.",
            hardware="Fewer output tiles than SMs.",
        ),
        ("Parts that are no multiple of the tile read past their end without a mask.",),
        ("split_k", "reduction", "parallelism"),
    ),
    _SPLIT,
    1,
)  # fmt: skip
ROWS = number_rule(
    Technique(
        "rows_per_program",
        "Several short rows for each program: full lanes, fewer programs.",
        "A kernel with one program for each row of fewer than some 1,000 elements.",
        "Make the tile two-dimensional, (ROWS, BLOCK), reduce along axis 1, and divide the grid by ROWS.",
        conditions(layout="Rows are contiguous and short.", storage="ROWS times BLOCK values fit into registers."),
        ("Without a mask for the last rows, a count that ROWS does not divide writes past the end.",),
        ("tiling", "short_rows"),
    ),
    _ROWS,
    1,
)  # fmt: skip
EVEN = triton_rule(
    Technique(
        "unmasked",
        "Leave masks out where the sizes divide evenly: plain vector loads without predicates.",
        "Loads with `mask=` in an inner loop, where the host knows whether the size divides the block.",
        "Pass a compile-time flag such as `EVEN_K=K % BLOCK_K == 0` and branch on it in the kernel: unmasked loads where it holds.",
        conditions(layout="The size is a multiple of the block wherever the flag is true."),
        ("A flag that is true for a size that does not divide reads past the end.",),
        ("mask", "vector_access"),
    ),
    undo_even,
    redo_even,
)  # fmt: skip

LAUNCH_RULES: tuple[Rule, ...] = (REGISTERS, WARPS, STAGES, EVEN, GROUP, ROWS, SPLIT, TILE)
