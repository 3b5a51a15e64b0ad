"""A module as it stands in a running program, with the arguments of one call, as a task: its structure is pickled without its weights, which are
drawn anew, and its inputs are drawn with the same shapes, data types and strides.

What a class of the program's own script needs is copied as text, and modules beside the script are carried along. What cannot be told in a
text (an argument that is a cache object, a module that holds a lambda) raises `TaskError`.
"""

from __future__ import annotations

import base64
import inspect
import io
import math
import operator
import pickle
import zlib
from collections.abc import Mapping
from copyreg import __newobj__  # type: ignore[attr-defined]
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from bottega.core.errors import TaskError
from bottega.core.task import Task
from bottega.tasks.bundled_modules import with_bundled_modules
from bottega.tasks.module import ModuleTask
from bottega.tasks.script_source import MAIN, source_of
from bottega.tasks.tags import tags_of

WRITTEN_DOWN = "cannot be written down as a task: "
BY_VALUE = 64 << 10
"""Compressed bytes of a tensor that is written down as it is: tables, masks, positions. Larger ones are drawn."""
FEW_VALUES = 16
SMALL = 4096
"""Elements of a buffer that is written down as it is."""
TEXT = '''\
import base64
import pickle
import io
import zlib

import torch

{imports}
{own}
STRUCTURE = (
{structure}
)


def unpacked(text):
    return zlib.decompress(base64.b85decode(text))


def tensor_of(dtype, shape, stride, content):
    """A tensor as it was, or drawn with the mean and spread that it had."""
    held = [1 if size and not step else size for size, step in zip(shape, stride)]  # the rest is expanded
    made = torch.empty_strided(held, stride, dtype=getattr(torch, dtype))
    if isinstance(content, str):
        values = torch.frombuffer(bytearray(unpacked(content)), dtype=made.dtype).view(shape)
        made.copy_(values[tuple(map(slice, held))])
    elif made.is_floating_point() or made.is_complex():
        made.copy_(content[0] + content[1] * torch.randn(held))
    else:
        made.copy_(torch.randint(int(content[0]), int(content[1]) + 1, held))
    return made if held == list(shape) else made.expand(shape)


OWN = {{{classes}}}


class StructureReader(pickle.Unpickler):
    """Reads a module's structure; every tensor of it is made anew, one that stands in several places once."""

    def find_class(self, module, name):
        return OWN[name] if module == "__main__" and name in OWN else super().find_class(module, name)

    def persistent_load(self, key):
        number, kind, requires_grad, *facts = key
        self.made = getattr(self, "made", {{}})
        if number not in self.made:
            made = tensor_of(*facts)
            self.made[number] = torch.nn.Parameter(made, requires_grad) if kind == "parameter" else made
        return self.made[number]


def captured():
    """The {name} of the program, with weights drawn anew."""
    with torch.no_grad():
        return StructureReader(io.BytesIO(unpacked("".join(STRUCTURE)))).load()


Model = captured


def get_inputs():
    return [{positional}, {keywords}]


def get_init_inputs():
    return []
'''


def task_of_call(module: nn.Module, arguments: tuple[Any, ...], options: Mapping[str, Any], name: str = "") -> ModuleTask:
    """Raises `TaskError` with the reason where module or call cannot be told in a text. Where a kernel stands in a module's place, it is the task of
    the module: another kernel may serve its other calls."""
    module = _behind_kernels(module)
    kind = type(module)
    label = name or kind.__name__
    kinds = [type(_behind_kernels(part)) for part in module.modules()]
    if hidden := [each.__qualname__ for each in kinds if "<locals>" in each.__qualname__]:
        raise TaskError(
            f"{label}: the class {hidden[0]} is defined inside of a function, where no other process finds it; move it to the top of its file"
        )
    try:
        data = _structure(module)
        defaults = {key: each.default for key, each in inspect.signature(module.forward).parameters.items()}
        given = {
            key: value
            for key, value in options.items()
            if value is not None or key not in defaults or defaults[key] is not None
        }
        positional, keywords = f"[{', '.join(map(_written, arguments))}]", _written(dict(given))
        named = _types(module, data)
        own, imports, roots = source_of(named)
    except (TaskError, pickle.PicklingError, TypeError, AttributeError, ValueError, OSError, RecursionError) as error:
        raise TaskError(f"{label}: {WRITTEN_DOWN}{error}") from None
    packed = base64.b85encode(zlib.compress(data, 9)).decode()
    lines = "\n".join(f"    {packed[at : at + 100]!r}," for at in range(0, len(packed), 100))
    scripts = dict.fromkeys(name.split(".")[0] for module_name, name in named if module_name == MAIN)
    text = TEXT.format(
        classes=", ".join(f"{name!r}: {name}" for name in scripts),
        imports="\n".join(imports),
        own=own,
        structure=lines,
        name=kind.__name__,
        positional=positional,
        keywords=keywords,
    )
    for root in roots:
        text = with_bundled_modules(text, root / "captured.py")
    task = Task(text, label, f"captured {label}").validate()
    return ModuleTask(text, replace(task, tags=tags_of(text, None)), kind.__name__)


def _behind_kernels(module: nn.Module) -> nn.Module:
    while getattr(type(module), "IS_DROP_IN", False):
        module = module.__dict__["original"]
    return module


class _StructurePickler(pickle.Pickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.tensors: dict[int, tuple[int, torch.Tensor]] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, torch.Tensor):
            return None
        number, _ = self.tensors.setdefault(id(obj), (len(self.tensors), obj))
        parameter = isinstance(obj, nn.Parameter)
        return (number, "parameter" if parameter else "tensor", obj.requires_grad, *_facts(obj, parameter, buffer=True))

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, nn.Module):
            return NotImplemented
        if (behind := _behind_kernels(obj)) is not obj:
            return operator.getitem, ([behind], 0)
        state = obj.__getstate__()
        state = dict(state) if isinstance(state, dict) else dict(obj.__dict__)
        hooks = [name for name in state if name.endswith("_hooks") or "_hooks_" in name]
        return __newobj__, (type(obj),), state | {name: type(state[name])() for name in hooks if state[name] is not None}


def _structure(module: nn.Module) -> bytes:
    file = io.BytesIO()
    _StructurePickler(file).dump(module)
    return file.getvalue()


def _types(module: nn.Module, data: bytes) -> list[tuple[str, str]]:
    """Every class and function that the structure names, by module and name."""
    found: list[tuple[str, str]] = [
        (type(each).__module__, type(each).__qualname__) for each in map(_behind_kernels, module.modules())
    ]

    class Names(pickle.Unpickler):
        def find_class(self, module_name: str, global_name: str) -> Any:
            found.append((module_name, global_name))
            return super().find_class(module_name, global_name)

        def persistent_load(self, pid: Any) -> Any:
            return nn.Parameter(torch.empty(0)) if pid[1] == "parameter" else torch.empty(0)

    Names(io.BytesIO(data)).load()
    return list(dict.fromkeys(found))


def _facts(tensor: torch.Tensor, weight: bool, buffer: bool = False) -> tuple[str, tuple[int, ...], tuple[int, ...], Any]:
    """Data type, shape, strides, and the contents: compressed, or mean and spread, or the range of integers."""
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise TaskError(f"a tensor without plain memory ({tensor.layout}, {tensor.device})")
    stride = torch.empty(tensor.shape, device="meta").stride() if _overlaps(tensor) else tensor.stride()
    shown = (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(stride))
    values = tensor.detach()
    exact = not weight and (_few_values(values) or _in_order(values) or (buffer and values.numel() <= SMALL))
    if exact:
        raw = values.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes() if values.numel() else b""
        packed = zlib.compress(raw, 9)
        if raw and len(packed) <= BY_VALUE:
            return (*shown, base64.b85encode(packed).decode())
    if not values.numel():
        return (*shown, (0.0, 1.0))
    if not values.is_floating_point() and not values.is_complex():
        return (*shown, (int(values.min()), int(values.max())))
    wide = values.to(torch.complex64 if values.is_complex() else torch.float32)
    finite = wide[torch.isfinite(wide.abs())]
    mean = float(finite.real.mean()) if finite.numel() else 0.0
    return (*shown, (mean, float(finite.std()) if finite.numel() > 1 else 0.0))


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements share memory in another way than by being expanded."""
    extent = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if stride and size > 1:
            if stride < extent:
                return True
            extent = stride * (size - 1) + extent
    return False


def _in_order(values: torch.Tensor) -> bool:
    """Positions, most likely, or a table of them."""
    return values.dim() > 0 and values.shape[-1] > 1 and not values.is_complex() and bool((values.diff(dim=-1) >= 0).all())


def _few_values(values: torch.Tensor) -> bool:
    """A mask, most likely; what repeats over a whole tensor shows in its first part."""
    head = values.flatten()[: 1 << 16]
    return len(torch.unique(head)) <= min(FEW_VALUES, head.numel() // 2)


def _written(value: Any) -> str:
    """An argument as an expression of the task's text."""
    if isinstance(value, torch.Tensor):
        return f"tensor_of{_facts(value, weight=False)!r}"
    if value is None or isinstance(value, bool | int | float | str):
        return f"float({str(value)!r})" if isinstance(value, float) and not math.isfinite(value) else repr(value)
    if isinstance(value, torch.dtype):
        return repr(value)
    if type(value) in (tuple, list, torch.Size):
        inside = ", ".join(map(_written, value))
        return f"[{inside}]" if type(value) is list else f"({inside}{',' if len(value) == 1 else ''})"
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return "{" + ", ".join(f"{key!r}: {_written(item)}" for key, item in value.items()) + "}"
    raise TaskError(f"an argument of type {type(value).__name__}")
