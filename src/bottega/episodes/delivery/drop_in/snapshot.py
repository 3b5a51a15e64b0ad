"""What a model holds, noted so that a later look tells whether anything of it changed: its parts, weights, attributes, and what lists, dictionaries,
configurations and closures of its code hold in turn. A replayed recording runs no Python, so that nothing else would hear of a change."""

import operator
import types
import weakref
from collections import deque
from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.drop_in.attributes import OF_EVERY_MODULE, content_of, is_same, standing_for
from bottega.episodes.delivery.drop_in.code import function_of, is_aside, names_in, pieces
from bottega.episodes.delivery.drop_in.state import Place, address_of

MOST_HELD = 8192
"""Lists, dictionaries and objects that are looked at, apart from modules."""
MOST_ENTRIES = 4096
"""Of a longer list or dictionary the length alone is looked at."""
SCALARS = (bool, int, float, complex, str)
KEPT = ("training", "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
_COMPILED = "_compiled_call_impl"


class Snapshot:
    """`full` is set where the model holds more than is looked at. It refers to the model itself weakly: this may be held by the model."""

    def __init__(self, model: nn.Module) -> None:
        self.full = False
        self.hooks: list[Any] = []
        self.places: list[Place] = []
        self._model = weakref.ref(model)
        self._kind = type(model)
        self._parts: list[tuple[nn.Module, type]] = []
        self._tables: list[Any] = []
        self._names: list[Any] = []
        self._values: list[Any] = []
        """What each of these dictionaries has under this name."""
        self._lists: list[tuple[Any, list[Any]]] = []
        self._sized: list[Any] = []
        self._sizes: list[int] = []
        self._same: list[tuple[Any, Any, Any]] = []
        """What is asked again, by which function, and its answer then: this object, or an equal plain value."""
        self._equal: list[tuple[Any, Any, Any]] = []
        self._addresses: list[tuple[Any, int]] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        self._left: deque[Any] = deque([model])
        while self._left and not self.full:
            self._take(self._left.popleft())
        self._seen.clear()
        self._alive.clear()
        self._left.clear()

    def moved(self) -> bool:
        """Memory that recordings read is somebody else's now."""
        return any(address_of(tensor) != address for tensor, address in self._addresses)

    def changed(self) -> bool:
        if type(self._model()) is not self._kind or any(type(part) is not kind for part, kind in self._parts):
            return True
        if list(map(len, self._sized)) != self._sizes:
            return True
        try:
            now = list(map(operator.getitem, self._tables, self._names))
        except KeyError:
            return True
        if not all(map(operator.is_, now, self._values)) and not all(map(is_as_before, now, self._values)):
            return True
        if not all(all(map(is_as_before, row, values)) for row, values in self._lists):
            return True
        if any(place.changed() for place in self.places):
            return True
        if any(not is_as_before(ask(each), answer) for each, ask, answer in self._same):
            return True
        return any(ask(each) != answer for each, ask, answer in self._equal)

    def _take(self, value: Any) -> None:
        if value is None or type(value) in SCALARS or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._alive.append(value)  # an id is somebody else's once its object is gone
        if isinstance(value, torch.Tensor):
            self.places.append(Place(None, {"": value}, ""))  # type: ignore[arg-type]
            self._addresses.append((value, self.places[-1].address))
        elif isinstance(value, nn.Module):
            self._module(value)
        elif isinstance(value, types.FunctionType | types.MethodType):
            self._function(value)
        elif isinstance(value, dict):
            self._table(value)
        elif isinstance(value, list | deque):
            if self._fits(value):
                self._lists.append((value, list(value)))
                self._left.extend(value)
        elif isinstance(value, tuple | frozenset):
            self._left.extend(value)
        elif isinstance(value, set):
            self._equal.append((value, frozenset, frozenset(value)))
        elif type(value).__name__ == "partial":
            self._left.extend((value.func, value.args, value.keywords))
        elif type(value).__name__ == "ndarray":
            self._equal.append((value, bytes_of, bytes_of(value)))
        elif isinstance(value, type | types.ModuleType) or (is_aside(value) and not isinstance(value, types.SimpleNamespace)):
            return
        else:
            slots = [name for kind in type(value).__mro__ for name in slots_of(kind) if hasattr(value, name)]
            for name in slots:
                ask = lambda each, name=name: getattr(each, name, None)  # noqa: E731
                self._same.append((value, ask, ask(value)))
                self._left.append(ask(value))
            if hasattr(value, "__dict__"):
                self._table(vars(value))

    def _module(self, module: nn.Module) -> None:
        for part in standing_for(module):
            self._seen.add(id(part))
            if part is not self._model():
                self._parts.append((part, type(part)))
            self.hooks += [part._forward_hooks, part._forward_pre_hooks]
            own = part.__dict__
            if getattr(type(part), "IS_DROP_IN", False):  # it counts its calls; its kernel is another one after `refresh`
                for name in ("_kernel", "forward"):
                    ask = lambda each, name=name: each.get(name)  # noqa: E731
                    self._same.append((own, ask, ask(own)))
                for each in self.hooks[-2:]:
                    self._size(each)
                continue
            self._size(own)
            for name in own:
                if name in KEPT or name not in OF_EVERY_MODULE:
                    self._entry(own, name)
            kind = type(part)
            if id(kind) not in self._seen:
                self._seen.add(id(kind))
                for held, name, value in pieces(kind):
                    self._entry(held, name)
                    self._left.append(function_of(value) or value)

    def _function(self, function: Any) -> None:
        if isinstance(function, types.MethodType):
            self._left.append(function.__self__)
            function = function.__func__
        if is_aside(function):
            return
        for cell in function.__closure__ or ():
            self._same.append((cell, content_of, content_of(cell)))
            self._left.append(content_of(cell))
        self._left.extend(function.__defaults__ or ())
        for name in names_in(function.__code__):
            held = function.__globals__.get(name)
            if isinstance(held, dict | list | set):
                self._left.append(held)

    def _table(self, table: Any) -> None:
        if self._fits(table):
            for name in table:
                self._entry(table, name)

    def _entry(self, table: Any, name: Any) -> None:
        self._tables.append(table)
        self._names.append(name)
        self._values.append(table[name])
        if name != _COMPILED:
            self._left.append(table[name])

    def _size(self, container: Any) -> None:
        self._seen.add(id(container))
        self._sized.append(container)
        self._sizes.append(len(container))

    def _fits(self, container: Any) -> bool:
        self._size(container)
        self.full = len(self._sized) > MOST_HELD + 16 * len(self._parts)
        return len(container) <= MOST_ENTRIES


def is_as_before(now: Any, before: Any) -> bool:
    """The same object, or an equal plain value; another list would be looked at no more."""
    return now is before or (type(before) in SCALARS and is_same(now, before))


def bytes_of(array: Any) -> Any:
    return array.tobytes() if array.nbytes <= MOST_ENTRIES else array.ctypes.data


def slots_of(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]
