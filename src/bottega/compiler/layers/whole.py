"""A whole file out of the task's own text: imports, our layers, then the network as it was, and where wanted one CUDA graph around it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence

from bottega.compiler.layers.convolution import CONVOLUTION
from bottega.compiler.layers.linear import LINEAR
from bottega.compiler.layers.normalisation import BATCH_NORM, GROUP_NORM
from bottega.compiler.layers.observe import Observed
from bottega.compiler.layers.pattern import names_of, worded
from bottega.compiler.layers.rewrite import Network, rewritten
from bottega.compiler.layers.tiles import TILES
from bottega.compiler.module_frame import MODEL, NEW, sorted_imports
from bottega.compiler.networks import graph_methods
from bottega.compiler.steps import Refusal
from bottega.compiler.style import Style

PATTERNS = (CONVOLUTION, LINEAR, BATCH_NORM, GROUP_NORM)
KINDS = tuple(kind for pattern in PATTERNS for kind in pattern.classes)
RUN = ("run", "compute", "body")


def written(network: Network, kinds: Sequence[str], observed: Observed, style: Style, graph: bool) -> str:
    """The candidate's source, with layers of these kinds ours."""
    names = names_of(kinds, network.names, style)
    if style.plain:
        shelved = all(name == kind for kind, name in names.items())  # completion adds them
        return _file(network, "" if shelved else prelude_of(kinds, names, style), _swapped(network, names, observed, graph))
    comments = style.chance("task comments", 0.5)
    if graph:
        run = style.pick("run", RUN)
        capture, forward = graph_methods(run, observed.inputs, observed.returns)
        methods = (capture, f"def forward(self, {', '.join(observed.inputs)}):\n    " + "\n    ".join(forward))
        body = rewritten(network, names, comments, methods, run)
    else:
        body = rewritten(network, names, comments)
    return _file(network, prelude_of(kinds, names, style), body)


def _file(network: Network, prelude: str, body: str) -> str:
    defined = set(re.findall(r"^(?:def|class) (\w+)", prelude, re.MULTILINE)) | ({"tl", "triton"} if prelude else set())
    if defined & network.names:
        raise Refusal(f"{network.label}: the task has a {', '.join(sorted(defined & network.names))} of its own")
    imports = {ast.unparse(statement) for statement in network.imports} | {"import torch"}
    if prelude:
        imports |= {"import triton", "import triton.language as tl"}
    if "nn." in prelude + body:
        imports |= {"from torch import nn"}
    return "\n\n\n".join(part for part in (sorted_imports(imports), prelude, body) if part) + "\n"


def _swapped(network: Network, names: Mapping[str, str], observed: Observed, graph: bool) -> str:
    """The network to the letter, and a `ModelNew` that is one, with its layers turned into ours once it is built."""
    lines = ["def __init__(self, *args, **kwargs):", "    super().__init__(*args, **kwargs)"]
    lines += [f"    {line}" for line in swaps(names)]
    methods = ["\n".join(lines)]
    if graph:
        given = ", ".join(observed.inputs)
        capture, forward = graph_methods(RUN[0], observed.inputs, observed.returns)
        methods[0] += "\n    self.graph = None"
        methods += [f"def {RUN[0]}(self, {given}):\n    return super().forward({given})", capture]
        methods += [f"def forward(self, {given}):\n    " + "\n    ".join(forward)]
    inside = "\n\n".join(textwrap.indent(method, "    ") for method in methods)
    kept = "\n\n\n".join(ast.unparse(statement) for statement in network.kept)
    return f"{kept}\n\n\nclass {NEW}({MODEL}):\n{inside}"


def swaps(names: Mapping[str, str]) -> list[str]:
    """Lines at the end of a constructor that turn its layers into ours."""
    lines = ["for layer in self.modules():"] if names else []
    for number, (kind, name) in enumerate(names.items()):
        lines += [f"    {'elif' if number else 'if'} type(layer) is nn.{kind}:", f"        layer.__class__ = {name}"]
    return lines


def prelude_of(kinds: Sequence[str], names: Mapping[str, str], style: Style) -> str:
    """Kernels and classes for layers of these kinds, each kernel once."""
    texts = [TILES] if any(kind in pattern.classes for pattern in (CONVOLUTION, LINEAR) for kind in kinds) else []
    for pattern in PATTERNS:
        own = [pattern.classes[kind] for kind in pattern.classes if kind in kinds]
        texts += [pattern.kernel, *own] if own else []
    return "\n\n\n".join(worded(text, style, names) for text in texts)
