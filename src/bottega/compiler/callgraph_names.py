"""Results under the names that the task's sketch gives them, so that a reader of the sketch finds every variable of a kernel there."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bottega.compiler.callgraph import sketch_of
from bottega.compiler.callgraph_text import Call, Shape, Sketch, read_sketch
from bottega.compiler.plan import Cuts
from bottega.compiler.trace import Graph, Node, Ref

_CUTTING = frozenset(("split", "chunk", "index", "getitem", "narrow", "tensor_split", "slice", "select"))
SPLITTING = frozenset(("split", "chunk", "unbind", "tensor_split", "split_with_sizes", "unsafe_split", "unsafe_chunk"))
"""They make several results, which the tracer takes one by one."""
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
"""A sketch's word for an operator, and what the tracer calls it, where that is another."""
WRITTEN_OUT = {
    "softsign": ("abs", "add", "div"), "tanhshrink": ("tanh", "sub"), "softmin": ("neg", "softmax"),
    "normalize": ("linalg_vector_norm", "clamp_min", "expand_as", "div"), "pairwise_distance": ("sub", "add", "norm"),
    "glu": ("slice", "slice", "sigmoid", "mul"),
    "triplet_margin_loss": ("sub", "add", "norm", "sub", "add", "norm", "add", "sub", "clamp_min", "mean"),
    "local_response_norm": ("view", "mul", "view", "pad", "avg_pool3d", "squeeze", "view", "mul", "add", "pow", "div"),
}  # fmt: skip
"""Operators that torch writes in terms of others, and these, in order."""


@functools.lru_cache(16)
def sketch_lines(source: str) -> list[str]:
    """Nothing where the task has no sketch. Asked for several times of every task that is taught."""
    try:
        return sketch_of(source).splitlines()
    except Exception:  # there is none, or the task's own code does not run on a sketch's tensors
        return []


def told(lines: list[str]) -> dict[str, str]:
    """The calls of a sketch by the names of their results."""
    return {call.names[0]: call.text for call in _read(lines).calls if len(call.names) == 1}


def cuts(lines: list[str]) -> Cuts:
    """The calls that take parts of a tensor."""
    return tuple((call.names, call.text, call.size) for call in _read(lines).calls if call.operator in _CUTTING and call.size)


def sketched(graph: Graph, lines: list[str]) -> dict[str, str]:
    """By the tracer's name, the sketch's; what the sketch does not name is left out."""
    sketch = _read(lines)
    parts = _parts(graph)
    found = _split(parts, sketch)
    calls = [call for call in sketch.calls if call.operator not in SPLITTING]
    nodes = [node for node in graph.nodes if node.name not in parts]
    place, number = 0, 0
    gap: list[Node] = []
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
    if sketch.returned in sketch.by_name() and last is not None and last.operator != "getitem" and last.name not in found:
        found = {name: word for name, word in found.items() if word != sketch.returned}
        found[last.name] = sketch.returned
    return found


def _parts(graph: Graph) -> dict[str, tuple[str, int]]:
    """What splits tensors, and the parts that are taken of it: by name, whose part it is and which, or -1 for the whole."""
    parts = {node.name: (node.name, -1) for node in graph.nodes if node.operator in SPLITTING}
    for node in graph.nodes:
        whole = node.arguments.get("self")
        if node.operator == "getitem" and isinstance(whole, Ref) and whole.name in parts:
            parts[node.name] = (whole.name, node.arguments["index"])
    return parts


def _split(parts: dict[str, tuple[str, int]], sketch: Sketch) -> dict[str, str]:
    """The names of parts, where the sketch splits as often as the tracer does."""
    calls = [call for call in sketch.calls if call.operator in SPLITTING]
    wholes = [name for name, (_, index) in parts.items() if index == -1]
    if len(calls) != len(wholes):
        return {}
    names = {whole: call.names for whole, call in zip(wholes, calls, strict=True)}
    return {name: names[whole][index] for name, (whole, index) in parts.items() if 0 <= index < len(names[whole])}


def _read(lines: list[str]) -> Sketch:
    return read_sketch("\n".join(lines))


def _pieces(call: Call, nodes: Sequence[Node]) -> int:
    """How many nodes are this call, where it is one that torch itself writes in terms of others; they have names of their own, which other calls
    of the sketch may have too."""
    pieces = WRITTEN_OUT.get(call.operator, ())
    same = tuple(node.operator for node in nodes[: len(pieces)]) == pieces
    return len(pieces) if same and _same_shape(call, nodes[len(pieces) - 1]) else 0


def _decomposed(calls: Sequence[Call], nodes: list[Node]) -> dict[str, str]:
    """Operators that the tracer took apart are what the last of their pieces make."""
    found: dict[str, str] = {}
    left = [node for node in nodes if not node.operator.startswith("expand")]
    for call in reversed(calls):
        place = max((n for n, node in enumerate(left) if _same_shape(call, node)), default=-1)
        if place >= 0:
            found[left[place].name] = call.names[0]
            left = left[:place]
    return found


def _shape(node: Node) -> Shape | None:
    return node.outputs[0].shape if node.outputs and node.outputs[0] else None


def _same_shape(call: Call, node: Node) -> bool:
    """Whether both are known to be of one shape."""
    return call.size is not None and call.size == _shape(node)


def _same(call: Call, node: Node) -> bool:
    word = call.operator.strip("_")
    operator = node.operator.strip("_")
    if operator != word and operator not in {name.strip("_") for name in ALIKE.get(word, ())}:
        return False
    return None in (call.size, _shape(node)) or call.size == _shape(node)
