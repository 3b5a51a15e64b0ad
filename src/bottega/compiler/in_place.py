"""Inputs that `forward` changes, stored where they lie. Without it a kernel fills a new tensor, which is then copied over the input."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from torch.utils._pytree import tree_leaves, tree_map

from bottega.compiler.bodies import loads, made, operands, read, rewritten
from bottega.compiler.expression import Load, with_views
from bottega.compiler.kernel import FunctionCall, Kernel, Map
from bottega.compiler.view import Buffer, View

IN_PLACE = re.compile(
    r"torch\.(ops\.aten\.)?(index_(?:put|add|copy|fill|reduce)|scatter(?:_add|_reduce)?|masked_scatter)(\.\w+)?"
)
"""Calls that change some elements of a tensor: of the whole a copy is made, and copied back, where they are not done in place."""
Changed = tuple[tuple[str, View], ...]


def stored_in_place(
    kernels: list[Kernel], buffers: dict[str, Buffer], returned: Any, changed: Changed, apart: frozenset[str]
) -> tuple[list[Kernel], Any, Changed]:
    """The kernels, what is returned, and the inputs that still have to be copied to. Where the module returns such an input, the input itself
    is returned, as the module does; what it returns as a tensor of its own (`apart`) stays one."""
    kept: list[tuple[str, View]] = []
    for name, view in changed:
        result = view.buffer
        leaves = [leaf for leaf in _leaves((returned, kept)) if leaf.buffer == result]
        whole = all(leaf.text == result and leaf.shape == view.shape for leaf in (view, *leaves))
        if not whole or result in apart or not _may_be_stored(kernels, buffers, name, result):
            kept.append((name, view))
            continue
        kernels = [_renamed(kernel, result, name) for kernel in kernels]
        returned, kept = _swapped((returned, kept), result, dataclasses.replace(view, buffer=name, text=name))
    return kernels, returned, tuple(kept)


def _is_view(value: Any) -> bool:
    return isinstance(value, View)


def _leaves(value: Any) -> list[View]:
    return [leaf for leaf in tree_leaves(value, is_leaf=_is_view) if isinstance(leaf, View)]


def _swapped(value: Any, old: str, new: View) -> Any:
    """With every view of one buffer exchanged."""

    def seen(leaf: Any) -> Any:
        return new if isinstance(leaf, View) and leaf.buffer == old else leaf

    return tree_map(seen, value, is_leaf=_is_view)


def _may_be_stored(kernels: list[Kernel], buffers: dict[str, Buffer], name: str, result: str) -> bool:
    """Whether a map fills `result`, reads of the input no other element than the one that it stores, and nobody reads the input after it."""
    source, target = buffers[name], buffers[result]
    makers = [place for place, kernel in enumerate(kernels) if result in made(kernel)]
    if source.strides or (source.shape, source.dtype) != (target.shape, target.dtype) or len(makers) != 1:
        return False
    kernel, later = kernels[makers[0]], kernels[makers[0] + 1 :]
    if any(name in read(one) or result in _operands(one) for one in later):
        return False
    if isinstance(kernel, FunctionCall):
        return _writes_in_place(kernel, source)
    if not isinstance(kernel, Map):
        return False
    (stored,) = (store.view for store in kernel.stores if store.view.buffer == result)
    return all(isinstance(look, Load) and _place(look.view) == _place(stored) for look in loads(kernel, name))


def _writes_in_place(call: FunctionCall, source: Buffer) -> bool:
    """Whether torch has the call in a form that changes its first argument, and that is the whole input and nothing else of the call."""
    first, others = call.arguments[0], (call.arguments[1:], call.keywords)
    known = IN_PLACE.fullmatch(call.function) is not None and not call.text and len(call.results) == 1
    whole = isinstance(first, View) and first.text == source.name == first.buffer and first.shape == source.shape
    return known and whole and all(view.buffer != source.name for view in _leaves(others))


def _in_place(function: str) -> str:
    found = IN_PLACE.fullmatch(function)
    assert found is not None
    overload, name, which = found.groups()
    return f"torch.ops.aten.{name}_{which}" if overload else f"torch.Tensor.{name}_"


def _operands(kernel: Kernel) -> set[str]:
    return {view.buffer for view in operands(kernel)}


def _place(view: View) -> tuple[Any, ...]:
    return view.shape, view.strides, view.offset


def _renamed(kernel: Kernel, old: str, new: str) -> Kernel:
    """With its looks at one buffer, and its stores there, at another of the same shape."""

    def other(view: View) -> View:
        return dataclasses.replace(view, buffer=new, text=new) if view.buffer == old else view

    fresh = rewritten(kernel, lambda body: with_views(body, other))
    assert fresh is not None
    if isinstance(fresh, FunctionCall) and old in fresh.results:
        return dataclasses.replace(fresh, function=_in_place(fresh.function), results=(new,))
    if not isinstance(fresh, Map):
        return fresh
    return dataclasses.replace(fresh, stores=tuple(dataclasses.replace(s, view=other(s.view)) for s in fresh.stores))
