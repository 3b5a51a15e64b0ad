"""Records the call graph of a task: its `forward` runs once on fake tensors, without memory and arithmetic, and every torch call is noted.

Module or functional form, methods or operators: all come out as the same calls. It runs the task's code, so it belongs in a sandbox
(`callgraph_tracer`). A tensor that is changed in place goes on under a new name; the call keeps its underscore (`add_`) where the old value
is seen again through a view, or where a weight changes. What cannot be told truly has no call graph.
"""

from __future__ import annotations

import inspect
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from bottega.compiler.call_names import TURNED, arguments_of, operator_name, self_text, tensors_in, typed, value_text
from bottega.compiler.callgraph import Argument, Call, CallGraph, Input, NamedTensor
from bottega.compiler.recurrent_shapes import one_step_each
from bottega.core.arguments import read_arguments

MOST_CALLS = 24
"""A list that is longer tells a reader less than the module's own text."""
MOST_RESULTS = 64
"""Of one call: a tensor that is taken apart into its rows."""
BEGINNING = 1024
"""Calls of a beginning: nobody reads it, and a loop has shown all its operations by then."""

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


class NoCallGraph(Exception):
    """This module has none: it cannot be run on fake tensors, makes too many calls, or does what the graph cannot say."""


def record(source: str, beginning: bool = False, evaluated: bool = False) -> CallGraph:
    """Raises `NoCallGraph`, or whatever the task's own code raises.

    With `beginning`, the calls up to where that happened, which tell what a module works on and not what it computes; with `evaluated`, those of
    the module in evaluation mode.
    """
    random.seed(0)
    torch.manual_seed(0)
    module = sys.modules["task"] = types.ModuleType("task")  # a dataclass asks for the module that it is of
    namespace = vars(module)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    exec(compile(source, "task", "exec"), namespace)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = _emptied(_faked(lambda: _built(namespace), mode), mode)
        if evaluated:
            model.eval()
        given = _own(_faked(namespace["get_inputs"], mode), mode)
        args, options = read_arguments(given, model.forward)
        with mode, one_step_each():
            recorder = _Recorder(model, *_named_inputs(model.forward, args, options), namespace)
            recorder.most = BEGINNING if beginning else MOST_CALLS
            try:
                with recorder:
                    result = model(*args, **options)
            except Exception:
                if not beginning:
                    raise
    return recorder.noted() if beginning else recorder.graph(result)


def _built(namespace: Mapping[str, Any]) -> nn.Module:
    positional, keywords = read_arguments(namespace["get_init_inputs"](), namespace["Model"])
    model: nn.Module = namespace["Model"](*positional, **keywords)
    return model


def _faked(make: Callable[[], Any], mode: FakeTensorMode) -> Any:
    """Made without memory, or really where that fails: a module that calls half() on itself, say, or looks at a number of a tensor."""
    try:
        with mode:
            return make()
    except Exception:
        return make()


def _emptied(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """The same module with fake tensors in all places."""
    fakes: dict[int, Any] = {}
    for module in model.modules():
        for kept in (module._parameters, module._buffers):
            for name, value in kept.items():
                if value is not None and not isinstance(value, FakeTensor):
                    kept[name] = fakes.setdefault(id(value), mode.from_tensor(value))  # type: ignore[assignment]
    for module in model.modules():
        if isinstance(module, nn.RNNBase):  # keeps a list of its weights beside them
            module._flat_weights = [fakes.get(id(value), value) for value in module._flat_weights]
    return model


def _own(given: Any, mode: FakeTensorMode) -> Any:
    """Inputs that are fake, each a tensor of its own: what is one object here need not be one in a call."""
    seen: set[int] = set()

    def own(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        fake = value if isinstance(value, FakeTensor) else mode.from_tensor(value)
        if id(fake) in seen:
            return fake.clone()
        seen.add(id(fake))
        return fake

    return tree_map(own, given)


def _named_inputs(
    forward: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[dict[str, Any], frozenset[str]]:
    """What is given, by the names of forward's arguments, and which of them takes any number."""
    signature = inspect.signature(forward)
    named: dict[str, Any] = {}
    several: set[str] = set()
    for name, value in signature.bind(*args, **options).arguments.items():
        kind = signature.parameters[name].kind
        named |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
        several |= {name} if kind is inspect.Parameter.VAR_POSITIONAL else set()
    return named, frozenset(several)


@dataclass
class _Call:
    """A call while it is recorded: whether it must be said to work in place turns out later."""

    operator: str
    arguments: tuple[Argument, ...]
    results: tuple[NamedTensor, ...]
    in_place: bool = False

    def finished(self) -> Call:
        mark = "_" if self.in_place and not self.operator.endswith("_") else ""
        return Call(self.operator + mark, self.arguments, self.results)


class _Recorder(TorchFunctionMode):
    """Writes down every call of torch's that gives a tensor or changes one. What a call does inside is not seen: the mode is off meanwhile."""

    def __init__(
        self, model: nn.Module, inputs: Mapping[str, Any], several: frozenset[str], namespace: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._names: dict[int, str] = {}
        self._kept: dict[int, torch.Tensor] = {}
        """Named tensors stay alive, so that no name passes on to another."""
        self._used: dict[str, NamedTensor] = {}
        """Weights in the order of their first use."""
        self._stale: dict[int, _Call] = {}
        """Tensors whose contents a call changed through another one."""
        self._calls: list[_Call] = []
        self.most = MOST_CALLS
        self._count = 0
        self._refused = ""
        for place, value in _constants(model, namespace):
            self._call(place, value)
        self._weights = dict(self._names)
        self._input_names = frozenset(inputs)
        self._inputs: list[Input] = []
        for name, value in inputs.items():
            found = [(name + "".join(path), tensor) for path, tensor in tensors_in(value)]
            for place, tensor in found:
                self._call(place, tensor, anew=True)
            held = tuple(typed(place, tensor) for place, tensor in found)
            self._inputs.append(Input(name, held, "" if held else value_text(value, self._name), name in several))

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        given = [tensor for _, tensor in tensors_in((args, options)) if id(tensor) in self._kept]
        if any(tensor.is_inference() for tensor in given):
            raise self._refusal("changes in place are not counted in inference mode")
        versions = [tensor._version for tensor in given]
        result = function(*args, **options)
        name = operator_name(function)
        changed = [tensor for tensor, version in zip(given, versions) if tensor._version != version]
        if name == "data":
            raise self._refusal("what happens to the data of a tensor is not seen")
        results = list(tensors_in(result)) or list(tensors_in(changed[0] if len(changed) == 1 else changed))
        if name and results and not self._bookkeeping(args):
            self._write(name, function, args, options, results, changed)
        return result

    def graph(self, result: Any) -> CallGraph:
        if self._refused:  # and the task's own code caught it
            raise NoCallGraph(self._refused)
        return self.noted(value_text(result, self._name))

    def noted(self, returned: str = "") -> CallGraph:
        calls = tuple(call.finished() for call in self._calls)
        return CallGraph(tuple(self._inputs), tuple(self._used.values()), calls, returned)

    def _bookkeeping(self, args: tuple[Any, ...]) -> bool:
        """A norm counts its batches; nothing comes of it."""
        return any(self._names.get(id(value), "").endswith(".num_batches_tracked") for value in args)

    def _write(
        self,
        name: str,
        function: Any,
        args: tuple[Any, ...],
        options: dict[str, Any],
        results: list[tuple[tuple[str, ...], torch.Tensor]],
        changed: list[torch.Tensor],
    ) -> None:
        if len(self._calls) >= self.most or len(results) > MOST_RESULTS:
            raise self._refusal(f"more than {self.most} calls, or {MOST_RESULTS} results of one")
        if name in TURNED:
            name, args = TURNED[name], (args[1], args[0], *args[2:])
        arguments = tuple(arguments_of(name, function, args, options, self._name))
        place = self._next_place()
        names = ["_".join((place, *(part.strip("[].'\"") for part in path))) for path, _ in results]
        call = _Call(name, arguments, tuple(typed(one, tensor) for one, (_, tensor) in zip(names, results)))
        self._calls.append(call)
        self._age(call, changed, results)
        for one, (_, tensor) in zip(names, results):
            self._call(one, tensor, anew=True)

    def _age(self, call: _Call, changed: list[torch.Tensor], results: list[tuple[tuple[str, ...], torch.Tensor]]) -> None:
        """Mark what a call changed behind other names. A norm's own statistics are no part of the list."""
        fresh = {id(tensor) for _, tensor in results}
        storages = {_storage(tensor) for tensor in changed if id(tensor) in fresh}
        for key, tensor in self._kept.items():
            if key not in fresh and storages and _storage(tensor) in storages:
                self._stale[key] = call
        call.in_place = any(id(tensor) in self._weights and id(tensor) in fresh for tensor in changed)
        for key in fresh:
            self._stale.pop(key, None)

    def _next_place(self) -> str:
        """`t1`, `t2`, and so on, without those that are names of the task's own."""
        while True:
            self._count += 1
            place = f"t{self._count}"
            if not any(name == place or name.startswith(place + "_") for name in self._input_names):
                return place

    def _call(self, name: str, tensor: torch.Tensor, anew: bool = False) -> None:
        self._kept[id(tensor)] = tensor
        if anew or id(tensor) not in self._names:
            self._names[id(tensor)] = name

    def _refusal(self, reason: str) -> NoCallGraph:
        self._refused = reason
        return NoCallGraph(reason)

    def _name(self, tensor: torch.Tensor) -> str:
        name = self._names.get(id(tensor))
        if name is None:
            raise self._refusal(f"where a tensor of {typed('', tensor).type_text} comes from is not seen")
        if id(tensor) in self._stale:
            self._stale[id(tensor)].in_place = True
        if self._weights.get(id(tensor)) == name:
            self._used.setdefault(name, typed(name, tensor))
        return name


def _constants(model: nn.Module, namespace: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors that are there before the call: parameters, buffers, plain attributes, and those of the file."""
    for path, value in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        yield self_text(path), value
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in _OF_EVERY_MODULE:
                place = f"{self_text(path)}.{key}" if path else f"self.{key}"
                yield from ((place + "".join(inside), tensor) for inside, tensor in tensors_in(value))
    for key, value in namespace.items():
        if key.startswith("__"):
            continue
        yield from ((key + "".join(inside), tensor) for inside, tensor in tensors_in(value))


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
