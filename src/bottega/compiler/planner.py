"""From statements to a plan: which operators stay calls of torch, and which kernels are fused, as the enabled passes allow.

Without any pass every operator is a kernel of its own, and products and convolutions stay calls of torch wherever something else is left
to write. What a pass cannot be applied to stays as it is.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from bottega.compiler import fusion
from bottega.compiler.attention_pattern import attentions
from bottega.compiler.bodies import bodies, loads, made, operands, read, without_store
from bottega.compiler.compiler_pass import CompilerPass
from bottega.compiler.expression import Apply, Expression, Load, Name, replace, walk
from bottega.compiler.kernel import Attention, Convolution, FunctionCall, Kernel, Map, Pool, Product, RowProgram, Scan, StoreOp
from bottega.compiler.lowering.lower import Lowered
from bottega.compiler.lowering.scope import Statement
from bottega.compiler.matmul_rule import pays
from bottega.compiler.merged_linears import MERGED_LINEARS, merged_linears
from bottega.compiler.plan import Cuts, KernelPlan
from bottega.compiler.sizes import resolved
from bottega.compiler.view import Buffer, View, contiguous_strides

OWN_PRODUCT = "own_product"
PASSES: tuple[CompilerPass, ...] = (
    CompilerPass(
        "fuse_elementwise",
        "Elementwise operators that follow each other over the same elements, each result used once.",
        "Fuse the elementwise operators ({origin}) into one pass over memory.",
        ("elementwise_chain_one_pass", "library_product_one_tail_kernel"),
    ),
    CompilerPass(
        "fuse_rows",
        "Reductions over the same rows and the elementwise work around them, where there are enough rows to keep the device busy.",
        "Do the whole row ({origin}) in one kernel: reductions and what uses them.",
        ("triton_residual_layer_norm", "norm_moments_by_blocks", "cuda_block_reduce_row"),
    ),
    CompilerPass(
        "fuse_windows",
        "Elementwise work right before or after a pooling or a scan, where windows do not make it compute much twice.",
        "Fuse the elementwise work into the pooling or scan ({origin}).",
        ("triton_window_pool", "pool_columns_then_rows", "triton_scan_with_carry"),
    ),
    CompilerPass(
        "statistics_apart",
        "Few long rows that are normalised: too few to keep the device busy one program each.",
        "Compute the statistics in a kernel of their own and normalise elementwise.",
        ("triton_group_norm_split_statistics", "triton_two_stage_reduction"),
    ),
    CompilerPass(
        OWN_PRODUCT,
        "Matrix products whose operands and epilogue are understood; in Triton only of fp32, with all sides at least 128 and lying well.",
        "Write the matrix product myself and fuse what follows into its epilogue ({origin}).",
        ("triton_matmul_epilogue", "matmul_packed_panels", "cuda_register_tile_matmul"),
    ),
    CompilerPass(
        "own_convolution",
        "Convolutions whose epilogue is understood.",
        "Write the convolution myself and fuse what follows into it ({origin}).",
        ("triton_implicit_gemm_conv", "conv2d_direct_register_tile", "cuda_conv_halo_tile"),
    ),
    CompilerPass(
        "own_attention",
        "Attention without dropout.",
        "Write attention as one streaming kernel that never stores the scores.",
        ("triton_flash_attention", "attention_query_tiles"),
    ),
)
FEW_ROWS, LONG_ROW = 512, 8192
"""Below so many rows of at least this length, a program for each row leaves the device idle."""
EXPENSIVE = frozenset(
    (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "sigmoid",
        "pow",
        "atan2",
        "sinh",
        "cosh",
    )
)
OWN: tuple[tuple[type, str], ...] = ((Product, OWN_PRODUCT), (Convolution, "own_convolution"), (Attention, "own_attention"))


OWN_PASSES = frozenset(name for _, name in OWN)
SHORT_PRODUCT = CompilerPass(
    "own_short_product",
    "Matrix products that gain by an epilogue in the same kernel, by the rule of `product_rule`.",
    "Write the products that memory limits myself and fuse what follows into them ({origin}).",
)
DEPTHWISE = CompilerPass(
    "own_depthwise",
    "Convolutions with a channel for each group.",
    "Write the depthwise convolutions myself and fuse what follows into them ({origin}).",
)


LIBRARY_FUNCTIONS = CompilerPass(
    "shelved_parts",
    "Operators that the kernel library has a function for.",
    "Call the kernel library for the heavy operators and fuse the rest ({origin}).",
    ("library_product_one_tail_kernel", "triton_matmul_epilogue", "triton_implicit_gemm_conv"),
)


def make_plan(lowered: Lowered, passes: frozenset[str], cuts: Cuts = ()) -> KernelPlan:
    kernels = _chosen(_needed(lowered), passes)
    if LIBRARY_FUNCTIONS.name in passes:
        kernels = _live(kernels, _buffers_of(lowered.returned))
    buffers = dict(lowered.buffers)
    if "statistics_apart" in passes:
        kernels = [piece for kernel in kernels for piece in _apart(kernel, buffers)]
    returned = _buffers_of(lowered.returned)
    if "own_attention" in passes:
        kernels = attentions(kernels, buffers, returned)
    kernels = _laid_out(_fused(kernels, passes, returned), buffers, returned)
    if MERGED_LINEARS.name in passes:
        kernels = merged_linears(kernels, buffers, returned)
    kernels = _unnamed(kernels, returned)
    used = {name for kernel in kernels for name in (*read(kernel), *made(kernel))} | returned
    kept = {name: buffer for name, buffer in buffers.items() if name in used or buffer.kind == "input"}
    every = {name: buffer for name, buffer in buffers.items() if name in kept or buffer.kind == "result"}
    turned = [buffer for buffer in kept.values() if buffer.kind == "input" and buffer.strides]
    by_shape = LIBRARY_FUNCTIONS.name in passes and not any(buffer.strides for buffer in kept.values())
    shapes = {name: buffer.shape for name, buffer in buffers.items() if by_shape and buffer.kind == "result"}
    if any(buffer.strides for buffer in kept.values()):  # a convolution's result lies as its operands do
        kernels = [_in_order(kernel) for kernel in kernels]
    layouts = tuple((buffer.name, _in_layout(buffer)) for buffer in turned)
    plan = resolved(KernelPlan(every, tuple(kernels), _text(lowered.returned), lowered.inputs, layouts, shapes, cuts))
    return dataclasses.replace(plan, buffers={name: plan.buffers[name] for name in kept})


def _in_layout(buffer: Buffer) -> str:
    """An input as the kernels address it, copied where a caller gives it in another layout than the task does."""
    name, strides = buffer.name, f"({', '.join(map(str, buffer.strides))},)"
    copied = f"torch.empty_strided({name}.shape, {strides}, dtype={name}.dtype, device={name}.device).copy_({name})"
    return f"{name} if {name}.stride() == {strides} else {copied}"


def _in_order(kernel: Kernel) -> Kernel:
    if not isinstance(kernel, FunctionCall) or "conv" not in kernel.function or len(kernel.results) != 1:
        return kernel
    return dataclasses.replace(kernel, then=".contiguous()")


def _needed(lowered: Lowered) -> list[Statement]:
    wanted = _buffers_of(lowered.returned)
    kept: list[Statement] = []
    for statement in reversed(lowered.statements):
        kernel = statement.kernel or statement.call
        assert kernel is not None
        if wanted & set(made(kernel)):
            kept.append(statement)
            wanted |= read(kernel) | (read(statement.call) if statement.call else set())
    return list(reversed(kept))


def _chosen(statements: list[Statement], passes: frozenset[str]) -> list[Kernel]:
    """Chooses our kernel, torch's call or the library's function for each statement. A plan without a kernel of ours is no candidate: then the heavy
    operators are ours from the start."""
    heavy = tuple(kind for kind, _ in OWN)
    light = any(statement.kernel is not None and not isinstance(statement.kernel, heavy) for statement in statements)
    chosen: list[Kernel] = []
    for statement in statements:
        if statement.library_call is not None and LIBRARY_FUNCTIONS.name in passes:
            chosen.append(statement.library_call)
            continue
        if statement.call is not None and statement.call.function == "torch.cat" and LIBRARY_FUNCTIONS.name in passes:
            chosen.append(statement.call)  # a candidate in the call graph's own lines has no such kernel
            continue
        kernel = statement.kernel
        theirs = kernel is None or (light and isinstance(kernel, heavy) and not _is_ours(kernel, passes))
        if theirs and (kernel is None or statement.call is not None):
            assert statement.call is not None
            chosen.append(statement.call)
            continue
        assert kernel is not None
        chosen.append(kernel)
    return chosen


def _is_ours(kernel: Kernel, passes: frozenset[str]) -> bool:
    """Whether the enabled passes write this heavy operator."""
    if isinstance(kernel, Product) and SHORT_PRODUCT.name in passes and pays(kernel):
        return True
    if isinstance(kernel, Convolution) and DEPTHWISE.name in passes and kernel.weight.shape[1] == 1 < kernel.groups:
        return not kernel.transposed
    return any(isinstance(kernel, kind) and name in passes for kind, name in OWN)


def _live(kernels: list[Kernel], wanted: set[str]) -> list[Kernel]:
    """Without kernels whose results are not read: a library function takes its operands as they are, without the copies that our kernel needs."""
    kept: list[Kernel] = []
    for kernel in reversed(kernels):
        if wanted & set(made(kernel)):
            kept.append(kernel)
            wanted = wanted | read(kernel)
    return kept[::-1]


def _apart(kernel: Kernel, buffers: dict[str, Buffer]) -> list[Kernel]:
    """Splits a row program over few long rows into one that stores a number for each row and reduction, and a map that uses them."""
    if not isinstance(kernel, RowProgram) or not kernel.element_stores or len(kernel.reductions) != 2 or not kernel.kept:
        return [kernel]
    if math.prod(kernel.kept) >= FEW_ROWS or math.prod(kernel.reduced) < LONG_ROW:
        return [kernel]
    target = kernel.element_stores[0].view.buffer
    strides = contiguous_strides(kernel.kept)
    owner = buffers[target]
    swap: dict[Expression, Expression] = {}
    stores: list[StoreOp] = []
    for reduction in kernel.reductions:
        name = f"{target}_{reduction.name}"
        buffers[name] = Buffer(name, kernel.kept, "float32" if owner.dtype != "float64" else "float64")
        stores.append(StoreOp(View(name, kernel.kept, strides, 0, name), Name(reduction.name), buffers[name].dtype))
        wide = View(name, (*kernel.kept, *kernel.reduced), (*strides, *[0] * len(kernel.reduced)), 0, name)
        swap[Name(reduction.name)] = Load(wide, buffers[name].dtype)
    statistics = RowProgram(kernel.kept, kernel.reduced, kernel.reductions, (*kernel.row_stores, *stores), (), kernel.origin)
    shape = (*kernel.kept, *kernel.reduced)
    order = sorted(range(len(shape)), key=lambda axis: (-kernel.element_stores[0].view.strides[axis], axis))
    mapped = tuple(
        StoreOp(fusion.turned_view(s.view, tuple(order)), fusion.turned(replace(s.body, swap), tuple(order)), s.dtype)
        for s in kernel.element_stores
    )
    return [statistics, Map(tuple(shape[axis] for axis in order), mapped, kernel.origin)]


def _fused(kernels: list[Kernel], passes: frozenset[str], returned: set[str]) -> list[Kernel]:
    """Fuses pairs until no pair is left; from the end, so that a result with several users first gets one."""
    changed = True
    while changed:
        changed = False
        for place in range(len(kernels) - 1, -1, -1):
            merged = _merge_at(kernels, place, passes, returned) or _siblings(kernels, place, passes)
            if merged is not None:
                kernels, changed = merged, True
                break
    return kernels


def _merge_at(kernels: list[Kernel], place: int, passes: frozenset[str], returned: set[str]) -> list[Kernel] | None:
    producer = kernels[place]
    if isinstance(producer, FunctionCall):
        return None
    for buffer in made(producer):
        users = [later for later in range(place + 1, len(kernels)) if buffer in read(kernels[later])]
        for later in users:
            kept = buffer in returned or len(users) > 1
            if isinstance(producer, Map) and kept:
                fused = _carried(producer, kernels[later], buffer, passes)
            else:
                fused = _pair(producer, kernels[later], buffer, passes)
            if fused is None:
                continue
            if not kept:
                fused = without_store(fused, buffer)
            new = _placed(kernels, place, later, fused)
            if new is not None:
                return new
    return None


def _carried(producer: Map, consumer: Kernel, buffer: str, passes: frozenset[str]) -> Kernel | None:
    """A map whose result others read too, computed and stored by a program over the same rows."""
    if not isinstance(consumer, RowProgram) or "fuse_rows" not in passes or not _worth_inlining(producer, consumer, buffer):
        return None
    return fusion.carry(producer, consumer, buffer)


def _siblings(kernels: list[Kernel], place: int, passes: frozenset[str]) -> list[Kernel] | None:
    """Two programs over the same rows that read the same elements and do not need each other: one pass does for both."""
    first = kernels[place]
    if not isinstance(first, RowProgram) or "fuse_rows" not in passes:
        return None
    for later in range(place + 1, len(kernels)):
        second = kernels[later]
        if isinstance(second, RowProgram) and not set(made(first)) & read(second) and shared_rows(first, second):
            joined = fusion.chain(first, second, "")
            return _placed(kernels, place, later, joined) if joined is not None else None
    return None


def shared_rows(first: RowProgram, second: RowProgram) -> bool:
    """Whether both load the same elements of at least one buffer."""
    looks = [
        {node.view for r in rows.reductions for node in walk(r.body) if isinstance(node, Load)} for rows in (first, second)
    ]
    return first.kept == second.kept and first.reduced == second.reduced and bool(looks[0] & looks[1])


def _pair(producer: Kernel, consumer: Kernel, buffer: str, passes: frozenset[str]) -> Kernel | None:
    if isinstance(consumer, FunctionCall) or buffer in {view.buffer for view in operands(consumer)}:
        return None
    if isinstance(producer, Map):
        if not _may_fuse(consumer, passes) or not _worth_inlining(producer, consumer, buffer):
            return None
        return fusion.inline(producer, consumer, buffer)
    if isinstance(producer, RowProgram) and isinstance(consumer, RowProgram):
        return fusion.chain(producer, consumer, buffer) if "fuse_rows" in passes else None
    if not isinstance(consumer, Map) or not _may_fuse(producer, passes):
        return None
    if isinstance(producer, RowProgram) and any(store.view.buffer == buffer for store in producer.row_stores):
        enough = math.prod(producer.kept) >= FEW_ROWS or math.prod(producer.reduced) < LONG_ROW
        joined = fusion.spread(producer, consumer, buffer) if enough and len(consumer.shape) > len(producer.kept) else None
        if joined is not None:
            return joined
    return fusion.absorb(producer, consumer, buffer)


def _may_fuse(kernel: Kernel, passes: frozenset[str]) -> bool:
    """Whether elementwise work may become a part of this kernel."""
    kinds: tuple[tuple[Any, str], ...] = ((Map, "fuse_elementwise"), (RowProgram, "fuse_rows"), ((Pool, Scan), "fuse_windows"))
    return any(isinstance(kernel, kind) and name in passes for kind, name in kinds) or _is_ours(kernel, passes)


def _worth_inlining(producer: Map, consumer: Kernel, buffer: str) -> bool:
    """Whether computing an element where it is used does not compute it much more often than once."""
    heavy = any(isinstance(n, Apply) and n.function in EXPENSIVE for body in bodies(producer) for n in walk(body))
    if isinstance(consumer, Pool) and loads(consumer, buffer):
        overlap = math.prod(consumer.window) > math.prod(consumer.stride)
        return not (overlap and heavy)
    most = max((math.prod(node.view.shape) for node in loads(consumer, buffer)), default=0)
    return not heavy or most <= 4 * math.prod(producer.shape) or math.prod(producer.shape) == 1


def _placed(kernels: list[Kernel], first: int, second: int, fused: Kernel) -> list[Kernel] | None:
    """The list with two kernels replaced by one, where the order of what they read and make allows it."""
    between = kernels[first + 1 : second]
    outputs = set(made(kernels[first]))
    rest = [kernel for place, kernel in enumerate(kernels) if place not in (first, second)]
    if not any(outputs & read(kernel) for kernel in between):
        rest.insert(second - 1, fused)
        return rest
    inputs = read(kernels[second]) - outputs
    if not any(inputs & set(made(kernel)) for kernel in between):
        rest.insert(first, fused)
        return rest
    return None


def _laid_out(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    """Attention that torch computes and a copy of it with the heads last, as one call: torch's result lies that way already."""
    for place, call in enumerate(kernels):
        if not isinstance(call, FunctionCall) or not call.function.endswith("attention") or call.library_call:
            continue
        users = [later for later in range(place + 1, len(kernels)) if call.results[0] in read(kernels[later])]
        if len(users) != 1 or call.results[0] in returned:
            continue
        order = _copied_order(kernels[users[0]], buffers[call.results[0]], buffers)
        if order is not None:
            copied = made(kernels[users[0]])[0]
            turned = dataclasses.replace(call, results=(copied,), then=f".permute({', '.join(map(str, order))})")
            rest = [kernel for number, kernel in enumerate(kernels) if number not in (place, users[0])]
            return _laid_out([*rest[:place], turned, *rest[place:]], buffers, returned)
    return kernels


def _copied_order(kernel: Kernel, source: Buffer, buffers: dict[str, Buffer]) -> tuple[int, ...] | None:
    """The order in which a kernel that does nothing else copies the dimensions of a buffer."""
    if not isinstance(kernel, Map) or len(kernel.stores) != 1 or not isinstance(body := kernel.stores[0].body, Load):
        return None
    target, full = buffers[kernel.stores[0].view.buffer], contiguous_strides(source.shape)
    if body.view.buffer != source.name or body.view.offset or len(target.shape) != len(source.shape):
        return None
    strides = iter(body.view.strides)
    wanted = [next(strides, None) if size != 1 else None for size in target.shape]
    order: list[int] = []
    for size, stride in zip(target.shape, wanted):
        axes = (a for a, n in enumerate(source.shape) if a not in order and n == size and stride in (None, full[a]))
        if (axis := next(axes, None)) is None:
            return None
        order.append(axis)
    return tuple(order) if kernel.stores[0].view.contiguous else None


def _unnamed(kernels: list[Kernel], returned: set[str]) -> list[Kernel]:
    """Without names for those of a call's outputs that nobody reads."""
    wanted = returned.union(*(read(kernel) for kernel in kernels))
    return [
        dataclasses.replace(kernel, results=tuple(name if name in wanted else "" for name in kernel.results))
        if isinstance(kernel, FunctionCall)
        else kernel
        for kernel in kernels
    ]


def _buffers_of(value: Any) -> set[str]:
    if isinstance(value, View):
        return {value.buffer}
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return {name for item in value for name in _buffers_of(item)}
    return set()


def _text(value: Any) -> str:
    if isinstance(value, View):
        return value.text
    if isinstance(value, tuple):
        inside = ", ".join(_text(item) for item in value)
        return f"{inside}," if len(value) == 1 else inside
    if isinstance(value, list):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(item)}" for key, item in value.items()) + "}"
    return repr(value)
