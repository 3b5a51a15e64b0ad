"""What is computed for one element, as a tree. The vocabulary is small; richer operators are written in terms of it.

Floating types narrower than fp32 are loaded as fp32, computed in fp32 and rounded when they are stored; fp64 stays fp64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed

from bottega.compiler.view import View, hash_once

_UNARY = (
    "neg abs exp exp2 expm1 log log2 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "sigmoid relu floor ceil round trunc sign not isnan square"
)
BITS = frozenset(("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"))
"""Of whole numbers. What is shifted right keeps its sign; by how much lies within the type."""
_BINARY = (
    f"add sub mul div pow fmod remainder floor_divide atan2 maximum minimum lt le gt ge eq ne and or {' '.join(sorted(BITS))}"
)
UNARY = frozenset(_UNARY.split())
"""`relu` passes NaN on and `sign` has none, as torch does; `round` goes to even; `sigmoid` must not overflow."""
BINARY = frozenset(_BINARY.split())
"""`maximum` and `minimum` pass NaN on; `remainder` has the sign of the divisor, `fmod` of the dividend."""
TERNARY = frozenset(("where",))
TRUTHS = frozenset(("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "isnan"))
"""Functions whose results are true or false."""
FUNCTIONS = UNARY | BINARY | TERNARY


@dataclass(frozen=True)
class Load:
    """The element of a view at the kernel's indices."""

    view: View
    dtype: str

    def __hash__(self) -> int:
        return hash_once(self, self.view, self.dtype)


@dataclass(frozen=True)
class Gather:
    """The element of a view where the index along one of its dimensions is computed: embedding, gather, the target's logit.

    The view has one dimension for each loop, plus, at `axis_stride` elements apart, a dimension of `size` entries that is
    indexed by `index`.
    """

    view: View
    axis_stride: int
    size: int
    index: Expression
    dtype: str

    def __hash__(self) -> int:
        return hash_once(self, self.view, self.axis_stride, self.size, self.index, self.dtype)


@dataclass(frozen=True, eq=False)
class Constant:
    value: float | int | bool
    text: str = ""
    """Where the module keeps it, as Python text (`self.scale`), when it is an attribute: style may pass it as an argument."""

    def __eq__(self, other: object) -> bool:
        """To Python 1, 1.0 and True are the same, and so are both zeros; in a kernel they are not."""
        return isinstance(other, Constant) and (repr(self.value), self.text) == (repr(other.value), other.text)

    def __hash__(self) -> int:
        return hash((repr(self.value), self.text))


@dataclass(frozen=True)
class Index:
    """The kernel's index along one of its loops (before loops are merged)."""

    axis: int


@dataclass(frozen=True)
class Name:
    """Something the kernel has computed: a reduction, an accumulator, the element of a window."""

    name: str


@dataclass(frozen=True)
class Apply:
    function: str
    arguments: tuple[Expression, ...]
    title: str = field(default="", compare=False)
    """The result that it is, where it is one: what it is called in a kernel."""

    def __hash__(self) -> int:
        return hash_once(self, self.function, self.arguments)

    def __eq__(self, other: object) -> bool:
        """Two that were found alike stand for one from then on: else their parts are compared again along each path."""
        if self is other:
            return True
        if not isinstance(other, Apply) or hash(self) != hash(other):
            return False
        first, second = self._first(), other._first()
        if first is not second:
            if (first.function, first.arguments) != (second.function, second.arguments):
                return False
            object.__setattr__(second, "_same", first)
        return True

    def _first(self) -> Apply:
        found: Apply = self
        while (next_one := found.__dict__.get("_same")) is not None:
            found = next_one
        return found


@dataclass(frozen=True)
class Cast:
    """To another data type, as torch casts: floats to integers toward zero, anything to bool by comparison with 0."""

    dtype: str
    argument: Expression
    title: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return hash_once(self, self.dtype, self.argument)


Expression = Load | Gather | Constant | Index | Name | Apply | Cast


def children(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, Apply):
        return expression.arguments
    if isinstance(expression, Cast):
        return (expression.argument,)
    return (expression.index,) if isinstance(expression, Gather) else ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Every node of the tree, each distinct one once, arguments before what uses them."""
    seen: set[Expression] = set()
    pending = [(expression, iter(children(expression)))]
    while pending:
        node, left = pending[-1]
        for child in left:
            if child not in seen:
                pending.append((child, iter(children(child))))
                break
        else:
            pending.pop()
            if node not in seen:
                seen.add(node)
                yield node


def reads(expression: Expression) -> tuple[Load | Gather, ...]:
    """What it loads, each once. Kept with the tree, which never changes: fusion asks for it whenever a kernel is one of a pair."""
    if isinstance(expression, Load):
        return (expression,)
    if not isinstance(expression, Apply | Cast):
        return tuple(node for node in walk(expression) if isinstance(node, Load | Gather))
    known: tuple[Load | Gather, ...] | None = vars(expression).get("_reads")
    if known is None:
        known = tuple(node for node in walk(expression) if isinstance(node, Load | Gather))
        vars(expression)["_reads"] = known
    return known


def operations(expression: Expression) -> int:
    """How many functions it applies, each once. Kept as `reads` is."""
    if not isinstance(expression, Apply | Cast):
        return sum(isinstance(node, Apply) for node in walk(expression))
    known: int | None = vars(expression).get("_operations")
    if known is None:
        vars(expression)["_operations"] = known = sum(isinstance(node, Apply) for node in walk(expression))
    return known


def views(expression: Expression) -> list[View]:
    return [node.view for node in reads(expression)]


def with_views(
    expression: Expression, change: Callable[[View], View | None], swap: Mapping[Expression, Expression] | None = None
) -> Expression | None:
    """The tree with every view that it reads changed; None where `change` returns None for one. `swap` has further replacements."""
    swaps = dict(swap or {})
    for node in reads(expression):
        view = change(node.view)
        if view is None:
            return None
        if isinstance(node, Load):
            swaps[node] = Load(view, node.dtype)
        else:
            swaps[node] = Gather(view, node.axis_stride, node.size, replace(node.index, swaps), node.dtype)
    return replace(expression, swaps)


def names(expression: Expression) -> set[str]:
    return {node.name for node in walk(expression) if isinstance(node, Name)}


def apply(function: str, *arguments: Expression | float | int | bool) -> Apply:
    if function not in FUNCTIONS:
        raise ValueError(f"no such function: {function}")
    return Apply(function, tuple(a if isinstance(a, Expression) else Constant(a) for a in arguments))


def finite_or_zero(x: Expression) -> Apply:
    """What torch's logsumexp takes off: a maximum, unless it is infinite."""
    return apply("where", apply("eq", apply("abs", x), math.inf), 0.0, x)


def titled(expression: Expression, title: str) -> Expression:
    """The same, known as the result of that name unless it has one already."""
    return changed(expression, title=title) if isinstance(expression, Apply | Cast) and not expression.title else expression


def replace(expression: Expression, swap: Mapping[Expression, Expression]) -> Expression:
    """The tree with some of its nodes replaced. What stands in several places is made once, and stays one object; what holds none of them stays
    the object that it is, with all that is known of it."""
    made: dict[int, Expression] = {}
    if not swap:
        return expression

    def new(node: Expression) -> Expression:
        if id(node) not in made:
            made[id(node)] = fresh(node)
        return made[id(node)]

    def fresh(node: Expression) -> Expression:
        if node in swap:
            return swap[node]
        before = children(node)
        after = tuple(map(new, before))
        if all(one is other for one, other in zip(before, after)):
            return node
        if isinstance(node, Apply):
            return Apply(node.function, after, node.title)
        if isinstance(node, Cast):
            return Cast(node.dtype, after[0], node.title)
        assert isinstance(node, Gather)
        return Gather(node.view, node.axis_stride, node.size, after[0], node.dtype)

    return new(expression)
