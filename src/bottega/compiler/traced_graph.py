"""An exported program as the graph that is lowered: operators by name, arguments by the schema's names, tensors as references.

What torch.export lifts out of a module (parameters, buffers, numbers, tensors that the constructor made) is found again where
the module keeps it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import torch
from torch import nn
from torch.export.graph_signature import OutputKind

from bottega.compiler.build_step import Refusal
from bottega.compiler.call_names import self_text
from bottega.core.arguments import Arguments

_COPIES = frozenset(("clone", "lift_fresh_copy", "detach", "alias"))
WHOLE = "whole_module"
"""What a module that cannot be traced by itself is called in the one around it."""
LARGEST_LITERAL = 256
"""Elements of a tensor that is written down as numbers."""


@dataclass(frozen=True)
class Ref:
    """The result of a node, an input or a parameter, by the graph's name for it."""

    name: str


@dataclass(frozen=True)
class Spec:
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]


@dataclass(frozen=True)
class TraceNode:
    name: str
    operator: str
    """Without name space: `conv2d`, `add`, `softmax`."""
    arguments: dict[str, Any]
    """By the schema's names, defaults filled in; tensors are `Ref`."""
    outputs: tuple[Spec | None, ...]
    """One, or several for operators that return tuples."""
    module: str = ""
    """Where in the module it was called: `blocks.0.norm`."""
    target: str = ""
    """The overload, as it can be called: `aten.index_put.default`."""
    keywords: frozenset[str] = frozenset()
    """Arguments that it takes by name alone."""
    draws: bool = False
    """Whether it draws random numbers."""
    chosen: frozenset[str] = frozenset()
    """Arguments that are no tensors and do not have the schema's default."""


@dataclass(frozen=True)
class Graph:
    inputs: tuple[tuple[str, Spec], ...]
    """Tensor arguments of `forward`, in order, by their names there."""
    parameters: dict[str, tuple[str, Spec]]
    """Parameters and buffers by the graph's name: where the module keeps them, and what they are."""
    nodes: tuple[TraceNode, ...]
    returned: Any
    """Nested tuples, lists and dicts of `Ref` and plain values."""
    changed: tuple[tuple[str, Ref], ...] = ()
    """Inputs that `forward` changes in place, each with what it holds in the end."""
    numbers: dict[str, float] = field(default_factory=dict)
    """Tensors of one element that forward makes from a number, by the graph's name."""
    unpacked: tuple[str, ...] = ()
    """Assignments that take tensors out of arguments of `forward` which hold several: `batch_mask = batch['mask']`."""
    kept: tuple[str, ...] = ()
    """Lines for the constructor: tensors that are neither parameters nor buffers, as buffers, so that they move with the module."""
    evaluated: bool = False
    """Whether it is the module in evaluation mode, since it draws random numbers as it is built."""


def _number(value: torch.Tensor) -> Any:
    """As somebody would have written it: 0.6, and not what is nearest to it in 32 bits."""
    found = value.item()
    return float(str(numpy.float32(found))) if value.dtype == torch.float32 else found


def graph_of(exported: Any, model: nn.Module, given: Arguments) -> Graph:
    signature = exported.graph_signature
    kept = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    kept = {name: key.removeprefix(f"{WHOLE}.") for name, key in kept.items()}
    constants = {name: exported.constants[key] for name, key in signature.inputs_to_lifted_tensor_constants.items()}
    attributes = {name: key for name, key in signature.inputs_to_lifted_tensor_constants.items() if has_tensor(model, key)}
    numbers = {name: _number(value) for name, value in constants.items() if value.ndim == 0 and name not in attributes}
    empty = {name for name, value in constants.items() if not value.numel()}
    parameters: dict[str, tuple[str, Spec]] = {}
    held: list[str] = []
    found: list[tuple[str, Spec]] = []
    nodes: list[TraceNode] = []
    returned: list[Any] = []
    mutated: dict[str, Any] = {}
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            if node.name in kept:
                parameters[node.name] = (self_text(kept[node.name]), _spec_of(node.meta["val"]))
            elif node.name in constants:
                if node.name not in numbers and node.name not in empty and node.users:
                    buffer = f"constant_{len(held)}"
                    value = (
                        self_text(attributes[node.name].removeprefix(f"{WHOLE}."))
                        if node.name in attributes
                        else _literal(constants[node.name])
                    )
                    held.append(f"self.register_buffer({buffer!r}, {value}, persistent=False)")
                    parameters[node.name] = (f"self.{buffer}", _spec_of(node.meta["val"]))
            elif isinstance(node.meta.get("val"), torch.Tensor):
                found.append((node.name, _spec_of(node.meta["val"])))
        elif node.op == "call_function":
            made = _without_empty(_node(node), empty)
            source = made.arguments.get("self")
            if made.operator in _COPIES and isinstance(source, Ref) and source.name in numbers:
                numbers[made.name] = numbers[source.name]
            elif made.operator in _COPIES and isinstance(source, Ref) and source.name in empty:
                empty.add(made.name)
            else:
                nodes.append(made)
        elif node.op == "output":
            ended = list(zip(_plain(node.args[0]), signature.output_specs))
            returned = [value for value, spec in ended if spec.kind is OutputKind.USER_OUTPUT]
            mutated = {spec.target: value for value, spec in ended if spec.kind is OutputKind.USER_INPUT_MUTATION}
    places = _places(model, given)
    if len(found) != len(places):
        raise Refusal("takes a tensor in several places, or one in an object that is no list or dictionary")
    spoken = list(places)
    names = dict(zip((name for name, _ in found), spoken))
    nodes, ended_with = _respoken(nodes, [*returned, *mutated.values()], names)
    returned, last = ended_with[: len(returned)], ended_with[len(returned) :]
    return Graph(
        inputs=tuple((name, spec) for name, (_, spec) in zip(spoken, found)),
        parameters=parameters,
        nodes=_alive(nodes, ended_with),
        returned=_containers(torch.utils._pytree.tree_unflatten(returned, exported.call_spec.out_spec)),
        changed=tuple((names[name], value) for name, value in zip(mutated, last)),
        numbers=numbers,
        unpacked=tuple(f"{name} = {place}" for name, place in places.items() if name != place),
        kept=tuple(held),
    )


def has_tensor(model: nn.Module, key: str) -> bool:
    """Whether this is a tensor that the constructor made."""
    try:
        return isinstance(attribute_of(model, key), torch.Tensor)
    except AttributeError:
        return False


def attribute_of(model: nn.Module, key: str) -> Any:
    return functools.reduce(getattr, key.split("."), model)


def _literal(value: torch.Tensor) -> str:
    if value.numel() > LARGEST_LITERAL:
        raise Refusal("makes a large tensor from numbers in forward")
    numbers = [_number(each) for each in value.flatten()] if value.dtype == torch.float32 else value.flatten().tolist()
    flat = ", ".join(
        f"float('{each}')" if isinstance(each, float) and not math.isfinite(each) else repr(each) for each in numbers
    )
    made = f"torch.tensor([{flat}], dtype={value.dtype})"
    return made if value.ndim == 1 else f"{made}.reshape({', '.join(map(str, value.shape))})"


def _without_empty(node: TraceNode, empty: Collection[str]) -> TraceNode:
    """A cache that is empty yet is joined to what comes; one tensor joined to nothing is itself."""
    if node.operator != "cat":
        return node
    pieces = tuple(piece for piece in node.arguments["tensors"] if piece.name not in empty)
    if len(pieces) == 1:
        return replace(node, operator="clone", arguments={"self": pieces[0]}, target="aten.clone.default", chosen=frozenset())
    return replace(node, arguments={**node.arguments, "tensors": pieces})


def _containers(value: Any) -> Any:
    """Of plain containers alone: judge and delivery take a tuple for a named one, and a dictionary for an object with fields."""
    if isinstance(value, Ref):
        return value
    if isinstance(value, dict):
        return {key: _containers(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return (list if isinstance(value, list) else tuple)(_containers(item) for item in value)
    if dataclasses.is_dataclass(value):
        return {field.name: _containers(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def _places(model: nn.Module, given: Arguments) -> dict[str, str]:
    """The tensors of a call in the order of the tracer's inputs: a name for each, and where `forward` finds it."""
    bound = inspect.signature(model.forward).bind(*given.positional, **given.keywords).arguments
    kinds = inspect.signature(model.forward).parameters
    named: dict[str, Any] = {}
    for name, value in bound.items():
        if kinds[name].kind is inspect.Parameter.VAR_KEYWORD:
            named |= {f"{name}[{key!r}]": item for key, item in value.items()}
        else:
            named[name] = value
    found: dict[str, str] = {}
    for argument, value in named.items():
        for path, leaf in torch.utils._pytree.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, torch.Tensor):
                place = argument + torch.utils._pytree.keystr(path)
                name = "_".join(re.findall(r"\w+", place))
                free = name not in found and (name == place or name not in bound)
                found[name if free else f"{name}_{len(found)}"] = place
    return found


def _node(node: Any) -> TraceNode:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module = str(stack[-1][0]).removeprefix(WHOLE).removeprefix(".") if stack else ""
    if node.target.__name__ == "getitem":
        arguments = {"self": _plain(node.args[0]), "index": node.args[1]}
        return TraceNode(node.name, "getitem", arguments, (_spec(node.meta["val"]),), module)
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        raise Refusal(f"uses {node.target}, which is no torch operator")
    arguments, chosen = {}, set[str]()
    for position, argument in enumerate(schema.arguments):
        if position < len(node.args):
            value = node.args[position]
        elif argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        else:
            value = argument.default_value
        arguments[argument.name] = _plain(value)
        if not refs((arguments[argument.name],)) and value is not None and value != argument.default_value:
            chosen.add(argument.name)
    values = node.meta.get("val")
    operator = operator_name(node.target)
    outputs = tuple(_spec(v, operator) for v in values) if isinstance(values, tuple | list) else (_spec(values, operator),)
    keywords = frozenset(argument.name for argument in schema.arguments if argument.kwarg_only)
    draws = torch.Tag.nondeterministic_seeded in node.target.tags
    return TraceNode(node.name, operator, arguments, outputs, module, str(node.target), keywords, draws, frozenset(chosen))


def _respoken(nodes: list[TraceNode], returned: list[Any], names: dict[str, str]) -> tuple[list[TraceNode], list[Any]]:
    """Inputs by the names that `forward` gives them: the tracer writes all names small, and adds numbers to some."""
    taken = set(names.values())
    swap = {**{node.name: f"{node.name}_" for node in nodes if node.name in taken}, **names}

    def new(value: Any) -> Any:
        if isinstance(value, Ref):
            return Ref(swap.get(value.name, value.name))
        return tuple(new(item) for item in value) if isinstance(value, tuple) else value

    fresh = [
        replace(node, name=swap.get(node.name, node.name), arguments={k: new(v) for k, v in node.arguments.items()})
        for node in nodes
    ]
    return fresh, [new(value) for value in returned]


def _alive(nodes: list[TraceNode], returned: list[Any]) -> tuple[TraceNode, ...]:
    """Without what only updates running statistics: outputs do not depend on it."""
    wanted = {ref.name for ref in returned if isinstance(ref, Ref)}
    alive: list[TraceNode] = []
    for node in reversed(nodes):
        if node.name in wanted:
            alive.append(node)
            wanted |= {ref.name for ref in refs(node.arguments.values())}
    return tuple(reversed(alive))


def refs(values: Any) -> list[Ref]:
    """Every `Ref` in nested arguments."""
    found: list[Ref] = []
    for value in values:
        if isinstance(value, Ref):
            found.append(value)
        elif isinstance(value, tuple):
            found += refs(value)
    return found


def operator_name(target: Any) -> str:
    schema = getattr(target, "_schema", None)
    return str(schema.name).split("::")[-1] if schema is not None else "getitem"


def _plain(value: Any) -> Any:
    if isinstance(value, torch.fx.Node):
        return Ref(value.name)
    if isinstance(value, list | tuple):
        return tuple(_plain(item) for item in value)
    return value


def _spec(value: Any, operator: str = "") -> Spec | None:
    return _spec_of(value, operator) if isinstance(value, torch.Tensor) else None


def _spec_of(value: torch.Tensor, operator: str = "") -> Spec:
    if not all(isinstance(size, int) for size in value.shape):
        raise Refusal(f"{operator or 'it'}: the size of its result depends on the values of its inputs")
    shape = tuple(int(size) for size in value.shape)
    return Spec(shape, str(value.dtype).removeprefix("torch."), tuple(int(stride) for stride in value.stride()))
