"""A whole file out of the task's own text: the network as it was, and a `ModelNew` that is one, with its layers turned into the library's once
it is built, and where wanted one CUDA graph around it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Sequence

from bottega.compiler.layers.network import NetworkSource
from bottega.compiler.layers.observe import Observed
from bottega.compiler.module_frame import NEW, sorted_imports
from bottega.compiler.network_rule import graph_methods

RUN = "run"


def render_network(network: NetworkSource, kinds: Sequence[str], observed: Observed, graph: bool) -> str:
    """The candidate's source, with layers of these kinds ours. `link` inlines their classes."""
    body = _swapped(network, kinds, observed, graph)
    imports = {ast.unparse(statement) for statement in network.imports} | {"import torch"}
    if "nn." in body:
        imports |= {"from torch import nn"}
    return f"{sorted_imports(imports)}\n\n\n{body}\n"


def _swapped(network: NetworkSource, kinds: Sequence[str], observed: Observed, graph: bool) -> str:
    lines = ["def __init__(self, *args, **kwargs):", "    super().__init__(*args, **kwargs)"]
    lines += ["    for layer in self.modules():"] if kinds else []
    for number, kind in enumerate(kinds):
        lines += [f"        {'elif' if number else 'if'} type(layer) is nn.{kind}:", f"            layer.__class__ = {kind}"]
    methods = ["\n".join(lines)]
    if graph:
        given = ", ".join(observed.inputs)
        capture, forward = graph_methods(RUN, observed.inputs, observed.returns)
        methods[0] += "\n    self.graph = None"
        methods += [f"def {RUN}(self, {given}):\n    return super().forward({given})", capture]
        methods += [f"def forward(self, {given}):\n    " + "\n    ".join(forward)]
    inside = "\n\n".join(textwrap.indent(method, "    ") for method in methods)
    kept = "\n\n\n".join(ast.unparse(statement) for statement in network.kept)
    return f"{kept}\n\n\nclass {NEW}({network.model.name}):\n{inside}"
