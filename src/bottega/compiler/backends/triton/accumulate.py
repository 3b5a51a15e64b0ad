"""How a reduction runs over a row that does not fit a block: its state in each lane, the step, and how lanes become one.

States are of the kind that can be merged, so that the same lines end a loop and put the pieces of a split row together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import cache

from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import KernelWriter
from bottega.compiler.backends.triton.spelling import NARROW
from bottega.compiler.expression import (
    TRUTHS,
    Apply,
    Cast,
    Constant,
    Expression,
    Load,
    Name,
    children,
    finite_or_zero,
    names,
    walk,
)
from bottega.compiler.kernel import Reduction, RowProgram


@dataclass
class ReductionScope:
    """Where accumulation happens: the shape of a block, the axis that is reduced, the mask and the name of the row's length."""

    writer: KernelWriter
    shape: str
    axis: int
    keep: bool
    columns: str
    column: str
    dtype: str = "float32"
    long: bool = False
    """Whether places in a row take 64 bits."""

    def over(self, function: str, value: str) -> str:
        tail = ", keep_dims=True" if self.keep else ""
        if function in ("nan_max", "nan_min", "times"):
            self.writer.file.helpers.add(function)
            return f"tl.reduce({value}, {self.axis}, {function}{tail})"
        return f"tl.{function}({value}, axis={self.axis}{tail})"

    def full(self, value: str, dtype: str = "") -> str:
        if value in ("0.0", "0"):
            return f"tl.zeros({self.shape}, tl.{dtype or self.dtype})"
        return f"tl.full({self.shape}, {value}, tl.{dtype or self.dtype})"


def reduce_function(reduction: Reduction, careful: bool) -> str:
    """The name of the function that turns lanes into one. Careful: a NaN must come out as one."""
    plain = {"sum": "sum", "prod": "times", "any": "max", "all": "min", "argmax": "argmax", "argmin": "argmin"}
    if reduction.operation in ("max", "min"):
        return f"nan_{reduction.operation}" if careful else reduction.operation
    return plain[reduction.operation]


@dataclass
class Accumulator:
    """One reduction, in the plain way."""

    reduction: Reduction
    careful: bool
    kind: str
    neutral: str
    states: list[str] = field(default_factory=list)

    @property
    def reductions(self) -> list[Reduction]:
        return [self.reduction]

    @property
    def roots(self) -> list[Expression]:
        return [self.reduction.body]

    def begin(self, scope: ReductionScope) -> None:
        name = scope.writer.fresh(self.reduction.name)
        self.states = [name]
        dtype = scope.dtype if self.kind == "float" else "int32" if self.reduction.operation in ("any", "all") else "int64"
        if self.reduction.operation in ("argmax", "argmin"):
            best = scope.writer.fresh("best")
            self.states = [best, name]
            scope.writer.line(f"{best} = {scope.full(self.neutral, dtype)}")
            scope.writer.line(f"{name} = {scope.full('0', 'int64' if scope.long else 'int32')}")
            return
        scope.writer.line(f"{name} = {scope.full(self.neutral, dtype)}")

    def step(self, scope: ReductionScope, value: str, mask: str) -> None:
        name, line = self.states[-1], scope.writer.line
        operation = self.reduction.operation
        if operation in ("argmax", "argmin"):
            best, sign = self.states[0], ">" if operation == "argmax" else "<"
            better = scope.writer.fresh("better")
            more = f"{value} {sign} {best}"
            line(f"{better} = {f'({more}) | (({value} != {value}) & ({best} == {best}))' if self.careful else more}")
            narrow = scope.writer.large and not scope.long  # half the registers
            place = f"{scope.column}.to(tl.int32)" if narrow else scope.column
            line(f"{name} = tl.where({better}, {place}, {name})")
            line(f"{best} = tl.where({better}, {value}, {best})")
        elif operation == "sum":
            line(f"{name} += {value}")
        elif operation == "prod":
            line(f"{name} *= {value}")
        else:
            function = "maximum" if operation in ("max", "any") else "minimum"
            keep = ", propagate_nan=tl.PropagateNan.ALL" if self.careful else ""
            line(f"{name} = tl.{function}({name}, {value}{keep})")

    def end(self, scope: ReductionScope) -> None:
        name, line = self.states[-1], scope.writer.line
        if self.reduction.operation in ("argmax", "argmin"):
            best, top = self.states[0], scope.writer.fresh("top")
            line(f"{top} = {scope.over(self._extreme, best)}")
            line(f"{name} = {scope.over('min', f'tl.where({self._equal(best, top)}, {name}, {scope.columns})')}")
            line(f"{best} = {top}")
        else:
            line(f"{name} = {scope.over(reduce_function(self.reduction, self.careful), name)}")

    def place(self, scope: ReductionScope, lanes: str) -> str:
        """Where the first extreme of a row is that lies in registers. Empty for other reductions, and where no NaN can be: `tl.argmax` finds
        that, and passes NaN by."""
        if not self.careful or not self.reduction.operation.startswith("arg"):
            return ""
        row, top = scope.writer.fresh("lanes"), scope.writer.fresh("top")
        scope.writer.line(f"{row} = {lanes}")
        scope.writer.line(f"{top} = {scope.over(self._extreme, row)}")
        return scope.over("min", f"tl.where({self._equal(row, top)}, {scope.column}, {scope.columns})")

    @property
    def _extreme(self) -> str:
        return f"nan_{self.reduction.operation[3:]}" if self.careful else self.reduction.operation[3:]

    def _equal(self, lanes: str, top: str) -> str:
        """Which lanes hold the extreme: nothing equals a NaN."""
        return f"({lanes} == {top}) | ({lanes} != {lanes})" if self.careful else f"{lanes} == {top}"

    def derive(self, scope: ReductionScope, emitter: TritonEmitter) -> None:
        emitter.names[self.reduction.name] = self.states[-1]
        if self.reduction.operation in ("any", "all"):
            emitter.names[self.reduction.name] = f"({self.states[-1]} > 0)"


NEIGHBOURS = 8
"""Halves in a load of 16 bytes."""


@dataclass
class OnlineSoftmax:
    """A maximum and the sum of exponentials below it, in one sweep.

    While lanes become one, an infinite maximum takes nothing off, so that a piece of a row that holds -inf alone can be put together with others.
    """

    peak: Reduction
    total: Reduction
    function: str
    careful: bool = False
    """Whether a NaN must be the maximum, too."""
    states: list[str] = field(default_factory=list)

    @property
    def reductions(self) -> list[Reduction]:
        return [self.peak, self.total]

    @property
    def roots(self) -> list[Expression]:
        return [self.peak.body]

    def begin(self, scope: ReductionScope) -> None:
        self.states = [scope.writer.fresh(self.peak.name), scope.writer.fresh(self.total.name)]
        own = changed(scope, shape=scope.shape.replace(",)", f" // {NEIGHBOURS},)")) if self._by_threads(scope) else scope
        lowest = own.full('-float("inf")')
        scope.writer.line(f"{self.states[0]} = {lowest}")
        scope.writer.line(f"{self.states[1]} = {own.full('0.0')}")

    def _by_threads(self, scope: ReductionScope) -> bool:
        """Whether the neighbours that a thread loads at once are taken together: of halves, where exponentials take longer than memory."""
        return not scope.keep and any(isinstance(node, Load) and node.dtype in NARROW for node in walk(self.peak.body))

    def step(self, scope: ReductionScope, value: str, mask: str) -> None:
        peak, total = self.states
        if self._by_threads(scope):
            lanes, high, line = scope.writer.fresh("lanes"), scope.writer.fresh("high"), scope.writer.line
            line(f"{lanes} = tl.reshape({value}, ({scope.shape.strip('(),')} // {NEIGHBOURS}, {NEIGHBOURS}))")
            inner = changed(scope, axis=1)
            line(f"{high} = tl.maximum({peak}, {inner.over(self._most, lanes)}{self._keep})")
            level = scope.writer.fresh("level")
            line(f"{level} = {self._finite(high)}")
            below = f"tl.sum(tl.{self.function}({lanes} - {level}[:, None]), axis=1)"
            line(f"{total} = {total} * tl.{self.function}({peak} - {level}) + {below}")
            line(f"{peak} = {high}")
            return
        near, line = scope.writer.fresh("near"), scope.writer.line
        away = f"tl.{self.function}(-tl.abs({value} - {peak}))"  # one exponential, whichever of the two is larger
        line(f"{near} = tl.where({value} == {peak}, 1.0, {away})")  # also of two infinities
        line(f"{total} = tl.where({value} > {peak}, {total} * {near} + 1.0, {total} + {near})")
        line(f"{peak} = tl.maximum({peak}, {value}{self._keep})")

    def end(self, scope: ReductionScope) -> None:
        peak, total = self.states
        top, line = scope.writer.fresh("top"), scope.writer.line
        line(f"{top} = {scope.over(self._most, peak)}")
        line(f"{total} = {scope.over('sum', f'{total} * tl.{self.function}({peak} - {self._finite(top)})')}")
        line(f"{peak} = {top}")

    def derive(self, scope: ReductionScope, emitter: TritonEmitter) -> None:
        peak, total = emitter.names[self.peak.name], emitter.names[self.total.name] = self.states
        if Name(self.peak.name) in _inner(self.total).arguments:
            scope.writer.line(f"{total} += {peak} - {peak}")  # no number, where infinities are taken off each other

    @property
    def _most(self) -> str:
        return "nan_max" if self.careful else "max"

    @property
    def _keep(self) -> str:
        return ", propagate_nan=tl.PropagateNan.ALL" if self.careful else ""

    def _finite(self, top: str) -> str:
        return f'tl.where(tl.abs({top}) == float("inf"), 0.0, {top})'


@dataclass
class Moments:
    """A sum and the sum of squares about the mean, in one sweep about the mean of the row's first block, so that an offset cancels
    nothing. A single element would not do: where it lies far out, what the squares lose is as large as the variance."""

    sum: Reduction
    squares: Reduction
    states: list[str] = field(default_factory=list)
    shift: str = ""

    @property
    def reductions(self) -> list[Reduction]:
        return [self.sum, self.squares]

    @property
    def roots(self) -> list[Expression]:
        return [self.sum.body]

    def begin(self, scope: ReductionScope) -> None:
        self.states = [scope.writer.fresh(self.sum.name), scope.writer.fresh(self.squares.name)]
        for state in self.states:
            scope.writer.line(f"{state} = {scope.full('0.0')}")

    def step(self, scope: ReductionScope, value: str, mask: str) -> None:
        moved, line = scope.writer.fresh("moved"), scope.writer.line
        line(f"{moved} = tl.where({mask}, {value} - {self.shift}, 0.0)")
        line(f"{self.states[0]} += {moved}")
        line(f"{self.states[1]} += {moved} * {moved}")

    def end(self, scope: ReductionScope) -> None:
        for state in self.states:
            scope.writer.line(f"{state} = {scope.over('sum', state)}")

    def derive(self, scope: ReductionScope, emitter: TritonEmitter) -> None:
        first, second = self.states
        scope.writer.line(f"{second} -= {first} * {first} / {scope.columns}")
        scope.writer.line(f"{first} += {self.shift} * {scope.columns}")
        emitter.names[self.sum.name], emitter.names[self.squares.name] = first, second


Any = Accumulator | OnlineSoftmax | Moments


def softmax_pair(peak: Reduction, total: Reduction) -> str:
    """`exp` or `exp2` where `total` adds up exponentials below `peak`, of the same values; else empty."""
    body = total.body
    if peak.operation != "max" or total.operation != "sum" or not isinstance(body, Apply):
        return ""
    if body.function not in ("exp", "exp2") or not isinstance(body.arguments[0], Apply):
        return ""
    inner, top = body.arguments[0], Name(peak.name)
    below = inner.function == "sub" and inner.arguments in ((peak.body, top), (peak.body, finite_or_zero(top)))
    return body.function if below else ""


def _inner(total: Reduction) -> Apply:
    """What the exponentials are of."""
    assert isinstance(total.body, Apply) and isinstance(total.body.arguments[0], Apply)
    return total.body.arguments[0]


def moments_pair(first: Reduction, second: Reduction, count: int) -> bool:
    """Whether `second` adds up squares about the mean that `first` gives."""
    body = second.body
    if first.operation != "sum" or second.operation != "sum" or not isinstance(body, Apply):
        return False
    inner = body.arguments[0]
    power = body.arguments[-1]
    squared = body.function == "square" or (body.function == "mul" and inner == power)
    squared = squared or (body.function == "pow" and isinstance(power, Constant) and power.value == 2)
    if not squared or not isinstance(inner, Apply) or inner.function != "sub" or inner.arguments[0] != first.body:
        return False
    mean = inner.arguments[1]
    if not isinstance(mean, Apply) or mean.arguments[0] != Name(first.name) or not isinstance(mean.arguments[1], Constant):
        return False
    value = mean.arguments[1].value
    return (mean.function == "div" and value == count) or (mean.function == "mul" and abs(value * count - 1) < 1e-12)


def only_below_exponentials(peak: Reduction, kernel: RowProgram) -> bool:
    """Whether a maximum serves softmax alone: a NaN then comes out through the sum of the exponentials anyway."""
    total = next((other for other in kernel.reductions if softmax_pair(peak, other)), None)
    if total is None:
        return False
    bodies = [other.body for other in kernel.reductions if other not in (peak, total)]
    bodies += [store.body for store in (*kernel.row_stores, *kernel.element_stores)]
    top, under = Name(peak.name), Name(total.name)

    @cache
    def has_none(node: Expression) -> bool:
        """Whether a node is no number where the sum is none."""
        if isinstance(node, Cast):
            return "float" in node.dtype and has_none(node.argument)
        if not isinstance(node, Apply) or node.function in TRUTHS:
            return node == under
        if node.function == "pow":
            base, exponent = node.arguments
            return has_none(base) and isinstance(exponent, Constant) and exponent.value != 0
        return all(map(has_none, node.arguments[1:])) if node.function == "where" else any(map(has_none, node.arguments))

    @cache
    def serves(node: Expression) -> bool:
        """Whether a node is the same then, whatever the maximum is."""
        return node != top and (has_none(node) or all(map(serves, children(node))))

    return all(map(serves, bodies))


def levels(accumulators: list[Any]) -> list[list[Any]]:
    """Sweeps: each has what needs only earlier ones."""
    made: dict[str, int] = {}
    sweeps: list[list[Any]] = []
    for accumulator in accumulators:
        needed = set().union(*(names(root) for root in accumulator.roots)) & made.keys()
        level = 1 + max((made[name] for name in needed), default=-1)
        for reduction in accumulator.reductions:
            made[reduction.name] = level
        while len(sweeps) <= level:
            sweeps.append([])
        sweeps[level].append(accumulator)
    return sweeps
