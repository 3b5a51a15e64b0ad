"""Results under the names that the task's sketch gives them, so that a reader of the sketch finds every variable of a kernel there."""

from __future__ import annotations

import re

from bottega.judge.sketch import sketch_of
from bottega.learn.teachers.builder.trace import Graph, Node, Ref

_LINE = re.compile(r"^(?P<names>t\d\w*(?:, t\d\w*)*) = (?P<operator>\w+)\(.*\)(?: (?P<shape>[\dx]+|scalar))?")
_RETURNED = re.compile(r"^return (t\d\w*)$")
ALIKE = {
    "getitem": ("select", "slice", "index", "squeeze"), "reshape": ("view",), "flatten": ("view", "reshape"), "t": ("transpose", "numpy_T"),
    "view": ("reshape",), "truediv": ("div",), "permute": ("transpose",), "true_divide": ("div",), "divide": ("div",),
    "batch_norm": ("_native_batch_norm_legit_functional", "_native_batch_norm_legit", "native_batch_norm"),
    "scaled_dot_product_attention": ("_scaled_dot_product_attention_math",),
    "norm": ("linalg_vector_norm",), "linalg_norm": ("linalg_vector_norm",), "subtract": ("sub",), "multiply": ("mul",),
}  # fmt: skip
"""A sketch's word for an operator, and what the tracer calls it, where that is another."""


def sketched(graph: Graph, source: str) -> dict[str, str]:
    """By the tracer's name, the sketch's. Nothing where the task has no sketch; what the sketch does not name is left out."""
    try:
        lines = sketch_of(source).splitlines()
    except Exception:  # there is none, or the task's own code does not run on a sketch's tensors
        return {}
    found: dict[str, str] = {}
    calls = [match for line in lines if (match := _LINE.match(line))]
    place = 0
    for node in graph.nodes:
        later = next((number for number in range(place, len(calls)) if _same(calls[number], node)), None)
        if later is not None:
            found[node.name] = calls[later]["names"]
            place = later + 1
    returned = _RETURNED.match(lines[-1]) if lines else None
    if returned and isinstance(graph.returned, Ref) and graph.returned.name not in found:
        found = {name: word for name, word in found.items() if word != returned[1]}
        found[graph.returned.name] = returned[1]
    return found


def _same(call: re.Match[str], node: Node) -> bool:
    if "," in call["names"]:
        return False
    word = call["operator"].strip("_")
    operator = node.operator.strip("_")
    if operator != word and operator not in {name.strip("_") for name in ALIKE.get(word, ())}:
        return False
    shape = node.outputs[0].shape if node.outputs and node.outputs[0] else None
    return call["shape"] is None or shape is None or call["shape"] == ("x".join(map(str, shape)) or "scalar")
