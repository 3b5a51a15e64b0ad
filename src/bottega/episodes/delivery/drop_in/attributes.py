"""What a module is beside its weights: its parts and their attributes, as text in which two of one class can differ.

A kernel was made for one such text. What a text cannot show (an object of whatever kind) is told by those of its attributes that the module uses.
"""

import copy
import ctypes
import enum
import functools
import hashlib
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.drop_in.code import PYTHON, code_told, function_of, is_aside, names_in, pieces

LONGEST, SHOWN = 200, 60
"""Characters of a text; of a longer one some, and a hash."""
LARGEST_TOLD = 1 << 22
"""Elements of a tensor whose values are told."""
DEEPEST = 3
MOST_COMPARED = 64
"""Entries of a list, a set or a dictionary that is compared in every call."""
CODE = "its code"
"""The name under which a part's code stands among its attributes: a version of Python, and a hash."""
OF_EVERY_MODULE = frozenset(nn.Module().__dict__)
_names: "weakref.WeakKeyDictionary[type, frozenset[str]]" = weakref.WeakKeyDictionary()


def standing_for(module: Any) -> list[Any]:
    """The module, and what a kernel in its place stands for: another kernel, for other calls, and at the end the original."""
    found = [module]
    while getattr(type(found[-1]), "IS_DROP_IN", False):
        found.append(found[-1].__dict__["original"])
    return found


def original_of(module: Any) -> Any:
    return standing_for(module)[-1]


def attributes_of(module: nn.Module) -> dict[str, Any]:
    """By part: its class, and its attributes and tables as text."""
    found = {}
    weights = {storage_of(each) for owner in module.modules() for each in (*owner._parameters.values(), *persistent(owner))}
    codes: dict[type, list[Any]] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        owner = original_of(part)
        kind = type(owner)
        teller = Teller(names_used(kind), weights)
        texts = {name: teller.told(value) for name, value in (*attributes(owner), *tables(owner))}
        if kind not in codes:
            reached = [] if is_aside(kind) else pieces(kind)
            codes[kind] = [
                (name, code_told(each) if (each := function_of(value)) else teller.told(value)) for _, name, value in reached
            ]
        held = [
            (name, function_of(value.func if isinstance(value, functools.partial) else value))
            for name, value in attributes(owner)
        ]
        told = [*codes[kind], *((name, code_told(each)) for name, each in held if each is not None and not is_aside(each))]
        texts |= {CODE: f"{PYTHON} {hashlib.sha256(repr(told).encode()).hexdigest()[:16]}"} if told else {}
        found[path] = (kind.__name__, {name: text for name, text in texts.items() if text})
    return found


def attributes(owner: nn.Module) -> Iterator[tuple[str, Any]]:
    """What a module holds of its own; what is private only where its methods use it. No tensors where a hook comes before its calls: it may make them
    of the weights, as weight_norm's does."""
    names = names_used(type(owner))
    for name, value in owner.__dict__.items():
        if name in OF_EVERY_MODULE or (name.startswith("_") and name not in names):
            continue
        if not (isinstance(value, torch.Tensor) and owner._forward_pre_hooks):
            yield name, value


def tables(owner: nn.Module) -> Iterator[tuple[str, Any]]:
    """Buffers that are in no checkpoint: a kernel makes them anew from the constructor's arguments."""
    for name in sorted(owner._non_persistent_buffers_set):
        if owner._buffers.get(name) is not None:
            yield name, owner._buffers[name]


def persistent(owner: nn.Module) -> list[Any]:
    return [buffer for name, buffer in owner._buffers.items() if name not in owner._non_persistent_buffers_set]


def storage_of(tensor: Any) -> int:
    """Where a tensor's memory begins; 0 where it has none of its own."""
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (AttributeError, RuntimeError, NotImplementedError):
        return 0


def names_used(kind: type) -> frozenset[str]:
    """Every name that a module's methods use, apart from its constructor."""
    if kind not in _names:
        _names[kind] = _names_used(kind)
    return _names[kind]


def _names_used(kind: type) -> frozenset[str]:
    found: set[str] = set()
    for base in kind.__mro__:
        if base not in (nn.Module, object):
            for name, held in vars(base).items():
                function = function_of(held)
                if name != "__init__" and function is not None:
                    found.update(names_in(function.__code__))
    for function in reached_by(kind):  # it hands itself, or its configuration, to functions
        found.update(names_in(function.__code__))
    return frozenset(found) | asked_for(kind)


def reached_by(kind: type) -> list[types.FunctionType]:
    """Functions that its calls run, apart from torch's."""
    functions = [function_of(value) for _, _, value in pieces(kind)] if not is_aside(kind) else []
    return [each for each in functions if each is not None and not is_aside(each)]


def asked_for(kind: type) -> frozenset[str]:
    """Names that its calls ask for by `getattr` or `hasattr`: an attribute of that name may come later."""
    codes = [each.__code__ for each in reached_by(kind)]
    texts = [text for code in codes if {"getattr", "hasattr"} & set(code.co_names) for text in code.co_consts]
    return frozenset(text for text in texts if isinstance(text, str) and text.isidentifier())


class Teller:
    """Tells values as texts that equal ones have in common."""

    def __init__(self, names: frozenset[str], weights: set[int]) -> None:
        """`names`: of the attributes that are looked at in an object. `weights`: memory whose contents are not told."""
        self.names, self.weights = names, weights

    def told(self, value: Any, depth: int = 0) -> str:
        text = self._told(value, depth)
        return text if len(text) <= LONGEST else f"{text[:SHOWN]}… ({hashlib.sha256(text.encode()).hexdigest()[:16]})"

    def _told(self, value: Any, depth: int) -> str:
        if isinstance(value, enum.Enum):
            return f"{type(value).__name__}.{value.name}"
        if is_plain(value) or isinstance(value, torch.dtype | complex):
            return repr(value)
        if isinstance(value, torch.Tensor):
            return "" if isinstance(value, nn.Parameter) or storage_of(value) in self.weights else _tensor_told(value)
        if isinstance(value, nn.Module | types.ModuleType) or depth >= DEEPEST:
            return ""
        if isinstance(value, type | types.BuiltinFunctionType):
            return str(value.__name__)
        if isinstance(value, types.MethodType):
            return str(value.__func__.__qualname__)
        if isinstance(value, functools.partial):
            return f"partial({self._all((value.func, value.args, value.keywords), depth)})"
        if isinstance(value, types.FunctionType):
            kept = [*(value.__defaults__ or ()), *(content_of(cell) for cell in value.__closure__ or ())]
            return f"{value.__qualname__}({self._all(kept, depth)})"
        if isinstance(value, list | tuple):
            return f"{type(value).__name__}({self._all(value, depth)})"
        if isinstance(value, set | frozenset):
            return f"{type(value).__name__}({', '.join(sorted(self.told(each, depth + 1) for each in value))})"
        if isinstance(value, dict):
            return (
                f"{type(value).__name__}({', '.join(f'{key!r}: {self.told(each, depth + 1)}' for key, each in value.items())})"
            )
        if hasattr(value, "__dict__") or hasattr(value, "__slots__"):
            shown = [(name, self.told(held, depth + 1)) for name, held in held_by(value, self.names)]
            return f"{type(value).__name__}({', '.join(f'{name}={text}' for name, text in shown)})"
        if type(value).__name__ == "ndarray":
            return _array_told(value)
        text = repr(value)  # a range, a slice, bytes, a number of numpy's
        return text if " at 0x" not in text else type(value).__name__

    def _all(self, values: Iterable[Any], depth: int) -> str:
        return ", ".join(self.told(each, depth + 1) for each in values)


def held_by(value: Any, names: frozenset[str]) -> list[tuple[str, Any]]:
    """Of an object what is used by name."""
    slots = getattr(type(value), "__slots__", ())
    found = {name: getattr(value, name) for name in (slots if isinstance(slots, tuple | list) else ()) if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    return [(name, found[name]) for name in sorted(found) if name in names]


def content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty yet
        return None


def _array_told(array: Any) -> str:
    try:
        return f"array of {_tensor_told(torch.as_tensor(array))}"
    except (TypeError, ValueError, RuntimeError):  # of objects, or in an order that torch does not have
        return f"array of {array.dtype} {array.shape}"


def content_told(tensor: torch.Tensor) -> str:
    """Data type, shape and every bit."""
    text = f"{tensor.dtype} {tuple(tensor.shape)}"
    strided = type(tensor) in (torch.Tensor, nn.Parameter) and tensor.layout is torch.strided and not tensor.is_quantized
    if not strided or tensor.is_meta or not 0 < tensor.numel() <= LARGEST_TOLD:
        return text
    held = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
    return f"{text} {hashlib.sha256(ctypes.string_at(held.data_ptr(), held.nbytes)).hexdigest()[:16]}"


def _tensor_told(tensor: torch.Tensor) -> str:
    """Data type, shape and a few sums: another machine may round a table's last bits otherwise. Masks and indices by every bit."""
    exact = content_told(tensor)
    text = f"{tensor.dtype} {tuple(tensor.shape)}"
    if exact == text or not (tensor.is_floating_point() or tensor.is_complex()):
        return exact
    with torch.no_grad():
        values = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor.detach()
        values = values.to("cpu", torch.float64).flatten()
        finite = values.isfinite()
        known = values.where(finite, torch.zeros(()).double())
        places = torch.arange(1, len(values) + 1, dtype=torch.float64) / len(values)
        sums = [known.abs().sum(), (known.abs() * places).sum(), (known.clamp_min(0) * places).sum(), (places[~finite]).sum()]
        return f"{text} {' '.join(f'{float(each):.4g}' for each in sums)}"


def is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, tuple | list):
        return depth < DEEPEST and all(is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def is_watched(name: str, value: Any) -> bool:
    """In every call: values that are plain, and of what is public whichever object it is, but no containers of tensors, which are made anew as often
    as tensors are moved."""
    if isinstance(value, list | tuple | dict):
        return is_plain(value if not isinstance(value, dict) else list(value.values()))
    return is_plain(value) or not (name.startswith("_") or isinstance(value, torch.Tensor))


def as_it_is(value: Any) -> Any:
    """What a later look is compared with: of a short list, set or dictionary of plain values a copy, as it may be changed in place."""
    if type(value) not in (list, tuple, set, dict) or len(value) > MOST_COMPARED:
        return value
    return copy.deepcopy(value) if all(map(is_plain, value.values() if isinstance(value, dict) else value)) else value


def is_same(now: Any, before: Any) -> bool:
    """Equal and of one type: torch tells 1 from 1.0, and 0.0 from -0.0."""
    if type(now) is not type(before):
        return False
    if isinstance(now, list | tuple) and len(now) == len(before):
        return all(one is other or is_same(one, other) for one, other in zip(now, before))
    if isinstance(now, float | complex):
        return repr(now) == repr(before)
    try:
        return bool(now == before)
    except Exception:  # of arrays, say
        return False
