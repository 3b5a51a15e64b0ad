"""What a sandboxed process tells about the module and about the delivered file: nothing of the user's runs in our own process.

`describe` says what the kernel is judged on: forms of calls, attributes, modes. `try_out` uses the delivered file as its user will: without
Bottega, with shared parameters, after an update of the weights, as a deep copy, and in a call that it must hand to the original.
"""

from __future__ import annotations

import ast
import copy
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bottega.core.arguments import read_arguments
from bottega.episodes.delivery.drop_in import attributes_of
from bottega.judge.inputs import InputSource
from bottega.judge.layout import flatten, unflatten
from bottega.judge.loading import autocast, import_source
from bottega.judge.reference import one_line
from bottega.sandbox.wire import Channel

DRAWS = 4
MOST_FORMS = 16
GUARD_CALLS = 50
CLOSE = {"fp32": 2e-3, "tf32": 2e-2, "bf16": 1e-1, "fp16": 5e-2}
"""How far kernel and original may lie apart here, relative to size. The judge has measured it properly; this finds other weights."""
_WITH_MODES = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm, nn.modules.dropout._DropoutNd, nn.RReLU)


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    channel = Channel.from_descriptor(descriptors[0])
    if arguments["do"] == "try_out":  # the delivered file must do without us: from here on, no import finds Bottega
        for name in [name for name in sys.modules if name.split(".")[0] == "bottega"]:
            sys.modules[name] = None  # type: ignore[assignment]
    work: Callable[[dict[str, Any]], dict[str, Any]] = {"describe": describe, "try_out": try_out}[arguments["do"]]
    try:
        reply: dict[str, Any] = {"found": work(arguments)}
    except BaseException as error:
        reply = {"failed": one_line(error)}
    channel.send(reply)


def describe(arguments: dict[str, Any]) -> dict[str, Any]:
    """Plain values only: they are written into the delivered file as they stand."""
    task, model, initial = _brought_up(arguments)
    source = InputSource(task.get_inputs, arguments["device"], model.forward)
    draws = [source.draw() for _ in range(DRAWS)]
    forms = _unique([_form(_positional(drawn), drawn.tensors, values=True) for drawn in draws])
    if len(forms) > 1:
        forms = _unique([_form(_positional(drawn), drawn.tensors, values=False) for drawn in draws])
    modes = any(isinstance(part, _WITH_MODES) for part in model.modules()) or "training" in _attributes_read(
        arguments["source"]
    )
    return {
        "calls": forms[:MOST_FORMS],
        "init": _written_down(initial),
        "built": attributes_of(model),
        "class": type(model).__name__,
        "training": model.training if modes else None,
        "kernel_training": arguments["training"],
        "mutates": _changes_inputs(model, draws[0]),
    }


def try_out(arguments: dict[str, Any]) -> dict[str, Any]:
    """Problems in words, none when the file does what it promises. `refused`: what load() said."""
    task, model, initial = _brought_up(arguments)
    delivered = import_source(arguments["delivered"], "optimized")
    try:
        loaded = getattr(delivered, arguments["entry"])(model, init=initial)
    except (ValueError, TypeError) as error:
        return {"problems": [], "refused": one_line(error)}
    problems: list[str] = []
    source, limit = InputSource(task.get_inputs, arguments["device"], model.forward), CLOSE[arguments["precision"]]
    with torch.no_grad(), autocast(arguments["device"], arguments["precision"]):
        problems += _compared("as it is", loaded, model, source, limit)
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.mul_(0.75).add_(0.01 * torch.randn_like(parameter))
        problems += _compared("after an update of the weights", loaded, model, source, limit)
        moved = copy.deepcopy(loaded)
        problems += _compared("as a deep copy", moved, moved.original, source, limit)
        if not problems and (loaded.calls < 2 or moved.calls < 1):
            problems.append(
                f"it fell back on the inputs that it was judged on: {', '.join(loaded.fallbacks + moved.fallbacks)}"
            )
        problems += _falls_back(loaded, model, source, limit)
        guard_us = _guard_microseconds(loaded, source.draw()) if not problems else 0.0
    return {"problems": problems, "refused": "", "guard_us": guard_us}


def _brought_up(arguments: dict[str, Any]) -> tuple[Any, nn.Module, list[Any]]:
    task = import_source(arguments["source"], "task")
    initial = read_arguments(task.get_init_inputs(), task.Model)
    positional, keywords = copy.deepcopy(initial)
    model = task.Model(*positional, **keywords)
    if arguments["training"] is not None:
        model.train(arguments["training"])
    return task, model.to(arguments["device"]), list(initial.positional)


def _positional(drawn: Any) -> Any:
    """A call with keywords that have no place among these is handed to the original."""
    return drawn.skeleton["tuple"][0]


def _form(skeleton: Any, tensors: list[torch.Tensor], values: bool) -> Any:
    """A call's arguments with each tensor as data type, shape and strides, and plain values as they are or by their type."""
    ((kind, content),) = skeleton.items()
    if kind == "tensor":
        tensor = tensors[content]
        return {"tensor": [str(tensor.dtype), list(tensor.shape), list(tensor.stride())]}
    if kind in ("tuple", "list"):
        return {kind: [_form(item, tensors, values) for item in content]}
    if kind == "dict":
        return {"dict": [[key, _form(item, tensors, values)] for key, item in content]}
    plain = unflatten(skeleton, [])
    return {"value": plain} if values and kind == "value" else {"type": type(plain).__name__}


def _unique(forms: list[Any]) -> list[Any]:
    return [form for number, form in enumerate(forms) if form not in forms[:number]]


def _written_down(initial: list[Any]) -> str | None:
    """Constructor arguments as text that reads back as the same; None where there is none."""
    try:
        text = repr(initial)
        return text if ast.literal_eval(text) == initial else None
    except (ValueError, SyntaxError, RecursionError, MemoryError, RuntimeError):
        return None


def _attributes_read(source: str) -> set[str]:
    return {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}


def _changes_inputs(model: nn.Module, drawn: Any) -> bool:
    given = [tensor.clone() for tensor in drawn.tensors]
    with torch.no_grad():
        drawn.call(copy.deepcopy(model), given)
    return any(not torch.equal(before, after) for before, after in zip(drawn.tensors, given))


def _compared(when: str, loaded: Any, model: Any, source: InputSource, limit: float) -> list[str]:
    drawn = source.draw()
    expected, got = (_run(module, drawn) for module in (copy.deepcopy(model), loaded))
    return [f"{when}, its answers are not the original's"] if not _alike(expected, got, limit) else []


def _falls_back(loaded: Any, model: Any, source: InputSource, limit: float) -> list[str]:
    """In a smaller batch, where the original takes one."""
    drawn = source.draw()
    batch = drawn.tensors[0].shape[0] if drawn.tensors and drawn.tensors[0].dim() else 0
    if batch < 2:
        return []
    drawn.tensors = [tensor[:-1].clone() if tensor.dim() and tensor.shape[0] == batch else tensor for tensor in drawn.tensors]
    try:
        expected = _run(copy.deepcopy(model), drawn)
    except Exception:
        return []
    before = sum(loaded.fallbacks.values())
    got = _run(loaded, drawn)
    if sum(loaded.fallbacks.values()) == before:
        return ["it did not hand another shape to the original"]
    return [] if _alike(expected, got, limit) else ["on another shape, its answers are not the original's"]


def _guard_microseconds(loaded: Any, drawn: Any) -> float:
    """What looking at the arguments costs in every call, before the kernel runs."""
    arguments, _ = unflatten(drawn.skeleton, drawn.tensors)
    times = []
    for _ in range(GUARD_CALLS):
        begun = time.perf_counter_ns()
        loaded._reason(arguments)
        times.append(time.perf_counter_ns() - begun)
    return min(times) / 1000


def _run(module: Any, drawn: Any) -> list[torch.Tensor]:
    given = [tensor.clone() for tensor in drawn.tensors]
    return [output.detach().clone() for output in flatten(drawn.call(module, given))[1]]


def _alike(expected: list[torch.Tensor], got: list[torch.Tensor], limit: float) -> bool:
    if [tensor.shape for tensor in expected] != [tensor.shape for tensor in got]:
        return False
    for want, have in zip(expected, got):
        if not (want.is_floating_point() or want.is_complex()):
            if not torch.equal(want, have.to(want.dtype)):
                return False
            continue
        wide = torch.complex128 if want.is_complex() else torch.float64
        want, have = want.to(wide), have.to(wide)  # noqa: PLW2901
        size = want.abs().square().mean().sqrt() if want.numel() else want.abs().sum()
        if not torch.allclose(have, want, rtol=limit, atol=float(limit * size) + 1e-12, equal_nan=True):
            return False
    return True
