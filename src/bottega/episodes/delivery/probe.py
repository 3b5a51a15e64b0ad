"""What a sandboxed process tells about the module and about the delivered file: nothing of the user's runs in our own process.

`describe` says what the kernel is judged on: forms of calls, attributes, modes. `try_out` uses the delivered file as its user will: without
Bottega, with shared parameters, after an update of the weights, as a deep copy, and in a call that it must hand to the original.
"""

from __future__ import annotations

import ast
import base64
import copy
import dataclasses
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from bottega.core.arguments import Arguments, read_arguments
from bottega.episodes.delivery.drop_in.attributes import attributes_of, names_used
from bottega.episodes.delivery.drop_in.calls import side_by_side
from bottega.episodes.delivery.drop_in.state import ties_of
from bottega.judge.inputs import InputSource
from bottega.judge.loading import autocast, import_source
from bottega.judge.reference import one_line
from bottega.judge.tensor_transport import Unsupported, contiguous_stride, flatten, is_dense, unflatten
from bottega.sandbox.channel import Channel

DRAWS = 4
MOST_FORMS = 16
GUARD_CALLS = 50
LARGEST_PICKLE = 64 << 10
CLOSE = {"fp32": 2e-3, "tf32": 2e-2, "bf16": 1e-1, "fp16": 5e-2}
"""How far kernel and original may lie apart here, relative to size. The judge has measured it properly; this finds other weights."""
CLOSE_IN = {torch.bfloat16: CLOSE["bf16"], torch.float16: CLOSE["fp16"], torch.float8_e4m3fn: 0.2, torch.float8_e5m2: 0.4}
"""The same for modules that hold or take numbers of such a type, whatever precision was asked for."""


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
    forms = _unique([_form(_row(drawn), drawn.tensors, values=True) for drawn in draws])
    if len(forms) > 1:
        forms = _unique([_form(_row(drawn), drawn.tensors, values=False) for drawn in draws])
    returns = [_returned(model, next(drawn for drawn in draws if _has_form(drawn, form))) for form in forms[:MOST_FORMS]]
    uses = [_attributes_read(arguments["source"]), *(names_used(type(part)) for part in model.modules())]
    modes = any("training" in names for names in uses)
    mutates, changes = _changed_by_a_call(model, draws[0])
    _, given = flatten(tuple(read_arguments(task.get_inputs(), model.forward)))
    return {
        "calls": forms[:MOST_FORMS],
        "keywords": [name for name, _ in draws[0].skeleton["tuple"][1]["dict"]],
        "returns": returns,
        "init": _written_down(initial),
        "built": attributes_of(model),
        "ties": ties_of(model),
        "class": type(model).__name__,
        "training": model.training if modes else None,
        "kernel_training": arguments["training"],
        "modes": {path: part.training for path, part in model.named_modules() if part.training is not model.training},
        "mutates": mutates,
        "changes": changes,
        "gaps": not mutates and any(not is_dense(tensor.shape, tensor.stride()) for tensor in given),
    }


def try_out(arguments: dict[str, Any]) -> dict[str, Any]:
    """Problems in words, none when the file does what it promises. `refused`: what load() said."""
    task, model, initial = _brought_up(arguments)
    delivered = import_source(arguments["delivered"], "optimized")
    try:
        loaded = getattr(delivered, arguments["load"])(model, init=tuple(initial))
    except (ValueError, TypeError) as error:
        return {"problems": [], "refused": one_line(error)}
    problems: list[str] = []
    source = InputSource(task.get_inputs, arguments["device"], model.forward)
    limit = _limit(arguments["precision"], (*model.parameters(), *model.buffers(), *source.draw().tensors))
    with torch.no_grad(), autocast(arguments["device"], arguments["precision"]):
        problems += _compared("as it is", loaded, model, source, limit)
        if problems:
            return {"problems": problems, "refused": ""}
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
        guard_us = _guard_microseconds(loaded, source.draw(), task.get_inputs()) if not problems else 0.0
    return {"problems": problems, "refused": "", "guard_us": guard_us}


def _brought_up(arguments: dict[str, Any]) -> tuple[Any, nn.Module, Arguments]:
    task = import_source(arguments["source"], "task")
    initial = read_arguments(task.get_init_inputs(), task.Model)
    positional, keywords = copy.deepcopy(initial)
    model = task.Model(*positional, **keywords)
    if arguments["training"] is not None:
        model.train(arguments["training"])
    return task, model.to(arguments["device"]), initial


def _row(drawn: Any) -> Any:
    """A call's arguments in a row, those by keyword last."""
    positional, keywords = drawn.skeleton["tuple"]
    return {"tuple": [*positional["tuple"], *(item for _, item in keywords["dict"])]}


def _has_form(drawn: Any, form: Any) -> bool:
    return form in (_form(_row(drawn), drawn.tensors, values) for values in (True, False))


def _returned(model: nn.Module, drawn: Any) -> Any:
    """The form of a result; None where a compiler cannot be told of it: a result that shares memory with an input, or has plain values."""
    given = [tensor.clone() for tensor in drawn.tensors]
    with torch.no_grad():
        result = drawn.call(copy.deepcopy(model), given)
    owned = {tensor.untyped_storage().data_ptr() for tensor in given}
    try:
        form = _result_form(result)
    except Unsupported:
        return None
    return form if not any(tensor.untyped_storage().data_ptr() in owned for tensor in flatten(result)[1]) else None


def _result_form(value: Any) -> Any:
    """Like `_form`, with the classes of what has fields."""
    if isinstance(value, torch.Tensor):
        dense = is_dense(value.shape, value.stride())  # of others the judge had the elements side by side
        stride = value.stride() if dense else contiguous_stride(value.shape)
        return {"tensor": [str(value.dtype), list(value.shape), list(stride)]}
    kind = type(value)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {
            "named": [kind.__module__, kind.__qualname__, [[key, _result_form(item)] for key, item in value._asdict().items()]]
        }
    if kind in (tuple, list):
        return {kind.__name__: [_result_form(item) for item in value]}
    if kind is dict:
        return {"dict": [[key, _result_form(item)] for key, item in value.items()]}
    if isinstance(value, Mapping):
        return {"fields": [kind.__module__, kind.__qualname__, [[key, _result_form(item)] for key, item in value.items()]]}
    if dataclasses.is_dataclass(value):
        named = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {"fields": [kind.__module__, kind.__qualname__, [[key, _result_form(item)] for key, item in named]]}
    if value is None:
        return {"value": None}
    raise Unsupported(f"a value of type {kind.__name__}")


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


def _written_down(initial: Arguments) -> dict[str, str] | None:
    """Constructor arguments as text that reads back as the same, or pickled; None where there is neither."""
    pair = (initial.positional, initial.keywords)
    try:
        text = repr(pair)
        if ast.literal_eval(text) == pair:
            return {"text": text}
    except (ValueError, SyntaxError, RecursionError, MemoryError, RuntimeError):
        pass
    try:
        data = pickle.dumps(pair)
        return {"pickle": base64.b64encode(data).decode()} if len(data) <= LARGEST_PICKLE else None
    except Exception:
        return None


def _attributes_read(source: str) -> set[str]:
    return {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}


def _changed_by_a_call(model: nn.Module, drawn: Any) -> tuple[bool, list[str]]:
    """Whether a call changes its inputs, and which buffers or parameters."""
    given, called = [tensor.clone() for tensor in drawn.tensors], copy.deepcopy(model)
    with torch.no_grad():
        drawn.call(called, given)
    before = dict(_state(model))
    changed = [name for name, now in _state(called) if name not in before or not _same(before[name], now)]
    return any(not _same(one, other) for one, other in zip(drawn.tensors, given)), changed


def _state(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from model.named_buffers()
    yield from model.named_parameters()


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit: what is no number equals itself."""
    return one.shape == other.shape and torch.equal(
        *(each.detach().contiguous().reshape(-1).view(torch.uint8) for each in (one, other))
    )


def _compared(when: str, loaded: Any, model: Any, source: InputSource, limit: float) -> list[str]:
    drawn, original = source.draw(), copy.deepcopy(model)
    kinds: list[Any] = []
    expected, got = (_run(module, drawn, kinds) for module in (original, loaded))
    if kinds[0] is not kinds[1]:
        return [f"{when}, it returns a {kinds[1].__name__} where the original returns a {kinds[0].__name__}"]
    if not _alike(expected, got, limit):
        return [f"{when}, its answers are not the original's"]
    now = dict(_state(model))
    left = [name for name, value in _state(original) if name not in now or not _alike([value], [now[name]], limit)]
    advice = "; in evaluation mode a module may leave them alone (mode=eval)" if model.training else ""
    return [f"{when}, a call does not do to its buffers ({', '.join(left[:3])}) what the original does{advice}"] if left else []


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


def _guard_microseconds(loaded: Any, drawn: Any, given: Any) -> float:
    """What looking at the arguments costs in every call, before the kernel runs, with copies of those that must be copied."""
    positional, keywords = unflatten(drawn.skeleton, drawn.tensors)
    arguments = (*positional, *keywords.values())
    lying = read_arguments(given, loaded.original.forward)
    loaded._reason(arguments)  # a kernel that was forgotten is built again
    look = loaded._unchanged or loaded._reason
    times = []
    for _ in range(GUARD_CALLS):
        begun = time.perf_counter_ns()
        if loaded.FACTS["gaps"]:
            side_by_side((*lying.positional, *lying.keywords.values()))
        look(arguments)
        times.append(time.perf_counter_ns() - begun)
    return min(times) / 1000


def _run(module: Any, drawn: Any, kinds: list[Any] | None = None) -> list[torch.Tensor]:
    given = [tensor.clone() for tensor in drawn.tensors]
    result = drawn.call(module, given)
    if kinds is not None:
        kinds.append(type(result))
    return [output.detach().clone() for output in flatten(result)[1]]


def _limit(precision: str, tensors: Iterable[torch.Tensor]) -> float:
    return max([CLOSE[precision], *(CLOSE_IN.get(dtype, 0.0) for dtype in {tensor.dtype for tensor in tensors})])


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
