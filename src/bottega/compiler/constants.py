"""Tensors that `forward` makes of nothing but numbers, made once by the constructor: the mask of a shifted window, a table of positions.

Such a mask is a dozen writes into slices in every call. What kernels compute on the way, an `arange` or a comparison of two, stays where it is:
it costs less than to load it, and a causal mask is known by it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch

from bottega.compiler.traced_graph import Graph, Ref, TraceNode, refs
from bottega.compiler.view import contiguous_strides

LARGEST = 1 << 24
"""Elements that are kept."""


def with_constants_made_once(graph: Graph, inline: Collection[str]) -> Graph:
    """`inline` are the operators that kernels compute on the way: a constant of these alone is none to be kept."""
    literals = {name: text for name, (text, _) in graph.parameters.items() if _is_literal(text, graph.kept)}
    literals |= {name: f"torch.tensor({number!r})" for name, number in graph.numbers.items()}
    handed_over = {ref.name for ref in refs(_leaves((graph.returned, graph.changed)))}
    nodes, heavy = dict[str, TraceNode](), set[str]()
    for node in graph.nodes:
        used = [ref.name for ref in refs(node.arguments.values())]
        if node.draws or node.name in handed_over or any(name not in nodes and name not in literals for name in used):
            continue
        nodes[node.name] = node
        if node.operator not in inline or heavy.intersection(used):
            heavy.add(node.name)
    moving = [node for node in graph.nodes if node.name not in nodes]
    wanted, computed = set[str](), set[str]()
    pending = [ref.name for node in moving for ref in refs(node.arguments.values())]
    while pending:
        name = pending.pop()
        if name not in nodes or name in wanted or name in computed:
            continue
        if name in heavy and _is_kept(nodes[name]):
            wanted.add(name)
        else:
            computed.add(name)
            pending += [ref.name for ref in refs(nodes[name].arguments.values())]
    needed, lines = _cone(wanted, nodes), list[str]()
    parameters = dict(graph.parameters)
    for node in (node for node in graph.nodes if node.name in needed):
        lines.append(f"made_{node.name} = {_called(node, literals)}")
        if node.name in wanted:
            buffer, spec = f"made_{len(parameters)}", _spec(node)
            lines.append(f"self.register_buffer({buffer!r}, made_{node.name}.contiguous(), persistent=False)")
            parameters[node.name] = (f"self.{buffer}", replace(spec, strides=contiguous_strides(spec.shape)))
    kept = tuple(node for node in graph.nodes if node.name not in nodes or node.name in computed)
    return replace(graph, nodes=kept, parameters=parameters, kept=(*graph.kept, *lines))


def _is_kept(node: TraceNode) -> bool:
    return len(node.outputs) == 1 and _spec(node) is not None and math.prod(_spec(node).shape) <= LARGEST


def _spec(node: TraceNode) -> Any:
    return node.outputs[0]


def _is_literal(text: str, kept: Collection[str]) -> bool:
    """Whether the constructor makes it of numbers, and not of what the module keeps."""
    name = text.removeprefix("self.")
    return any(line.startswith(f"self.register_buffer({name!r}, torch.tensor(") for line in kept)


def _cone(names: Collection[str], nodes: dict[str, TraceNode]) -> set[str]:
    """What is needed for these among the nodes."""
    found, pending = set[str](), list(names)
    while pending:
        name = pending.pop()
        if name in nodes and name not in found:
            found.add(name)
            pending += [ref.name for ref in refs(nodes[name].arguments.values())]
    return found


def _called(node: TraceNode, literals: dict[str, str]) -> str:
    if node.operator == "getitem":
        return f"{_text(node.arguments['self'], literals)}[{node.arguments['index']}]"
    given = [(name, _text(value, literals)) for name, value in node.arguments.items()]
    arguments = [f"{name}={text}" if name in node.keywords else text for name, text in given]
    return f"torch.ops.{node.target}({', '.join(arguments)})"


def _text(value: Any, literals: dict[str, str]) -> str:
    if isinstance(value, Ref):
        return literals.get(value.name, f"made_{value.name}")
    if isinstance(value, tuple):
        return f"[{', '.join(_text(item, literals) for item in value)}]"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return str(value) if isinstance(value, torch.dtype | torch.memory_format | torch.layout) else repr(value)


def _leaves(value: Any) -> tuple[Any, ...]:
    """A nested result as nested tuples."""
    if isinstance(value, dict):
        return tuple(_leaves(item) for item in value.values())
    return tuple(_leaves(item) for item in value) if isinstance(value, tuple | list) else value
