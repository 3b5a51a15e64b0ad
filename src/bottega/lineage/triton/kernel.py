"""What stands inside a kernel: hints to the cache and the compiler, precisions, cheaper functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bottega.lineage.rule import Rule, Technique, conditions
from bottega.lineage.triton.rewriting import Change, triton_rule
from bottega.lineage.triton.text import TritonText, keyword_of, tl_name, with_keyword

LOG2E, LN2 = "1.4426950408889634", "0.6931471805599453"
HALVES = ("tl.float16", "tl.bfloat16")


def for_loops(kernel: ast.FunctionDef) -> list[ast.For]:
    return [node for node in ast.walk(kernel) if isinstance(node, ast.For)]


def _loads_in_loops(found: TritonText) -> list[tuple[str, ast.Call]]:
    inside = {id(node) for kernel in found.kernels.values() for loop in for_loops(kernel) for node in ast.walk(loop)}
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
        "Write `tl.rsqrt(x)` for the whole quotient, with the epsilon inside.",
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
KERNEL_RULES: tuple[Rule, ...] = (CACHE_HINTS, CONTIGUITY, RSQRT, EXP2, DOT_PRECISION, HALF_OPERANDS)
