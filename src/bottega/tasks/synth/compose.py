"""One to five operators as a graph: a chain, a residual, a gate, branches, a concatenation, or further inputs on the way."""

from __future__ import annotations

from collections.abc import Callable

from bottega.tasks.synth.catalogue import CATALOGUE
from bottega.tasks.synth.draw import Draw
from bottega.tasks.synth.graph import OperatorGraph
from bottega.tasks.synth.operator import Operator

GEMM = ("convolutions", "matmul")
TAIL_FAMILIES = {
    "activations": 4.0,
    "elementwise": 3.2,
    "norms": 1.3,
    "pooling": 1.0,
    "reductions": 0.9,
    "softmax": 0.5,
    "indexing": 0.25,
    "scans": 0.15,
}
GATES = ("sigmoid", "tanh", "silu", "gelu", "hardsigmoid", "softplus", "relu")
JOINS = {"add": 4.0, "multiply": 2.0, "maximum": 1.0, "subtract": 1.0, "lerp": 0.5, "minimum": 0.5}
ATTEMPTS = 12

Way = Callable[[OperatorGraph, tuple[Operator, ...]], int | None]


def single(draw: Draw, families: tuple[str, ...]) -> OperatorGraph | None:
    """Level 1: an operator and nothing else."""
    entries = [
        entry
        for entry in CATALOGUE.values()
        if "alone" in entry.roles and draw.dtype in entry.dtypes and (not families or entry.family in families)
    ]
    by_family = sorted({entry.family for entry in entries})
    family = draw.weighted(by_family, [_SINGLE.get(name, 1.0) for name in by_family])
    chosen = [entry for entry in entries if entry.family == family]
    operator = draw.weighted(chosen, [entry.often for entry in chosen])
    graph = OperatorGraph(draw)
    graph.structure = "single"
    return graph if graph.apply(operator, graph.begin(operator), alone=True) is not None else None


_SINGLE = {
    "matmul": 2.2,
    "convolutions": 2.4,
    "activations": 1.4,
    "elementwise": 1.6,
    "reductions": 1.5,
    "norms": 1.3,
    "pooling": 1.2,
    "losses": 1.1,
    "softmax": 0.7,
    "scans": 0.9,
    "indexing": 1.3,
    "attention": 1.1,
    "recurrent": 0.6,
}
"""How often a task of one operator is of this family."""


def several(draw: Draw, families: tuple[str, ...]) -> OperatorGraph | None:
    """Level 2: mostly a product or convolution with operators behind it; sometimes a few memory-bound ones in a row."""
    gemm = tuple(family for family in GEMM if not families or family in families)
    others = tuple(family for family in TAIL_FAMILIES if not families or family in families)
    heads_first = bool(gemm) and (not others or draw.chance(0.84))
    heads = tuple(
        entry
        for entry in CATALOGUE.values()
        if draw.dtype in entry.dtypes
        and (
            ("head" in entry.roles and entry.family in gemm)
            if heads_first
            else ("alone" in entry.roles and "tail" in entry.roles and entry.family in others)
        )
    )
    names = tuple(WAYS) if heads_first else ("chain", "residual", "inputs")
    way = draw.weighted(names, [WAYS[name][1] for name in names])
    graph = OperatorGraph(draw)
    graph.structure = way
    if not heads:
        return None
    return graph if WAYS[way][0](graph, heads) is not None else None


def _head(graph: OperatorGraph, heads: tuple[Operator, ...]) -> tuple[int, int] | None:
    """An input, and what the first operator makes of it."""
    draw = graph.draw
    families = sorted({entry.family for entry in heads})
    family = draw.weighted(families, [{"convolutions": 3.0, "matmul": 2.0}.get(name, 1.0) for name in families])
    chosen = [entry for entry in heads if entry.family == family]
    operator = draw.weighted(chosen, [entry.often for entry in chosen])
    x = graph.begin(operator)
    found = graph.apply(operator, x)
    return None if found is None else (x, found)


def _tail(graph: OperatorGraph, at: int, count: int, keep_shape: bool = False) -> int | None:
    """`count` operators behind `at`, none of them twice running; reductions come late."""
    draw = graph.draw
    used: list[str] = []
    for step in range(count):
        for _ in range(ATTEMPTS):
            family = draw.weighted(tuple(TAIL_FAMILIES), tuple(TAIL_FAMILIES.values()))
            if family == "reductions" and step < count - 2:
                continue
            if keep_shape and family not in ("activations", "elementwise", "norms", "softmax"):
                continue
            options = [
                entry
                for entry in CATALOGUE.values()
                if entry.family == family and "tail" in entry.roles and entry.name not in used
            ]
            if not options:
                continue
            operator = draw.weighted(options, [entry.often for entry in options])
            if family == "norms" and any(CATALOGUE[name].family == "norms" for name in used):
                continue
            if _loses_constant(graph, at, operator):
                continue
            shape = graph.nodes[at].value.shape
            found = graph.apply(operator, at)
            if found is None:
                continue
            if keep_shape and graph.nodes[found].value.shape != shape:
                del graph.nodes[found:]
                continue
            _drop_bias(graph, at, operator)
            used.append(operator.name)
            at = found
            break
        else:
            return None
    return at


def _drop_bias(graph: OperatorGraph, at: int, operator: Operator) -> None:
    """A bias in front of an operator that takes the mean of each channel away would be a parameter without effect."""
    if operator.cancels_bias:
        node = graph.nodes[at]
        if "bias" in node.p:
            node.p["bias"] = False


def _loses_constant(graph: OperatorGraph, at: int, entry: Operator) -> bool:
    """Whether the operator at `at` adds a constant by channel that `entry` would take away."""
    node = graph.nodes[at]
    return (
        entry.cancels_bias
        and node.operator is not None
        and node.operator.name in ("bias_add", "bias_subtract", "linear_functional", "conv2d_functional", "conv1d_functional")
    )


def _count(draw: Draw, low: int, high: int) -> int:
    return draw.rng.randint(low, high)


def _chain(graph: OperatorGraph, heads: tuple[Operator, ...]) -> int | None:
    begun = _head(graph, heads)
    return None if begun is None else _tail(graph, begun[1], _count(graph.draw, 1, 4))


def _join(graph: OperatorGraph, one: int, two: int, names: dict[str, float] | None = None) -> int | None:
    options = names or JOINS
    operator = CATALOGUE[graph.draw.weighted(tuple(options), tuple(options.values()))]
    return graph.apply(operator, one, (two,))


def _residual(graph: OperatorGraph, heads: tuple[Operator, ...]) -> int | None:
    begun = _head(graph, heads)
    if begun is None:
        return None
    x, h = begun
    same = graph.nodes[x].value.shape == graph.nodes[h].value.shape
    later = _tail(graph, h, _count(graph.draw, 1, 2), keep_shape=True)
    if later is None:
        return None
    joined = _join(graph, later, x if same else h)
    if joined is None:
        return None
    return _tail(graph, joined, _count(graph.draw, 0, 1))


def _twins(graph: OperatorGraph, heads: tuple[Operator, ...]) -> tuple[int, int] | None:
    """Two layers of one kind on one input, with outputs of one shape."""
    begun = _head(graph, heads)
    if begun is None:
        return None
    x, one = begun
    node = graph.nodes[one]
    assert node.operator is not None
    two = graph.apply(node.operator, x, node.operands[1:], dict(node.p))
    return None if two is None else (one, two)


def _gate(graph: OperatorGraph, heads: tuple[Operator, ...]) -> int | None:
    twins = _twins(graph, heads)
    if twins is None:
        return None
    gate = graph.apply(CATALOGUE[graph.draw.pick(GATES)], twins[1])
    if gate is None:
        return None
    joined = (
        graph.apply(CATALOGUE["multiply"], gate, (twins[0],))
        if graph.draw.chance(0.5)
        else graph.apply(CATALOGUE["multiply"], twins[0], (gate,))
    )
    return None if joined is None else _tail(graph, joined, _count(graph.draw, 0, 1))


def _branches(graph: OperatorGraph, heads: tuple[Operator, ...]) -> int | None:
    twins = _twins(graph, heads)
    if twins is None:
        return None
    ends = [_tail(graph, twin, _count(graph.draw, 0, 1), keep_shape=True) for twin in twins]
    if ends[0] is None or ends[1] is None or (ends == list(twins)):
        return None
    joined = _join(graph, ends[0], ends[1])
    return None if joined is None else _tail(graph, joined, _count(graph.draw, 0, 1))


def _concatenation(graph: OperatorGraph, heads: tuple[Operator, ...]) -> int | None:
    twins = _twins(graph, heads)
    if twins is None:
        return None
    ends = [_tail(graph, twin, _count(graph.draw, 0, 1), keep_shape=True) for twin in twins]
    if ends[0] is None or ends[1] is None:
        return None
    images = graph.nodes[ends[0]].value.layout in ("ncl", "nchw", "ncdhw")
    joined = graph.apply(CATALOGUE["concatenate"], ends[0], (ends[1],), {"dim": 1 if images else -1})
    return None if joined is None else _tail(graph, joined, _count(graph.draw, 1, 2))


def _inputs(graph: OperatorGraph, heads: tuple[Operator, ...]) -> int | None:
    """A second tensor joins behind the head."""
    begun = _head(graph, heads)
    if begun is None:
        return None
    at = _tail(graph, begun[1], _count(graph.draw, 0, 1), keep_shape=True)
    if at is None:
        return None
    value = graph.nodes[at].value
    other = graph.extra(value.shape, value.layout)
    joined = _join(graph, at, other, {"add": 4.0, "multiply": 2.0, "subtract": 0.7, "maximum": 0.5, "lerp": 0.4})
    return None if joined is None else _tail(graph, joined, _count(graph.draw, 0, 2))


WAYS: dict[str, tuple[Way, float]] = {
    "chain": (_chain, 6.0),
    "residual": (_residual, 1.2),
    "gate": (_gate, 0.8),
    "branches": (_branches, 0.8),
    "concatenation": (_concatenation, 0.6),
    "inputs": (_inputs, 1.0),
}
