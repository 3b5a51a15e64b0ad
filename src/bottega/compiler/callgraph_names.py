"""Results under the names that the task's call graph gives them, so that a reader of the graph finds every variable of a kernel there."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bottega.compiler.callgraph import SPLITTING, Call, CallGraph, Shape
from bottega.compiler.callgraph_recorder import record
from bottega.compiler.plan import Cuts
from bottega.compiler.traced_graph import Graph, Ref, TraceNode

_CUTTING = frozenset(("split", "chunk", "index", "getitem", "narrow", "tensor_split", "slice", "select"))
ALIKE = {
    "getitem": ("select", "slice", "index", "squeeze"), "reshape": ("view",), "flatten": ("view", "reshape"), "t": ("transpose", "numpy_T"),
    "view": ("reshape",), "truediv": ("div",), "permute": ("transpose",), "true_divide": ("div",), "divide": ("div",),
    "batch_norm": ("_native_batch_norm_legit_functional", "_native_batch_norm_legit", "native_batch_norm"),
    "scaled_dot_product_attention": ("_scaled_dot_product_attention_math",),
    "mT": ("transpose", "numpy_T", "permute"), "T": ("transpose", "numpy_T", "permute", "t"), "swapaxes": ("transpose",),
    "max_pool1d": ("max_pool1d_with_indices", "max_pool2d_with_indices"), "max_pool2d": ("max_pool2d_with_indices",),
    "max_pool3d": ("max_pool3d_with_indices",), "softmax": ("_softmax",), "log_softmax": ("_log_softmax",),
    "group_norm": ("native_group_norm",), "layer_norm": ("native_layer_norm",),
    "pad": ("constant_pad_nd",), "interpolate": ("upsample_bilinear2d", "upsample_nearest2d"),
    "norm": ("linalg_vector_norm",), "linalg_norm": ("linalg_vector_norm",), "subtract": ("sub",), "multiply": ("mul",),
}  # fmt: skip
"""The call graph's word for an operator, and what the tracer calls it, where that is another."""
WRITTEN_OUT = {
    "softsign": ("abs", "add", "div"), "tanhshrink": ("tanh", "sub"), "softmin": ("neg", "softmax"),
    "normalize": ("linalg_vector_norm", "clamp_min", "expand_as", "div"), "pairwise_distance": ("sub", "add", "norm"),
    "glu": ("slice", "slice", "sigmoid", "mul"),
    "triplet_margin_loss": ("sub", "add", "norm", "sub", "add", "norm", "add", "sub", "clamp_min", "mean"),
    "local_response_norm": ("view", "mul", "view", "pad", "avg_pool3d", "squeeze", "view", "mul", "add", "pow", "div"),
}  # fmt: skip
"""Operators that torch writes in terms of others, and these, in order."""


@functools.lru_cache(16)
def recorded(source: str, evaluated: bool = False) -> CallGraph:
    """Empty where the task has none. Asked for several times of every task that is compiled."""
    try:
        return record(source, evaluated=evaluated)
    except Exception:  # there is none, or the task's own code does not run on fake tensors
        return CallGraph((), (), (), "")


def calls_by_result(callgraph: CallGraph) -> dict[str, str]:
    """The text of each call that has one result, by the name of the result."""
    return {call.names[0]: call.text for call in callgraph.calls if len(call.names) == 1}


def cuts(callgraph: CallGraph) -> Cuts:
    """The calls that take parts of a tensor."""
    return tuple((call.names, call.text, call.shape) for call in callgraph.calls if call.operator in _CUTTING and call.shape)


def result_names(graph: Graph, callgraph: CallGraph) -> dict[str, str]:
    """By the tracer's name, the call graph's; what the call graph does not name is left out."""
    parts = _parts(graph)
    found = _split(parts, callgraph)
    calls = [call for call in callgraph.calls if call.operator not in SPLITTING]
    nodes = [node for node in graph.nodes if node.name not in parts]
    place, number = 0, 0
    gap: list[TraceNode] = []
    while number < len(nodes):
        node = nodes[number]
        pieces = _pieces(calls[place], nodes[number:]) if place < len(calls) else 0
        if pieces:
            found |= _decomposed((), gap)
            found[nodes[number + pieces - 1].name] = calls[place].names[0]
            place, number, gap = place + 1, number + pieces, []
            continue
        number += 1
        later = next((at for at in range(place, len(calls)) if _same(calls[at], node)), None)
        if later is None:
            gap.append(node)
            continue
        found |= _decomposed(calls[place:later], gap)
        found[node.name] = calls[later].names[0]
        place, gap = later + 1, []
    found |= _decomposed(calls[place:], gap)
    last = next((node for node in graph.nodes if isinstance(graph.returned, Ref) and node.name == graph.returned.name), None)
    if callgraph.returned in callgraph.by_result and last is not None and last.operator != "getitem" and last.name not in found:
        found = {name: word for name, word in found.items() if word != callgraph.returned}
        found[last.name] = callgraph.returned
    return found


def _parts(graph: Graph) -> dict[str, tuple[str, int]]:
    """What splits tensors, and the parts that are taken of it: by name, whose part it is and which, or -1 for the whole."""
    parts = {node.name: (node.name, -1) for node in graph.nodes if node.operator in SPLITTING}
    for node in graph.nodes:
        whole = node.arguments.get("self")
        if node.operator == "getitem" and isinstance(whole, Ref) and whole.name in parts:
            parts[node.name] = (whole.name, node.arguments["index"])
    return parts


def _split(parts: dict[str, tuple[str, int]], callgraph: CallGraph) -> dict[str, str]:
    """The names of parts, where the call graph splits as often as the tracer does."""
    calls = [call for call in callgraph.calls if call.operator in SPLITTING]
    wholes = [name for name, (_, index) in parts.items() if index == -1]
    if len(calls) != len(wholes):
        return {}
    names = {whole: call.names for whole, call in zip(wholes, calls, strict=True)}
    return {name: names[whole][index] for name, (whole, index) in parts.items() if 0 <= index < len(names[whole])}


def _pieces(call: Call, nodes: Sequence[TraceNode]) -> int:
    """How many nodes are this call, where it is one that torch itself writes in terms of others; they have names of their own, which other calls
    of the graph may have too."""
    pieces = WRITTEN_OUT.get(call.operator, ())
    same = tuple(node.operator for node in nodes[: len(pieces)]) == pieces
    return len(pieces) if same and _same_shape(call, nodes[len(pieces) - 1]) else 0


def _decomposed(calls: Sequence[Call], nodes: list[TraceNode]) -> dict[str, str]:
    """Operators that the tracer took apart are what the last of their pieces make."""
    found: dict[str, str] = {}
    left = [node for node in nodes if not node.operator.startswith("expand")]
    for call in reversed(calls):
        place = max((n for n, node in enumerate(left) if _same_shape(call, node)), default=-1)
        if place >= 0:
            found[left[place].name] = call.names[0]
            left = left[:place]
    return found


def _shape(node: TraceNode) -> Shape | None:
    return node.outputs[0].shape if node.outputs and node.outputs[0] else None


def _same_shape(call: Call, node: TraceNode) -> bool:
    """Whether both are known to be of one shape."""
    return call.shape == _shape(node)


def _same(call: Call, node: TraceNode) -> bool:
    word = call.operator.strip("_")
    operator = node.operator.strip("_")
    if operator != word and operator not in {name.strip("_") for name in ALIKE.get(word, ())}:
        return False
    return _shape(node) in (None, call.shape)
