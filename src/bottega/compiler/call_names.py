"""How a torch call is written in a call graph: one operator name for every spelling, tensors by name, options that differ from the default."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import resolve_name

from bottega.compiler.callgraph import Argument, NamedTensor

DIGITS = 10
"""Of a number."""
LONGEST_VALUE = 60

_WINDOW = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
_POOLING = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
_POSITIONS = {
    **{f"avg_pool{n}d": _POOLING for n in (1, 2, 3)},
    **{f"conv{n}d": _WINDOW for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _TRANSPOSED for n in (1, 2, 3)},
}
"""Argument names of functions that have no signature to ask."""
_USUAL = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0, "groups": 1, "bias": None,
          "ceil_mode": False, "count_include_pad": True, "divisor_override": None}  # fmt: skip
_SILENT = frozenset(("inplace", "_stacklevel", "size_average", "reduce", "out", "momentum", "device"))
"""Options of functions of torch.nn that change nothing in what is computed here."""
_SILENT_ANYWHERE = frozenset(("inplace", "out", "device"))
TURNED = {
    "rsub": "sub", "rdiv": "div", "rpow": "pow", "rmatmul": "matmul", "rtruediv": "div", "rfloordiv": "floor_divide",
    "rmod": "remainder",
}  # fmt: skip
"""Operators whose operands come the other way round."""
_DUNDERS = {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "rand": "bitwise_and", "ror": "bitwise_or",
    "rxor": "bitwise_xor", "iand": "bitwise_and", "ior": "bitwise_or", "ixor": "bitwise_xor", "mod": "remainder",
    "imod": "remainder", "ipow": "pow", "ifloordiv": "floor_divide", "imatmul": "matmul",
}  # fmt: skip
_PLAIN = {
    "truediv": "div", "floordiv": "floor_divide", "getitem": "index", "radd": "add", "rmul": "mul", "multiply": "mul",
    "subtract": "sub", "divide": "div", "true_divide": "div", "negative": "neg", "absolute": "abs", "iadd": "add",
    "imul": "mul", "isub": "sub", "itruediv": "div", "idiv": "div", "greater": "gt", "less": "lt", "greater_equal": "ge",
    "less_equal": "le", "special_expit": "sigmoid",
}  # fmt: skip
_IN_PLACE_BY_NATURE = frozenset(("copy_", "requires_grad_"))
_INSIDE = frozenset(("lift_fresh", "empty_strided"))
"""What torch calls of its own accord when a real tensor comes among fake ones; `empty_strided` nobody writes."""
_ATTRIBUTES = frozenset(("T", "mT", "H", "mH", "real", "imag", "data"))


def operator_name(function: Callable[..., Any]) -> str:
    """`relu` for every way of writing it; empty for what only asks a question."""
    name = getattr(function, "__name__", "")
    if name in ("__get__", "__set__"):
        owner = resolve_name(function) or ""
        name = owner.split(".")[-2] if owner.count(".") > 1 else ""
        return name if name in _ATTRIBUTES else ""
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        name = _DUNDERS.get(name, name)
    name = name.split(".")[0]  # an overload of an operator: relu.default
    if name in _INSIDE:
        return ""
    if name.endswith("_") and not name.startswith("_") and name not in _IN_PLACE_BY_NATURE:
        name = name[:-1]
    return _PLAIN.get(name, name)


def arguments_of(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], named: Callable[[Any], str]
) -> Iterator[Argument]:
    """As a person writes them: tensors by name, options by keyword, nothing that is the default."""

    def argument(value: Any, keyword: str = "") -> Argument:
        return Argument(value_text(value, named), keyword, tuple(named(tensor) for _, tensor in tensors_in(value)))

    positions = _POSITIONS.get(name)
    if positions:
        usual = {**_USUAL, "stride": None} if positions is _POOLING else _USUAL
        yield from (
            argument(value) if key in ("input", "weight", "bias") else argument(_one(value), key)
            for key, value in {**dict(zip(positions, args)), **options}.items()
            if not _is_usual(value, usual.get(key, ...))
        )
        return
    known = _signature(function)
    try:
        bound = dict(known.bind(*args, **options).arguments) if known is not None else None
    except TypeError:
        bound = None
    if known is None or bound is None:
        while len(args) > 1 and args[-1] is None:
            args = args[:-1]
        yield from (argument(value) for value in args if not isinstance(value, torch.device))
        yield from (argument(value, key) for key, value in options.items() if key not in _SILENT_ANYWHERE)
        return
    plain = True
    for key, value in bound.items():
        default = known.parameters[key].default
        tensor = any(True for _ in tensors_in(value))
        if key in _SILENT or (not tensor and _is_usual(value, default)):
            plain = plain and key in _SILENT
            continue
        plain = plain and (tensor or default is inspect.Parameter.empty)
        yield argument(value, "" if plain else key)


def value_text(value: Any, named: Callable[[Any], str]) -> str:
    if isinstance(value, torch.Tensor):
        return named(value)
    if isinstance(value, tuple | list | torch.Size):
        inside = ", ".join(value_text(item, named) for item in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {value_text(item, named)}" for key, item in value.items()) + "}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(f'{key}={value_text(item, named)}' for key, item in fields)})"
    if isinstance(value, slice):
        ends = [value.start, value.stop, *([value.step] if value.step is not None else [])]
        return ":".join("" if end is None else value_text(end, named) for end in ends)
    if isinstance(value, numbers.Number) and hasattr(value, "item"):  # NumPy's
        return value_text(value.item(), named)
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    if value is ...:
        return "..."
    if value is None or isinstance(value, bool | int | complex | str | torch.dtype | torch.memory_format):
        return (repr(value) if isinstance(value, str) else str(value).removeprefix("torch."))[:LONGEST_VALUE]
    return type(value).__name__


def typed(name: str, tensor: torch.Tensor) -> NamedTensor:
    return NamedTensor(name, tuple(int(size) for size in tensor.shape), str(tensor.dtype).removeprefix("torch."))


def tensors_in(value: Any) -> Iterator[tuple[tuple[str, ...], torch.Tensor]]:
    """Every tensor in nested values, with the way to it as one writes it: `[0]`, `['mask']`, `.logits`."""
    if isinstance(value, torch.Tensor):
        yield (), value
        return
    items: list[tuple[str, Any]] = []
    if isinstance(value, tuple | list):
        items = [(f"[{number}]", item) for number, item in enumerate(value)]
    elif isinstance(value, dict):
        items = [(f"[{key!r}]", item) for key, item in value.items()]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    for place, item in items:
        yield from (((place, *path), tensor) for path, tensor in tensors_in(item))


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    if not inspect.isfunction(function):
        return None
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return None if any(one.kind == one.VAR_POSITIONAL for one in found.parameters.values()) else found


def _is_usual(value: Any, default: Any) -> bool:
    """Whether it says what would be meant without it; (1, 1) is 1."""
    if isinstance(value, torch.Tensor) or isinstance(default, torch.Tensor):
        return False
    if isinstance(value, tuple | list) and value and not isinstance(default, tuple | list):
        return all(_is_usual(item, default) for item in value)
    return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)


def _one(value: Any) -> Any:
    """(1, 1) as 1."""
    return value[0] if isinstance(value, tuple | list) and value and all(item == value[0] for item in value) else value


def self_text(path: str) -> str:
    """The same within a method: `self.net[0].weight`, and `self[0].weight` where the module itself is a list."""
    text = path_text(path)
    return f"self{text}" if text.startswith("[") else f"self.{text}"


def path_text(path: str) -> str:
    """`net.0.weight` as it is written: `net[0].weight`."""
    text = ""
    for part in path.split("."):
        text += f"[{part}]" if part.isdigit() else f".{part}" if text else part
    return text
