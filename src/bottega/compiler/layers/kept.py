"""A module whose layers stay layers: `forward` calls them by name, ours stand in for torch's, and what follows them is fused.

The same kernels fit every layer, so nothing of a convolution's or a product's options has to be written down for each task.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from bottega.compiler.call_names import path_text
from bottega.compiler.layers.pattern import names_of
from bottega.compiler.layers.whole import KINDS, prelude_of, swaps
from bottega.compiler.module_frame import Frame
from bottega.compiler.product_rule import LEAST_SIDE, MULTIPLE
from bottega.compiler.source.statements import binds
from bottega.compiler.steps import Refusal
from bottega.compiler.style import Style
from bottega.compiler.technique import Technique
from bottega.compiler.trace import Graph, Node, Ref
from bottega.core.task import Task, parsed

KEPT = Technique(
    "kept_layers",
    "Convolutions or linear layers of the module, and something of ours behind them; the plain style.",
    "Keep the layers as layers, with one Triton kernel for every shape in them, and fuse what follows.",
    ("triton_implicit_gemm_conv", "triton_dot_precision", "library_product_one_tail_kernel"),
)
FUNCTIONS = {
    "conv1d": "Conv1d", "conv2d": "Conv2d", "conv3d": "Conv3d", "linear": "Linear",
    "conv_transpose1d": "ConvTranspose1d", "conv_transpose2d": "ConvTranspose2d", "conv_transpose3d": "ConvTranspose3d",
}  # fmt: skip
FEWEST_CHANNELS = 16
LARGEST = 2**31 - 1
_STRIDED = "ConvTranspose2d"
"""Whose result may be a piece of a larger tensor."""
_AGAIN = re.compile(r"@\d+$")
"""What the tracer hangs on the name of a layer that is called another time."""
_DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Layer:
    text: str
    """`self.conv`."""
    kind: str
    """The class of `torch.nn`."""
    ours: bool
    """Whether our kernel computes it."""


def layers_of(graph: Graph) -> tuple[Layer, ...]:
    """Layers that forward calls once or more, each time for one operator and nothing else. One whose weight is also used in another
    way, with other options or in another layer that shares it, is none of them."""
    found: dict[str, Layer] = {}
    other: set[str] = set()
    for node in graph.nodes:
        kind = FUNCTIONS.get(node.operator, "")
        weight = node.arguments.get("weight")
        text = graph.parameters.get(weight.name, ("", None))[0] if isinstance(weight, Ref) else ""
        layer = text.removesuffix(".weight")
        if not (kind and text.endswith(".weight") and graph.layers.get(layer) == kind):
            continue
        if f"self.{path_text(_AGAIN.sub('', node.module))}" != layer:
            other.add(layer)
        ours = _computes(node, kind, graph) and found.get(layer, Layer(layer, kind, True)).ours
        found[layer] = Layer(layer, kind, ours)
    return tuple(layer for layer in found.values() if layer.text not in other)


def _computes(node: Node, kind: str, graph: Graph) -> bool:
    """The conditions under which our layer does not leave a call to torch's."""
    weight, out = graph.parameters[node.arguments["weight"].name][1], node.outputs[0]
    if kind not in KINDS or out is None or weight.dtype != "float32" or math.prod(out.shape) > LARGEST:
        return False
    if kind == "Linear":
        columns, depth = weight.shape
        rows = math.prod(out.shape[:-1])
        return min(rows, columns, depth) >= LEAST_SIDE and columns % MULTIPLE == 0 and depth % MULTIPLE == 0
    if node.arguments.get("groups") != 1 or min(weight.shape[:2]) < FEWEST_CHANNELS or len(out.shape) != len(weight.shape):
        return False
    if isinstance(node.arguments.get("padding"), str):
        return False
    if kind == _STRIDED:
        stride, padding, dilation = (_both(node.arguments.get(name)) for name in ("stride", "padding", "dilation"))
        inside = all(p < k for p, k in zip(padding, weight.shape[2:]))
        return stride[0] == stride[1] and dilation == (1, 1) and inside
    return True


def _both(value: object) -> tuple[int, int]:
    given = value if isinstance(value, tuple) else (value,)
    return (int(given[0]), int(given[-1]))


@dataclass(frozen=True)
class KeptFrame(Frame):
    layers: tuple[Layer, ...] = ()
    style: Style = field(default_factory=Style)
    taken: frozenset[str] = frozenset()
    """Names of the task's file."""

    def render(
        self, imports: Iterable[str], prelude: str, forward: Sequence[str], extra: Sequence[str] = (), after: str = ""
    ) -> str:
        kinds = [kind for kind in KINDS if any(layer.ours and layer.kind == kind for layer in self.layers)]
        taken = self.taken.union(_DEFINED.findall(prelude))
        names = names_of(kinds, taken, self.style)
        ours = prelude_of(kinds, names, self.style)
        if twice := taken.intersection(_DEFINED.findall(ours)):
            raise Refusal(f"{', '.join(sorted(twice))} would be two things")
        lines = [_called(line, self.layers) for line in forward]
        used = {*imports, "from torch import nn"} if kinds else set(imports)
        return super().render(
            used, "\n\n\n".join(filter(None, (ours, prelude.strip("\n")))), lines, [*extra, *swaps(names)], after
        )


def kept(frame: Frame, layers: tuple[Layer, ...], style: Style, task: Task) -> Frame | None:
    """The frame that calls layers by name, where there are any."""
    if not layers:
        return None
    given = {each.name: getattr(frame, each.name) for each in fields(Frame)}
    return KeptFrame(**given, layers=layers, style=style, taken=_names(task))


def _names(task: Task) -> frozenset[str]:
    """Every name that the task's file uses or binds: a shortened answer is completed with pieces of it."""
    tree = parsed(task.source, task.label)
    found = {name for statement in tree.body for name in binds(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return frozenset(found)


def _called(line: str, layers: tuple[Layer, ...]) -> str:
    """`F.conv2d(x, self.conv.weight, …)` as `self.conv(x)`."""
    if "F." not in line:
        return line
    by_name = {layer.text: layer for layer in layers}
    edits: list[tuple[int, int, str]] = []
    for node in ast.walk(ast.parse(line)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "F"):
            continue
        kind = FUNCTIONS.get(node.func.attr, "")
        layer = by_name.get(ast.unparse(node.args[1]).removesuffix(".weight")) if kind and len(node.args) > 1 else None
        if layer is not None and layer.kind == kind and node.lineno == node.end_lineno == 1:
            text = f"{layer.text}({ast.unparse(node.args[0])})"
            text += ".contiguous()" if layer.ours and kind == _STRIDED else ""
            edits.append((node.col_offset, node.end_col_offset or 0, text))
    for start, end, text in sorted(edits, reverse=True):
        line = line[:start] + text + line[end:]
    return line
