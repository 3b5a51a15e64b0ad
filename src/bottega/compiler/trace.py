"""The task's module as a graph of torch operators, with names, shapes and data types, by torch.export.

Module or functional form, methods or functions, loops over layers: all come out as the same operators. The module is built and
traced as it builds itself, in training mode unless it says otherwise, because that is how it is judged.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import linecache
import re
import sys
import threading
import types
import warnings
from collections.abc import Collection
from contextlib import nullcontext
from typing import Any
from unittest import mock

import torch
from torch import nn
from torch._higher_order_ops import effects
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.export import exported_program
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from bottega.compiler.build_step import Refusal
from bottega.compiler.call_names import self_text
from bottega.compiler.masked_elements import with_masks_kept
from bottega.compiler.recurrent_shapes import one_step_each
from bottega.compiler.self_attention import straight_attention
from bottega.compiler.traced_graph import WHOLE, Graph, attribute_of, graph_of, has_tensor, operator_name
from bottega.compiler.value_checks import checks_pass
from bottega.core.arguments import Arguments, read_arguments
from bottega.core.task import Task

COMPOSITES = "_collect_all_valid_cia_ops"
"""Torch's own name for its list of composite operators. Where a version has none, all of them are prepared, which is only slower."""
_LIST = threading.Lock()
EXPERTS = "_experts_implementation"
"""Where a configuration of transformers says how a mixture of experts computes."""
CHOOSES_EXPERTS = "_apply_gate"
"""What those modules of transformers have that ask it. Models without experts are not built with a configuration that says how."""
HOOKS = ("_forward_pre_hooks", "_forward_hooks")
"""Of a module itself: they are traced, and its constructor would register them once more."""
WRITTEN_TENSOR = "is mutated in the forward method"
"""Torch's own words for a tensor of the module that is no buffer."""
ASSERTED = (
    "_assert_scalar",
    "_assert_async",
    "_assert_tensor_metadata",
    "_linalg_check_errors",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
    "item",
)
"""Operators that raise an error for some values, and the one that takes a number out of a tensor for them."""
OVERWRITING = ("copy", "fill", "zero", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros")
"""Of what these are given first they need the shape alone."""
STATISTICS = ("batch_norm", "instance_norm", "_batch_norm_legit", "_batch_norm_legit_functional")
UNKNOWN_OBJECT = re.compile(r"(Found|Unsupported input type) <class '([\w.]+)'>")
"""How torch.export says that an object among results or arguments is no container that it knows."""


def trace(task: Task, known: Collection[str]) -> Graph:
    """`known` are the operators that the reader of the graph understands; others are taken apart where torch knows how."""
    module = sys.modules["task"] = types.ModuleType("task")  # a dataclass asks for the module that it is of
    namespace = vars(module)
    linecache.cache[task.label] = (
        len(task.source),
        None,
        task.source.splitlines(True),
        task.label,
    )  # TorchScript reads it again
    try:
        exec(compile(task.source, task.label, "exec"), namespace)
        try:
            # Without memory and without arithmetic: a task for a large device is traced on a small one.
            with FakeTensorMode(), one_step_each():
                return _traced(namespace, known)
        except Refusal:
            raise
        except Exception:
            with one_step_each(()):
                return _traced(namespace, known)
    except Refusal as refusal:
        raise Refusal(f"{task.label}: {refusal}") from None
    except Exception as error:
        first = next(iter(str(error).splitlines()), "")
        if found := UNKNOWN_OBJECT.match(first):
            raise Refusal(f"{task.label}: {_unknown(found[2].split('.')[-1], found[1] == 'Found')}") from None
        if isinstance(error, GuardOnDataDependentSymNode):
            raise Refusal(f"{task.label}: a branch or a number in forward depends on the values of tensors") from None
        if isinstance(error, DynamicOutputShapeException | DataDependentOutputException):
            raise Refusal(
                f"{task.label}: {operator_name(error.func)}: its result depends on values while it is traced"
            ) from None
        raise Refusal(f"{task.label}: cannot be traced: {type(error).__name__}: {first[:200]}") from None


def _unknown(name: str, returned: bool) -> str:
    """Why an object stops the compiler, and what to do."""
    if not name.endswith("Cache"):
        return (
            f"{'returns' if returned else 'takes'} a {name}, which holds tensors where nobody finds them; pass them in a tuple"
        )
    if returned:
        return f"returns a {name}; return its layers' keys and values in a tuple, or call the module with use_cache=False"
    return f"takes a {name}, which is larger in every call, so that no kernel fits twice; optimise the module without it"


def _traced(namespace: dict[str, Any], known: Collection[str]) -> Graph:
    torch.manual_seed(0)
    initial = read_arguments(namespace["get_init_inputs"](), namespace["Model"])
    _register_results(namespace)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = namespace["Model"](*initial.positional, **initial.keywords)
        _group_experts(model)
        _fix_momentum(model)
        given = read_arguments(namespace["get_inputs"](), model.forward)
        own_hooks = [name for name in HOOKS if getattr(model, name)]
        if _clashes(model):
            model = _Around(model)
        whole = _exported(model, given)
        if evaluated := any(map(_drops, whole.graph.nodes)):  # the judge compares such a module in evaluation mode
            whole = _exported(model.eval(), given)
        exported = whole
        if _strange(whole, known) or any(map(_mutates, _targets(whole))):
            try:
                exported = _functional(whole, {})
            except RuntimeError as error:
                if WRITTEN_TENSOR not in str(error):
                    raise
                _make_buffers(model)
                exported = _functional(_exported(model, given), {})
        if strange := _strange(exported, known):
            table = _decompositions()
            exported = _functional(exported, {target: table[target] for target in strange if target in table}, known)
        with_masks_kept(exported.graph)
        if any("assigned during export" in str(warning.message) for warning in told) and (
            key := _kept_state(exported, model, given)
        ):
            raise Refusal(f"keeps {self_text(key)} from call to call")
        if key := _changed_buffer(exported):
            raise Refusal(f"keeps {self_text(key)} from call to call")
    graph = graph_of(exported, model, given)
    return dataclasses.replace(
        graph,
        evaluated=evaluated,
        kept=(*graph.kept, *(f"self.{name}.clear()  # the kernels do what they do" for name in own_hooks)),
    )


class _Around(nn.Module):
    """A module as a part, since torch.fx keeps the parts of what it traces beside names of its own: `graph`, `code`, `meta`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.add_module(WHOLE, model)
        self.training = model.training

        def forward(*given: Any, **named: Any) -> Any:
            return model(*given, **named)

        forward.__signature__ = inspect.signature(model.forward)  # type: ignore[attr-defined]
        self.forward = forward


@functools.cache
def _taken() -> frozenset[str]:
    """The names that a traced module has beside those of every module."""
    traced, plain = torch.fx.GraphModule(nn.Module(), torch.fx.Graph()), nn.Module()
    return frozenset({*dir(traced), *vars(traced)} - {*dir(plain), *vars(plain)})


def _clashes(model: nn.Module) -> bool:
    return not _taken().isdisjoint((*vars(model), *model._modules, *model._parameters, *model._buffers))


def _exported(model: nn.Module, given: Arguments) -> Any:
    with checks_pass(), straight_attention():
        return _without_checks(torch.export.export(model, given.positional, given.keywords, strict=False))


def _without_checks(exported: Any) -> Any:
    """Without what raises an error for some values, and what only that asked for."""
    graph = exported.graph
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users:
            arithmetic = getattr(node.target, "_schema", None) is None  # of Python's, with numbers out of tensors
            if arithmetic or operator_name(node.target) in ASSERTED:
                graph.erase_node(node)
    return exported


def _make_buffers(model: nn.Module) -> None:
    """Tensors of the module that are none of its buffers become some, since torch.export lets forward write into those alone."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, torch.Tensor):
                delattr(module, name)
                module.register_buffer(name, value, persistent=False)


def _changed_buffer(exported: Any) -> str:
    """The first buffer that a call changes and on whose former values its results depend; empty where there is none. Running statistics
    are of no use to the norm that updates them."""
    signature = exported.graph_signature
    changed, results = set(signature.buffers_to_mutate.values()), set(signature.user_outputs)
    for node in exported.graph.nodes:
        key = signature.inputs_to_buffers.get(node.name) if node.op == "placeholder" else None
        if key in changed and results & _names_behind(node):
            return str(key)
    return ""


def _names_behind(start: Any) -> set[str]:
    """Of what is computed of a node's values."""
    found: set[str] = set()
    pending = [start]
    while pending:
        node = pending.pop()
        for user in node.users:
            name = operator_name(user.target) if user.op == "call_function" else ""
            overwritten = name in OVERWRITING and node not in user.args[1:]
            if name and user.name not in found and not overwritten and not name.endswith(STATISTICS):
                found.add(user.name)
                pending.append(user)
    return found


def _drops(node: Any) -> bool:
    """Whether this is a dropout, or a random ReLU, that draws: it answers differently every time."""
    name = operator_name(node.target) if node.op == "call_function" else ""
    given = [*node.args, *node.kwargs.values()]
    if name.startswith("rrelu"):
        return len(given) > 3 and bool(given[3])
    return "dropout" in name and len(given) > 2 and bool(given[1]) and bool(given[2])


def _kept_state(exported: Any, model: nn.Module, given: Arguments) -> str:
    """The first tensor of the module that a call reads and leaves another one for the next call; empty where there is none.

    A module that moves its states to the input's device (`self.h0 = self.h0.to(x.device)`) assigns what it already has.
    """
    named = exported.graph_signature.inputs_to_lifted_tensor_constants
    read = {named[node.name] for node in exported.graph.nodes if node.op == "placeholder" and node.name in named and node.users}
    before = {key: attribute_of(model, key) for key in sorted(read) if has_tensor(model, key)}
    versions = {key: value._version for key, value in before.items()}
    model(*given.positional, **given.keywords)
    ended = ((key, attribute_of(model, key)) for key in before)
    return next((key for key, value in ended if value is not before[key] or value._version != versions[key]), "")


def _group_experts(model: nn.Module) -> None:
    """Experts of transformers by products over rows that are sorted by expert: the same sums, with shapes that do not depend on values."""
    for module in model.modules():
        config = getattr(module, "config", None)
        if hasattr(module, CHOOSES_EXPERTS) and getattr(config, EXPERTS, "") in (None, "eager"):
            setattr(config, EXPERTS, "grouped_mm")


def _fix_momentum(model: nn.Module) -> None:
    """A batch norm without momentum divides by how many calls there were, for running statistics that a kernel does not update."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase) and module.momentum is None:
            module.momentum = 0.1


def _register_results(namespace: dict[str, Any]) -> None:
    """Dataclasses of the task's own file, so that torch can take their tensors out and put others in."""
    for value in list(namespace.values()):
        own = isinstance(value, type) and value.__module__ == "task" and dataclasses.is_dataclass(value)
        if own and not issubclass(value, nn.Module | dict):
            torch.utils._pytree.register_dataclass(value)


def _functional(exported: Any, apart: dict[Any, Any], known: Collection[str] = ()) -> Any:
    """Only these operators taken apart, and none left that works in place: `run_decompositions`, told that only the composites of this graph
    and the known ones exist.

    It prepares every composite operator of torch to be left whole, hundreds of them, which takes a quarter of a second for each module:
    six times as long as all the rest. `where` comes in on the way; any other that does is taken apart, which shows as a strange operator.
    """
    here = _targets(exported)
    occurring = {composite for composite in _composites() if composite in here or operator_name(composite) in ("where", *known)}
    listed = mock.patch.object(exported_program, COMPOSITES, lambda: occurring) if _composites() else nullcontext()
    with _LIST, listed, mock.patch.object(effects, "has_effects", lambda operator: False):  # of which torch makes tokens
        return _without_checks(exported.run_decompositions(apart))


@functools.cache
def _composites() -> frozenset[Any]:
    found = getattr(exported_program, COMPOSITES, None)
    return frozenset(found()) if found else frozenset()


@functools.cache
def _decompositions() -> Any:
    return torch.export.default_decompositions()


def _mutates(target: Any) -> bool:
    schema = getattr(target, "_schema", None)
    return schema is None or bool(schema.is_mutable)


def _strange(exported: Any, known: Collection[str]) -> set[Any]:
    return {target for target in _targets(exported) if operator_name(target) not in known}


def _targets(exported: Any) -> set[Any]:
    return {node.target for node in exported.graph.nodes if node.op == "call_function"}
