"""The state that a kernel shares with its original, and what else of a module a kernel relies on."""

import contextlib
import ctypes
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.drop_in.attributes import (
    CODE,
    DEEPEST,
    MOST_COMPARED,
    as_it_is,
    asked_for,
    attributes,
    attributes_of,
    content_told,
    held_by,
    is_plain,
    is_watched,
    names_used,
    original_of,
    standing_for,
    tables,
)
from bottega.episodes.delivery.drop_in.code import PYTHON, pieces

ALIGNMENT = 64
"""Bytes. Tensors of torch's own lie so, and so did the judged ones: kernels with vector loads rely on it."""


class Place:
    """Where a module holds one tensor of its state, and what the tensor was like when last looked at."""

    def __init__(self, owner: nn.Module, held: Mapping[str, Any], leaf: str) -> None:
        self.owner, self.held, self.leaf = owner, held, leaf
        self.look()

    @property
    def tensor(self) -> Any:
        return self.held.get(self.leaf)

    def look(self) -> None:
        self.known: Any = self.held[self.leaf]
        self.counted = not self.known.is_inference()
        self.version, self.address = self.known._version if self.counted else -1, address_of(self.known)
        self.word = word_of(self.known, self.address)
        self.content = self.word.value if self.word is not None else 0

    def changed(self) -> bool:
        now: Any = self.held.get(self.leaf)
        if now is not self.known or (self.counted and now._version != self.version):
            return True
        try:
            if now.data_ptr() != self.address:
                return True
        except RuntimeError:
            return self.address != 0
        return self.word is not None and self.word.value != self.content


def address_of(tensor: Any) -> int:
    """0 for one without memory of its own, as in a transform of torch's."""
    try:
        return int(tensor.data_ptr())
    except RuntimeError:
        return 0


def word_of(tensor: Any, address: int) -> Any:
    """The eight bytes in the middle of what lies on the host: a change through `.data` counts no version, and shows there."""
    if not address or type(tensor) not in (torch.Tensor, nn.Parameter) or tensor.device.type != "cpu" or tensor.nbytes < 8:
        return None
    return ctypes.c_uint64.from_address(address + tensor.nbytes // 16 * 8) if tensor.is_contiguous() else None


def places(module: nn.Module) -> dict[str, Place]:
    """The tensors of a module's state by name. Not by state_dict(): hooks on that one shard parameters that are gathered for a call."""
    found = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for held in (owner._parameters, owner._buffers):
            for leaf, tensor in held.items():
                name = f"{path}.{leaf}" if path else leaf
                if tensor is not None and leaf not in owner._non_persistent_buffers_set:
                    found[name] = Place(owner, held, leaf)
    return found


def tensors(module: nn.Module) -> list[Any]:
    return [place.tensor for place in places(module).values()]


def hooks_of(module: nn.Module) -> dict[str, int]:
    """How many hooks each part has. Some come with a module (as weight_norm's do); one that is added later must be heard."""
    counts = {path: sum(map(hook_count, standing_for(part))) for path, part in module.named_modules() if path}
    return {path: count for path, count in counts.items() if count}


def hook_count(module: nn.Module) -> int:
    return len(module._forward_hooks) + len(module._forward_pre_hooks)


def watched(module: nn.Module, ignore: Any) -> list[Any]:
    """Where a module's parts, the weights that it does not have and its attributes are kept, by name, and what is there now."""
    found: list[Any] = []
    codes = {kind: pieces(kind) for kind in {type(original_of(part)) for part in module.modules()}}
    asked = {kind: asked_for(kind) for kind in codes}
    for part in module.modules():
        owner = original_of(part)
        found += [(owner._modules, name, inner) for name, inner in owner._modules.items()]
        found += [(held, name, None) for held in (owner._parameters, owner._buffers) for name in held if held[name] is None]
        # As tools that wrap a module put them there.
        found += [(each.__dict__, "forward", each.__dict__.get("forward")) for each in standing_for(part)]
        own = {name for held, name, _ in codes[type(owner)] if name not in owner.__dict__ and hasattr(type(owner), name)}
        found += [(owner.__dict__, name, None) for name in sorted(own - {"forward"})]
        values = [(name, as_it_is(value)) for name, value in attributes(owner) if name not in ignore]
        found += [(owner.__dict__, name, value) for name, value in values if is_watched(name, value)]
        for name, value in attributes(owner):
            if name not in ignore:
                entries = inside(owner.__dict__, name, value, names_used(type(owner)))
                found += [(held, leaf, as_it_is(each)) for held, leaf, each in entries if is_watched(str(leaf), each)]
        later = asked[type(owner)] - {*owner.__dict__, *owner._parameters, *owner._buffers, *owner._modules}
        found += [(owner.__dict__, name, None) for name in sorted(later) if not hasattr(type(owner), name)]
    if CODE not in ignore:
        reached = [piece for each in codes.values() for piece in each if not isinstance(piece[2], torch.Tensor)]
        found += [piece for piece in reached if not isinstance(piece[0], dict)]  # of classes
        found += {(id(piece[0]), piece[1]): piece for piece in reached if isinstance(piece[0], dict)}.values()
    return found


class Inner:
    """What now stands in a container or an object that is held under a name."""

    def __init__(self, held: Any, leaf: Any) -> None:
        self.held, self.leaf = held, leaf

    def get(self, key: Any) -> Any:
        value = self.held.get(self.leaf)
        try:
            if key is len:
                return len(value)
            return value[key] if isinstance(value, list | tuple | dict) else getattr(value, key)
        except (LookupError, TypeError, AttributeError):
            return None

    __getitem__ = get


def inside(held: Any, leaf: Any, value: Any, names: frozenset[str], depth: int = 0) -> Iterator[tuple[Any, Any, Any]]:
    """What a container holds, and an object, as a configuration is, of what is used by name."""
    simple = (nn.Module, torch.Tensor, type, set, types.FunctionType, types.MethodType, types.ModuleType)
    if depth >= DEEPEST or isinstance(value, simple) or is_plain(value):
        return
    box = Inner(held, leaf)
    entries: list[tuple[Any, Any, Any]]
    if isinstance(value, list | tuple | dict):
        if len(value) > MOST_COMPARED:
            return
        yield box, len, len(value)
        entries = [(box, key, each) for key, each in (value.items() if isinstance(value, dict) else enumerate(value))]
    else:
        own = getattr(value, "__dict__", {})
        entries = [(own if name in own else box, name, each) for name, each in held_by(value, names)]
    for where, name, each in entries:
        yield where, name, each
        yield from inside(where, name, each, names, depth + 1)


def sizes(module: nn.Module) -> list[tuple[Any, int]]:
    """How many parts and parameters each part has: one that is added later has a name that nobody knows."""
    helds = [held for owner in module.modules() for held in (owner._modules, owner._parameters)]
    return [(held, len(held)) for held in helds]


def unshared(module: nn.Module, ignore: Any) -> list[Place]:
    """Tensors that the kernel has of its own making: attributes, and buffers that are in no checkpoint."""
    found = []
    for owner in map(original_of, module.modules()):
        kept: list[tuple[Any, Any]] = []
        kept += [(owner.__dict__, name) for name, value in attributes(owner) if isinstance(value, torch.Tensor)]
        kept += [(owner._buffers, name) for name, _ in tables(owner)]
        kept += [(held, name) for held, name, value in pieces(type(owner)) if isinstance(value, torch.Tensor)]
        found += [Place(owner, held, name) for held, name in kept if name not in ignore]
        for name, value in attributes(owner):
            if name not in ignore:
                entries = inside(owner.__dict__, name, value, names_used(type(owner)))
                found += [Place(owner, held, leaf) for held, leaf, each in entries if isinstance(each, torch.Tensor)]
    return found


def contents_of(module: nn.Module, ignore: Any) -> list[str]:
    """The same tensors bit by bit: in a large table a few elements that were changed since it was loaded show in no sum."""
    return [content_told(place.tensor) for place in unshared(module, ignore)]


def ties_of(module: nn.Module) -> list[list[str]]:
    """The names that one tensor has, where it has several."""
    found: dict[int, list[str]] = {}
    for name, place in places(module).items():
        found.setdefault(id(place.tensor), []).append(name)
    return [names for names in found.values() if len(names) > 1]


def untied(wanted: dict[str, Place], ties: Any) -> str:
    """Two names that were one tensor's when the kernel was made, and are not now: it may read either."""
    for first, *others in ties:
        for other in others:
            if first in wanted and other in wanted and wanted[first].tensor is not wanted[other].tensor:
                return f"{first} and {other} are two, and were one tensor"
    return ""


def mismatch(own: dict[str, Place], wanted: dict[str, Place]) -> str:
    """How the names or shapes of two modules' states differ; nothing when they do not."""
    shapes = [name for name in own.keys() & wanted.keys() if own[name].tensor.shape != wanted[name].tensor.shape]
    parts = (("lacks", wanted.keys() - own.keys()), ("adds", own.keys() - wanted.keys()), ("has other shapes for", shapes))
    return "; ".join(f"{word} {', '.join(sorted(names)[:5])}" for word, names in parts if names)


def unlike(own: dict[str, Place], wanted: dict[str, Place], device: torch.device) -> str:
    """Why the original's tensors cannot stand in for the kernel's as they lie in memory now."""
    for name, place in own.items():
        mine, theirs = place.tensor, wanted[name].tensor
        if type(theirs) not in (torch.Tensor, nn.Parameter):  # a sharded or a quantized one: its memory is somewhere else
            return f"parameter {name} is a {type(theirs).__name__}"
        if theirs.device != device:
            return f"parameter {name} is on {theirs.device}"
        if theirs.dtype != mine.dtype:
            return f"parameter {name} is {theirs.dtype} where {mine.dtype} was"
        if theirs.layout != mine.layout or any(n > 1 and a != b for n, a, b in zip(mine.shape, mine.stride(), theirs.stride())):
            return f"parameter {name} has another memory layout"
        if theirs.numel() and (not address_of(theirs) or address_of(theirs) % ALIGNMENT):
            return f"parameter {name} is not aligned"
    return ""


def align(wanted: dict[str, Place]) -> None:
    """Copy tensors that lie unaligned and share their memory with no other: safetensors are mapped from their file as they lie there."""
    for place in wanted.values():
        tensor = place.tensor
        strided = tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_inference()
        if strided and tensor.data_ptr() % ALIGNMENT and tensor.untyped_storage().nbytes() == tensor.nbytes:
            tensor.data = tensor.detach().clone()
            place.look()


def share(kernel: nn.Module, own: dict[str, Place], wanted: dict[str, Place]) -> None:
    """Put the original's tensors, not copies of them, in the place of the kernel's."""
    for name, place in own.items():
        mine, theirs = place.tensor, wanted[name].tensor
        place.owner._parameters.pop(place.leaf, None)
        place.owner._buffers.pop(place.leaf, None)
        held: Any = place.owner._parameters if isinstance(theirs, nn.Parameter) else place.owner._buffers
        held[place.leaf] = theirs
        if mine.is_floating_point() and mine is not theirs:
            # Whoever still looks at the old one, in a way that `keepsake` cannot see, shall not find plausible values there.
            with torch.no_grad(), contextlib.suppress(RuntimeError):
                mine.fill_(float("nan"))


def keepsake(kernel: nn.Module, own: dict[str, Place]) -> str:
    """The name of an attribute that holds a parameter, or a view of one, a second time."""
    storages = {place.tensor.untyped_storage().data_ptr() for place in own.values() if place.tensor.numel()}

    def held(value: Any, depth: int = 0) -> bool:
        if isinstance(value, torch.Tensor):
            return value.layout is torch.strided and value.untyped_storage().data_ptr() in storages
        if isinstance(value, dict):
            value = list(value.values())
        return depth < 4 and isinstance(value, list | tuple | set) and any(held(item, depth + 1) for item in value)

    for path, owner in kernel.named_modules():
        registered = ("_parameters", "_buffers", "_modules")
        attributes = {name: value for name, value in owner.__dict__.items() if name not in registered}
        extra = {name: value for name, value in owner._buffers.items() if (f"{path}.{name}" if path else name) not in own}
        for name, value in (*attributes.items(), *extra.items()):
            if held(value):
                return f"{path}.{name}" if path else name
    return ""


def difference(original: nn.Module, built: dict[str, Any], ignore: Any) -> str:
    """What about a module is not as it was when the kernel was made: its parts, and their plain attributes."""
    found = attributes_of(original)
    for path in [*built, *found]:
        where = f"its part {path}" if path else "it"
        if path not in found or path not in built:
            return f"{where} is {'missing' if path not in found else 'new'}"
        (was, wanted), (kind, own) = built[path], found[path]
        if kind != was:
            return f"{where} is a {kind}, and was a {was}"
        if CODE not in ignore and _other_code(own.get(CODE, ""), wanted.get(CODE, "")):
            return f"the code of {kind} has changed since (ignore=({CODE!r},) says that it does not matter)"
        for name in [*wanted, *own]:
            if name not in (*ignore, CODE) and own.get(name) != wanted.get(name):
                shown = f"{path}.{name}" if path else name
                return f"{shown} is {own.get(name, 'missing')}, and was {wanted.get(name, 'missing')}"
    return ""


def _other_code(now: str, before: str) -> bool:
    return now != before and {now.partition(" ")[0], before.partition(" ")[0]} <= {PYTHON, ""}
