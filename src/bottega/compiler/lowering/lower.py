"""The graph, walked once: every node becomes statements, a view, or a refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from torch.utils._pytree import tree_leaves

from bottega.compiler.build_step import Refusal
from bottega.compiler.kernel import Kernel
from bottega.compiler.lowering import (
    calls,
    elementwise,
    indexing,
    joining,
    library_functions,
    losses,
    matmul,
    reductions,
    views,
    windows,
)
from bottega.compiler.lowering.scope import LoweredTensor, LoweringScope, Statement
from bottega.compiler.traced_graph import Graph, Ref, Spec, refs
from bottega.compiler.view import Buffer, Shape, View

FAMILIES: tuple[ModuleType, ...] = (elementwise, views, reductions, losses, matmul, windows, indexing, joining)
"""In the order in which an operator is looked for; whatever none of them takes may still be left to torch."""
KNOWN = frozenset(name for family in (*FAMILIES, calls) for name in family.OPERATORS) | {"getitem"}
INLINE = frozenset((*elementwise.OPERATORS, *views.OPERATORS, "getitem"))
"""Operators that whatever uses their result computes itself."""
TOLD = frozenset(
    (
        *("size", "shape", "sizes", "repeats", "num_classes", "output_size", "input", "split_size", "split_sizes", "chunks"),
        *("sections", "indices", "indices_or_sections", "end", "length", "N", "C", "HxW", "ceil_mode", "half_to_float"),
        *("dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "implicit", "momentum"),
        *("cudnn_enabled", "cudnn_enable", "padding_idx", "scale_grad_by_freq", "sparse", "sparse_grad", "compute_mode"),
    )
)
"""Arguments that a lowering need not look at: the result's shape and type tell them, or they change no value. With any other one that it did not
look at, an operator is left to torch."""
CHOOSING = frozenset(("topk", "sort", "argsort", "kthvalue"))
"""Operators whose result is which elements are larger: a difference in the last bit gives another one."""


@dataclass(frozen=True)
class Lowered:
    buffers: dict[str, Buffer]
    statements: tuple[Statement, ...]
    returned: Any
    """Nested tuples, lists and dicts of views and plain values."""
    inputs: tuple[str, ...]
    changed: tuple[tuple[str, View], ...] = ()
    """Inputs that are changed in place, each with what it holds in the end."""
    apart: frozenset[str] = frozenset()
    """Buffers that are returned as tensors of their own, and not as an input that was changed."""
    layouts: Mapping[str, Shape] = field(default_factory=dict)
    """Strides of what is returned and lies dense in another order than its dimensions', by buffer."""
    unwritten: frozenset[str] = frozenset()
    """Operators that are known here, but not with the options that this module gives them: torch computes them."""
    fused: dict[Any, tuple[list[Kernel], list[Kernel]]] = field(default_factory=dict, compare=False, repr=False)
    """What lists of kernels became, fused, for the planner: most of a task's many plans fuse the same ones."""


def lower(graph: Graph, label: str, call_texts: Mapping[str, str] | None = None) -> Lowered:
    """`call_texts` are the calls of the call graph, by their results: with them, operators of the kernel library are also lowered to calls of it."""
    scope = LoweringScope(graph, label, decisive=_decisive(graph))
    for name, spec in graph.inputs:
        _bind(scope, name, name, spec, "input")
    for name, (path, spec) in graph.parameters.items():
        _bind(scope, name, path, spec, "parameter")
    for node in graph.nodes:
        scope.node = node
        if node.operator == "getitem":
            several = scope.values[node.arguments["self"].name]
            scope.values[node.name] = several[node.arguments["index"]] if isinstance(several, tuple) else several
        else:
            before = len(scope.statements)
            scope.values[node.name] = _lowered(scope, call_texts)
            if call_texts is not None:
                scope.statements[before:] = library_functions.with_library_function(
                    scope, scope.statements[before:], call_texts
                )
    over = frozenset(name for name, _ in graph.changed)
    _keep_copies(scope, graph)
    returned = _returned(scope, graph.returned, over)
    names = tuple(name for name, _ in graph.inputs)
    changed = tuple((name, _returned(scope, value, over)) for name, value in graph.changed)
    own = {value.name for _, value in graph.changed}
    others = (value for value in tree_leaves(graph.returned) if isinstance(value, Ref) and value.name not in own)
    apart = frozenset(scope.tensor(value).view.buffer for value in others)
    layouts = _layouts(scope, graph)
    return Lowered(scope.buffers, tuple(scope.statements), returned, names, changed, apart, layouts, frozenset(scope.unwritten))


def _decisive(graph: Graph) -> frozenset[str]:
    """Everything that the operators which choose by comparing see."""
    found: set[str] = set()
    for node in reversed(graph.nodes):
        if node.operator in CHOOSING or node.name in found:
            found |= {ref.name for ref in refs(node.arguments.values())}
    return frozenset(found)


def _lowered(scope: LoweringScope, call_texts: Mapping[str, str] | None) -> LoweredTensor | tuple[LoweredTensor | None, ...]:
    """By the family that understands it; where that family refuses, left to torch if it can be."""
    operator = scope.node.operator
    before, buffers = len(scope.statements), dict(scope.buffers)
    first: Refusal | None = None
    for family in () if _is_complex(scope) or _is_empty(scope) else (*FAMILIES, calls):
        if operator not in family.OPERATORS:
            continue
        try:
            scope.looked_at.clear()
            made: LoweredTensor | tuple[LoweredTensor | None, ...] = family.lower(scope)
            if isinstance(made, tuple) and _wants_more(scope, made):
                raise scope.refuse("an output of a normalisation or pooling other than its first")
            if ignored := scope.node.chosen - scope.looked_at - TOLD:
                raise scope.refuse(f"with {', '.join(sorted(ignored))}")
            return made
        except Refusal as refusal:
            first = first or refusal
            del scope.statements[before:]
            scope.buffers = dict(buffers)
    by_library = library_functions.lower(scope, call_texts) if call_texts is not None else None
    if by_library is not None:
        return by_library
    scope.unwritten |= {operator} if first is not None else set()
    try:
        return calls.left_to_torch(scope)
    except Refusal as refusal:
        raise first or refusal from None


def _wants_more(scope: LoweringScope, made: tuple[LoweredTensor | None, ...]) -> bool:
    """Whether the module uses an output that was not made."""
    name = scope.node.name
    taken = [
        node.arguments["index"]
        for node in scope.graph.nodes
        if node.operator == "getitem" and node.arguments["self"].name == name
    ]
    return any(made[place] is None for place in taken)


def _is_complex(scope: LoweringScope) -> bool:
    """Complex numbers are torch's alone."""
    values = [scope.values.get(ref.name) for ref in refs(scope.node.arguments.values())]
    kinds = [value.dtype for value in values if isinstance(value, LoweredTensor)]
    return any("complex" in kind for kind in (*kinds, *(spec.dtype for spec in scope.node.outputs if spec)))


def _is_empty(scope: LoweringScope) -> bool:
    """Without elements there is nothing to compute, and a kernel would write past its result. A `cat` leaves such pieces out."""
    values = [scope.values.get(ref.name) for ref in refs(scope.node.arguments.values())]
    read = [value.shape for value in values if isinstance(value, LoweredTensor)] if scope.node.operator != "cat" else []
    made = [spec.shape for spec in scope.node.outputs if spec]
    return any(0 in shape for shape in read) or (bool(made) and all(0 in shape for shape in made))


def _bind(scope: LoweringScope, name: str, text: str, spec: Spec, kind: Any) -> None:
    axes = tuple(f"{text}.shape[{axis}]" for axis in range(len(spec.shape)))
    turned = () if View("", spec.shape, spec.strides).contiguous or not _is_dense(spec) else spec.strides
    scope.buffers[text] = buffer = Buffer(text, spec.shape, spec.dtype, kind, axes, turned)
    scope.values[name] = LoweredTensor(buffer.whole(), spec.dtype)


def _layouts(scope: LoweringScope, graph: Graph) -> dict[str, Shape]:
    returned = {value.name for value in tree_leaves(graph.returned) if isinstance(value, Ref)}
    found: dict[str, Shape] = {}
    for node in graph.nodes:
        value, spec = scope.values[node.name], node.outputs[0] if len(node.outputs) == 1 else None
        if node.name not in returned or not isinstance(value, LoweredTensor) or spec is None:
            continue
        buffer = scope.buffers[value.view.buffer]
        turned = not View("", spec.shape, spec.strides).contiguous and _is_dense(spec)
        if turned and buffer.kind == "result" and value.view.text == buffer.name and value.view.shape == buffer.shape:
            found[buffer.name] = spec.strides
    return found


def _is_dense(spec: Spec) -> bool:
    """Whether its elements lie side by side, in whatever order. The judge and a caller hand over other tensors as dense ones."""
    order = sorted(range(len(spec.shape)), key=lambda axis: (-spec.strides[axis], -spec.shape[axis]))
    shape = tuple(spec.shape[axis] for axis in order)
    return View("", shape, tuple(spec.strides[axis] for axis in order)).contiguous


def _keep_copies(scope: LoweringScope, graph: Graph) -> None:
    """A clone that is returned beside what it was made of, or of an input, has memory of its own; elsewhere it is what it was made of."""
    names = [value.name for value in tree_leaves(graph.returned) if isinstance(value, Ref)]
    held = Counter(scope.tensor(Ref(name)).view.buffer for name in dict.fromkeys(names))
    for node in graph.nodes:
        if node.operator != "clone" or node.name not in names:
            continue
        tensor = scope.tensor(Ref(node.name))
        buffer = scope.buffers.get(tensor.view.buffer)
        if held[tensor.view.buffer] > 1 or (buffer is not None and buffer.kind != "result"):
            scope.values[node.name] = scope.copied(tensor)


def _returned(scope: LoweringScope, value: Any, over: Collection[str]) -> Any:
    """`over` are the inputs that are overwritten: what they held before is copied."""
    if isinstance(value, Ref):
        tensor = scope.tensor(value)
        if tensor.view.buffer in over:
            return scope.copied(tensor).view
        if tensor.view.buffer in scope.buffers and scope.buffers[tensor.view.buffer].kind != "result":
            tensor = scope.dense(tensor) if not tensor.view.contiguous else tensor
        return tensor.view
    if isinstance(value, tuple | list):
        return type(value)(_returned(scope, item, over) for item in value)
    if isinstance(value, dict):
        return {key: _returned(scope, item, over) for key, item in value.items()}
    return value
