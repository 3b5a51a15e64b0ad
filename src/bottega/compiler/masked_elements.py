"""`x[mask]` has as many elements as the mask says, and no kernel is written for such a size. What is done with them mostly has a size again: they are
changed and written back (`x[mask] += 1`), or summed (`(x[mask] - y[mask]).square().mean()`). So elements are computed where they lie, chosen or not,
and the mask chooses at the end."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten
CHOOSING = (aten.index.Tensor, aten.masked_select.default)
POINTWISE = (aten.mse_loss, aten.l1_loss, aten.smooth_l1_loss, aten.huber_loss, aten.binary_cross_entropy_with_logits)
"""Losses, which are an element for each element before they are summed."""
COPIES = (aten._to_copy, aten.clone, aten.to, aten.detach, aten.alias, aten.type_as)
WHOLE_DIVISIONS = (aten.floor_divide, aten.remainder, aten.fmod, aten.div)
"""Of whole numbers: a divisor that was not chosen may be zero."""
NONE, MEAN, SUM = 0, 1, 2


def with_masks_kept(graph: Graph) -> None:
    """Changes the graph. What is not understood stays as it is, sizes that depend on values and all."""
    if not any(_is_open(node) for node in graph.nodes):
        return
    found = _MaskedElements(graph)
    for node in list(graph.nodes):
        if node.op == "call_function":
            with contextlib.suppress(KeyError), graph.inserting_before(node):
                found.read(node)
    for node in reversed(list(graph.nodes)):
        checks = "_assert_" in str(node.target) or "constrain_range" in str(node.target)
        if (
            node.op == "call_function"
            and not node.users
            and (checks or _is_open(node) or _is_number(node) or node in found.replaced)
        ):
            graph.erase_node(node)


def _is_open(node: Node) -> bool:
    """Whether a size of its result depends on values."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(not isinstance(size, int) for size in value.shape)


def _is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat)


class _MaskedElements:
    """Results that a mask has chosen, each with the mask and the tensor that it was chosen of. KeyError stands for what is not understood."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.chosen: dict[Node, tuple[Node, Node]] = {}
        self.replaced: set[Node] = set()

    def read(self, node: Node) -> None:
        if node.target in CHOOSING:
            self.chosen[node] = self._choice(node)
            return
        own = [each for each in node.all_input_nodes if each in self.chosen]
        if not own:
            return
        mask, packet = self.chosen[own[0]][0], getattr(node.target, "overloadpacket", None)
        if node.target is aten.index_put.default:
            self._put(node)
        elif packet in (aten.sum, aten.mean):
            self._reduced(node, mask, self._wide(node.args[0], mask), packet is aten.mean, node.args[1:], dict(node.kwargs))
        elif packet in POINTWISE:
            self._loss(node, mask)
        elif packet in COPIES or torch.Tag.pointwise in getattr(node.target, "tags", ()):
            self.chosen[node] = mask, self._elementwise(node, mask)

    def _choice(self, node: Node) -> tuple[Node, Node]:
        source, mask = node.args[0], node.args[1]
        if isinstance(mask, list | tuple):
            (mask,) = mask if len(mask) == 1 else [None]
        if not isinstance(mask, Node) or not isinstance(source, Node) or _is_open(source):
            raise KeyError(node)
        sizes, whole = mask.meta["val"], source.meta["val"].shape
        if sizes.dtype != torch.bool or whole[: sizes.ndim] != sizes.shape:
            raise KeyError(node)
        if node.target is aten.masked_select.default and whole != sizes.shape:
            raise KeyError(node)
        return mask, source

    def _wide(self, value: Any, mask: Node) -> Any:
        """An operand over all elements: chosen by the same mask, or one that repeats for each of them."""
        if not isinstance(value, Node) or not isinstance(value.meta["val"], torch.Tensor):
            if isinstance(value, Node):
                raise KeyError(value)
            return value
        if value in self.chosen:
            other, whole = self.chosen[value]
            if not _same(mask, other):
                raise KeyError(value)
            return whole
        if _is_open(value) or value.meta["val"].ndim:
            raise KeyError(value)
        return value

    def _elementwise(self, node: Node, mask: Node) -> Node:
        if not node.meta["val"].is_floating_point() and getattr(node.target, "overloadpacket", None) in WHOLE_DIVISIONS:
            raise KeyError(node)
        options = {key: self._wide(value, mask) for key, value in node.kwargs.items()}
        return self._made(node.target, *(self._wide(value, mask) for value in node.args), **options)

    def _loss(self, node: Node, mask: Node) -> None:
        schema = node.target._schema.arguments  # type: ignore[union-attr]
        given = dict(zip((argument.name for argument in schema), node.args)) | node.kwargs
        reduction = given.get("reduction", MEAN)
        given = {argument.name: argument.default_value for argument in schema} | given | {"reduction": NONE}
        whole = self._made(node.target, *(self._wide(value, mask) for value in given.values()))
        if reduction == NONE:
            self.chosen[node] = mask, whole
        else:
            self._reduced(node, mask, whole, reduction == MEAN, (), {})

    def _reduced(self, node: Node, mask: Node, whole: Any, mean: bool, more: tuple[Any, ...], options: dict[str, Any]) -> None:
        """A sum over everything that was chosen, or over its places alone where a dimension is named."""
        value, sizes = whole.meta["val"], mask.meta["val"]
        dims = list(range(value.ndim))
        if more or options.get("dim") is not None:
            if [*(more[0] if more else options["dim"])] != [0] or len(more) > 1:
                raise KeyError(node)
            dims = list(range(sizes.ndim))
        if options.keys() - {"dtype", "dim"}:
            raise KeyError(node)
        kind = {"dtype": options.get("dtype")} if options.get("dtype") is not None else {}
        total = self._made(aten.sum.dim_IntList, self._where(mask, whole, 0), dims, False, **kind)
        if mean:
            count = self._made(aten.sum.dim_IntList, mask, list(range(sizes.ndim)), False)
            inside = value[(0,) * sizes.ndim].numel() if len(dims) > sizes.ndim else 1
            count = count if inside == 1 else self._made(aten.mul.Tensor, count, inside)
            total = self._made(aten.div.Tensor, total, count)
        if total.meta["val"].dtype != node.meta["val"].dtype:
            raise KeyError(node)
        self._replace(node, total)

    def _put(self, node: Node) -> None:
        target, places, values, *accumulate = node.args
        mask = places[0] if isinstance(places, list | tuple) and len(places) == 1 else None
        if not isinstance(mask, Node) or not isinstance(target, Node) or mask.meta["val"].dtype != torch.bool:
            raise KeyError(node)
        whole = self._wide(values, mask)
        if target.meta["val"].shape != whole.meta["val"].shape:
            raise KeyError(node)
        if accumulate and accumulate[0]:
            whole = self._made(aten.add.Tensor, target, whole)
        self._replace(node, self._where(mask, whole, target))

    def _replace(self, node: Node, new: Node) -> None:
        node.replace_all_uses_with(new)
        self.replaced.add(node)

    def _where(self, mask: Node, chosen: Node, other: Any) -> Node:
        inside = chosen.meta["val"].ndim - mask.meta["val"].ndim
        for _ in range(inside):
            mask = self._made(aten.unsqueeze.default, mask, -1)
        if not isinstance(other, Node):
            return self._made(aten.where.ScalarOther, mask, chosen, other)
        return self._made(aten.where.self, mask, chosen, other)

    def _made(self, target: Any, *arguments: Any, **options: Any) -> Node:
        made = self.graph.call_function(target, arguments, options)
        values: Any = torch.fx.map_arg((made.args, made.kwargs), lambda node: node.meta["val"])  # type: ignore[type-var]
        mode = next(node.meta["val"].fake_mode for node in made.all_input_nodes)
        with mode:
            made.meta["val"] = target(*values[0], **values[1])
        return made


def _same(one: Any, other: Any) -> bool:
    """Whether two nodes compute the same: a mask that is written twice is computed twice."""
    if not isinstance(one, Node) or not isinstance(other, Node):
        return isinstance(one, type(other)) and bool(one == other)
    if one is other:
        return True
    alike = one.op == other.op == "call_function" and one.target == other.target and len(one.args) == len(other.args)
    return alike and one.kwargs == other.kwargs and all(map(_same, one.args, other.args))
