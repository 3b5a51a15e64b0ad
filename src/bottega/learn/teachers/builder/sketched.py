"""Results under the names that the task's sketch gives them, so that a reader of the sketch finds every variable of a kernel there."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from bottega.judge.sketch import sketch_of
from bottega.learn.teachers.builder.plan import Cuts
from bottega.learn.teachers.builder.trace import Graph, Node, Ref

_LINE = re.compile(r"^(?P<names>t\d\w*(?:, t\d\w*)*) = (?P<text>(?P<operator>\w+)\(.*\))(?: (?P<shape>[\dx]+|scalar))?")
_CUTTING = frozenset(("split", "chunk", "index", "getitem", "narrow", "tensor_split", "slice", "select"))
_RETURNED = re.compile(r"^return (t\d\w*)$")
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
    return {match["names"]: match["text"] for line in lines if (match := _LINE.match(line)) and "," not in match["names"]}


def cuts(lines: list[str]) -> Cuts:
    """The calls that take parts of a tensor."""
    matches = [match for line in lines if (match := _LINE.match(line)) and match["operator"] in _CUTTING and match["shape"]]
    return tuple(
        (tuple(match["names"].split(", ")), match["text"], tuple(map(int, match["shape"].split("x"))))
        for match in matches
        if match["shape"] != "scalar"
    )


def sketched(graph: Graph, lines: list[str]) -> dict[str, str]:
    """By the tracer's name, the sketch's; what the sketch does not name is left out."""
    found: dict[str, str] = {}
    calls = [match for line in lines if (match := _LINE.match(line))]
    place, number, gap = 0, 0, []
    while number < len(graph.nodes):
        node = graph.nodes[number]
        pieces = _pieces(calls[place], graph.nodes[number:]) if place < len(calls) else 0
        if pieces:
            found |= _decomposed([], gap)
            found[graph.nodes[number + pieces - 1].name] = _first(calls[place])
            place, number, gap = place + 1, number + pieces, []
            continue
        number += 1
        later = next((at for at in range(place, len(calls)) if _same(calls[at], node)), None)
        if later is None:
            gap.append(node)
            continue
        found |= _decomposed(calls[place:later], gap)
        found[node.name] = _first(calls[later])
        place, gap = later + 1, []
    found |= _decomposed(calls[place:], gap)
    returned = _RETURNED.match(lines[-1]) if lines else None
    last = next((node for node in graph.nodes if isinstance(graph.returned, Ref) and node.name == graph.returned.name), None)
    if returned and last is not None and last.operator != "getitem" and last.name not in found:
        found = {name: word for name, word in found.items() if word != returned[1]}
        found[last.name] = returned[1]
    return found


def _pieces(call: re.Match[str], nodes: Sequence[Node]) -> int:
    """How many nodes are this call, where it is one that torch itself writes in terms of others; they have names of their own, which other calls
    of the sketch may have too."""
    pieces = WRITTEN_OUT.get(call["operator"], ())
    same = tuple(node.operator for node in nodes[: len(pieces)]) == pieces
    return len(pieces) if same and _shape(nodes[len(pieces) - 1]) == call["shape"] else 0


def _decomposed(calls: list[re.Match[str]], nodes: list[Node]) -> dict[str, str]:
    """Operators that the tracer took apart are what the last of their pieces make."""
    found: dict[str, str] = {}
    left = [node for node in nodes if not node.operator.startswith("expand")]
    for call in reversed(calls):
        place = max((n for n, node in enumerate(left) if call["shape"] and call["shape"] == _shape(node)), default=-1)
        if place >= 0:
            found[left[place].name] = _first(call)
            left = left[:place]
    return found


def _first(call: re.Match[str]) -> str:
    return call["names"].split(", ")[0]


def _shape(node: Node) -> str:
    shape = node.outputs[0].shape if node.outputs and node.outputs[0] else None
    return "" if shape is None else "x".join(map(str, shape)) or "scalar"


def _same(call: re.Match[str], node: Node) -> bool:
    word = call["operator"].strip("_")
    operator = node.operator.strip("_")
    if operator != word and operator not in {name.strip("_") for name in ALIKE.get(word, ())}:
        return False
    return not call["shape"] or not _shape(node) or call["shape"] == _shape(node)
