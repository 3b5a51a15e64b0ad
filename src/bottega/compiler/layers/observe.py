"""A network watched while it runs on tensors that hold nothing: which layers it calls with which shapes, and whether it may be captured.

A CUDA graph records launches, not Python. So a network may become one only where the same calls follow each other every time:
nothing is drawn, nothing is read back, nothing comes from the host, and nothing is remembered but running statistics.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from bottega.compiler.build_step import Refusal
from bottega.compiler.layers.network import NetworkSource
from bottega.compiler.layers.passes import KINDS
from bottega.compiler.module_frame import MODEL
from bottega.compiler.recurrent_shapes import one_step_each

FROM_HOST = frozenset(("zeros", "ones", "full", "arange", "eye", "empty", "linspace", "randn", "rand"))
"""Functions that make a tensor on the host unless they are given a device."""
HOST_ONLY = frozenset(("tensor", "as_tensor", "from_numpy", "cpu", "numpy", "tolist", "item", "cuda", "synchronize"))
HOLDS_UP = frozenset(("_linalg_check_errors", "nonzero", "masked_select", "_unique2", "bincount", "histc", "lift_fresh"))
"""Operators during which the host waits for the device, or sends it something."""
FREE = frozenset(("view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "slice", "select", "unsqueeze", "squeeze",
                  "split", "chunk", "unbind", "detach", "alias", "as_strided", "split_with_sizes", "unfold", "empty", "device",
                  "sym_size", "_reshape_alias", "diagonal", "unsafe_chunk", "unsafe_split", "lift_fresh"))  # fmt: skip
"""Operators that launch nothing."""


LARGEST = 2**31 - 1
"""Elements that the kernels' 32-bit places can tell apart."""
NORMS = ("BatchNorm2d", "GroupNorm")
NORM_WORK = 100
"""Multiplications that take as long as it takes to normalise one element."""


@dataclass(frozen=True)
class LayerCall:
    """One layer, called once."""

    kind: str
    shape: tuple[int, ...]
    """Of its input."""
    output: tuple[int, ...]
    weight: tuple[int, ...]
    groups: int
    dtype: str
    plain: bool
    """What our layers take up: padding with zeros alone, not given by name; a norm that trains, has weights and is not too small."""
    turnable: bool = False
    """A transposed convolution that is a convolution with turned weights."""

    @property
    def work(self) -> int:
        """Multiplications, or what takes as long."""
        if self.kind in NORMS:
            return NORM_WORK * math.prod(self.output)
        if self.kind.startswith("ConvTranspose"):
            return math.prod(self.shape) * math.prod(self.weight[1:])
        return math.prod(self.output) * math.prod(self.weight[1:])

    @property
    def largest(self) -> int:
        return max(math.prod(self.shape), math.prod(self.output))


@dataclass(frozen=True)
class Observed:
    calls: tuple[LayerCall, ...]
    launches: int
    returns: str
    """`tensor`, `tuple`, `list`, or `other`."""
    inputs: tuple[str, ...]
    """Arguments of `forward` that are given, where all of them are tensors; else empty."""
    obstacle: str
    """Why it cannot be captured; empty where it can."""


@dataclass
class _Watch(TorchDispatchMode):
    kept: frozenset[int] = frozenset()
    """Storages of parameters and buffers."""
    seen: Counter[str] = field(default_factory=Counter)
    obstacle: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def __hash__(self) -> int:
        return id(self)

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        keywords = keywords or {}
        name = function._schema.name.split("::")[-1]
        self.seen[name] += 1
        if torch.Tag.nondeterministic_seeded in function.tags and not _idle(function, arguments, keywords):
            self.obstacle = f"{name} draws random numbers"
        if name in HOLDS_UP:
            self.obstacle = f"{name} holds the host up"
        for argument, value in zip(function._schema.arguments, arguments):
            written = argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, torch.Tensor)
            if (
                written
                and value.untyped_storage()._cdata in self.kept
                and "batch_norm" not in name
                and value.dtype != torch.int64
            ):
                self.obstacle = f"{name} changes what the module keeps"
        return function(*arguments, **keywords)


def _idle(function: Any, arguments: Any, keywords: Any) -> bool:
    """A dropout that drops nothing."""
    schema = function._schema.arguments
    given = {argument.name: argument.default_value for argument in schema}
    given |= {**dict(zip(given, arguments)), **keywords}
    return given.get("p", given.get("dropout_p", given.get("dropout"))) == 0.0


def observe(network: NetworkSource) -> Observed:
    """Run it on tensors without contents, with its layers exchanged for ones that tell of their calls."""
    calls: list[LayerCall] = []
    namespace: dict[str, Any] = {"__name__": "task"}
    try:
        with warnings.catch_warnings(), FakeTensorMode(), one_step_each(), torch.no_grad():
            warnings.simplefilter("ignore")
            exec(compile(network.source, network.label, "exec"), namespace)
            given = namespace["get_init_inputs"]()
            model = namespace[MODEL](**given) if isinstance(given, dict) else namespace[MODEL](*given)
            recording = {getattr(nn, kind): _recording(kind, calls) for kind in KINDS}
            for layer in model.modules():
                layer.__class__ = recording.get(type(layer), type(layer))
            inputs = list(namespace["get_inputs"]())
            kept = [*model.parameters(), *model.buffers()]
            watch = _Watch(frozenset(value.untyped_storage()._cdata for value in kept))
            with watch:
                result = model(*inputs)
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        raise Refusal(f"{network.label}: cannot be watched: {type(error).__name__}: {first[:200]}") from None
    arguments = [argument.arg for argument in network.forward.args.args[1:]]
    tensors = all(isinstance(value, torch.Tensor) for value in inputs) and len(inputs) <= len(arguments) and bool(inputs)
    form = "tensor" if isinstance(result, torch.Tensor) else "other"
    if isinstance(result, tuple | list) and result and all(isinstance(value, torch.Tensor) for value in result):
        form = type(result).__name__
    obstacle = watch.obstacle or host_obstacle(network)
    obstacle = obstacle or ("" if tensors else "takes more than tensors")
    obstacle = obstacle or ("returns more than tensors" if form not in ("tensor", "tuple", "list") else "")
    launches = sum(count for name, count in watch.seen.items() if name not in FREE)
    return Observed(tuple(calls), launches, form, tuple(arguments[: len(inputs)]) if tensors else (), obstacle)


def has_kernel(call: LayerCall) -> bool:
    """Whether a kernel of ours computes this call; others the layer leaves to the library."""
    if call.dtype != "float32" or call.largest > LARGEST:
        return False
    if call.kind == "Linear":
        return math.prod(call.shape[:-1]) >= 32 and min(call.weight) >= 32
    if call.kind in NORMS:
        return call.plain
    if call.groups != 1 or not call.plain or len(call.shape) != len(call.weight):
        return False
    if call.kind == "ConvTranspose2d" and not call.turnable:
        return False
    return min(call.weight[:2]) >= 16


def _recording(kind: str, calls: list[LayerCall]) -> type:
    base = getattr(nn, kind)

    def forward(self: Any, x: torch.Tensor, *rest: Any) -> Any:
        result = base.forward(self, x, *rest)
        padding = getattr(self, "padding", ())
        plain = getattr(self, "padding_mode", "zeros") == "zeros" and not isinstance(padding, str) and not rest
        if kind == "BatchNorm2d":
            plain = (
                self.training and self.affine and self.track_running_stats and self.momentum is not None and x.shape[0] <= 1024
            )
        elif kind == "GroupNorm":
            plain = self.affine and x.dim() >= 3 and x.shape[0] * self.num_groups >= 64
        weight = getattr(self, "weight", None)
        calls.append(
            LayerCall(
                kind,
                tuple(x.shape),
                tuple(result.shape),
                tuple(weight.shape) if weight is not None else (),
                getattr(self, "groups", 1),
                str(x.dtype).removeprefix("torch."),
                plain,
                kind.startswith("ConvTranspose") and _turnable(self),
            )
        )
        return result

    return type(kind, (base,), {"forward": forward})


def _turnable(layer: Any) -> bool:
    """One stride in every direction, no dilation, and padding that leaves something of the window."""
    return (
        len(set(layer.stride)) == 1
        and set(layer.dilation) == {1}
        and all(size > padding for size, padding in zip(layer.kernel_size, layer.padding))
    )


def host_obstacle(network: NetworkSource) -> str:
    """What a forward does on the host that a graph would not repeat, found in the text: tensors here have no device of their own."""
    for function in _running(network):
        for node in ast.walk(function):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
            for target in (inner for outer in targets for inner in ast.walk(outer)):
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                    return f"forward keeps self.{target.attr}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.attr
                made = name in FROM_HOST and network.path(node.func) == f"torch.{name}"
                if name in HOST_ONLY or (made and not any(keyword.arg == "device" for keyword in node.keywords)):
                    return f"forward makes or reads a tensor on the host ({name})"
    return ""


def _running(network: NetworkSource) -> list[ast.FunctionDef]:
    """`forward` of every class, and the methods and functions that it calls."""
    functions: dict[str, list[ast.FunctionDef]] = {}
    for statement in network.kept:
        inside = statement.body if isinstance(statement, ast.ClassDef) else [statement]
        for part in inside:
            if isinstance(part, ast.FunctionDef):
                functions.setdefault(part.name, []).append(part)
    found: list[ast.FunctionDef] = []
    pending = list(functions.get("forward", []))
    while pending:
        function = pending.pop()
        if function in found:
            continue
        found.append(function)
        for node in ast.walk(function):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name not in ("__init__", "forward"):
                pending += functions.get(name, [])
    return found
