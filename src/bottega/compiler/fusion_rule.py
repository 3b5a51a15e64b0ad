"""Which pairs of kernels are fused, as the enabled passes allow; `fusion` does the fusing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from bottega.compiler import fusion
from bottega.compiler.bodies import bodies, loads, made, operands, read, without_store
from bottega.compiler.expression import Apply, Cast, Gather, Load, operations, reads, walk
from bottega.compiler.grouped_products import OWN_GROUPED, gate
from bottega.compiler.kernel import FunctionCall, GroupedProduct, Kernel, Map, Pool, RowProgram, Scan
from bottega.compiler.loop_split import split_for
from bottega.compiler.planner_passes import DEPTHWISE, FOR_THREADS, OWN, SHARED_RESULTS, SHORT_PRODUCT, is_ours
from bottega.compiler.view import View

_COUNTED, _LOOKS = "operations counted", "views of reductions"
"""Kept with a kernel, which never changes."""
DECIDING = frozenset(
    (
        *("fuse_elementwise", "fuse_rows", "fuse_windows", SHARED_RESULTS.name, FOR_THREADS),
        *(SHORT_PRODUCT.name, DEPTHWISE.name, OWN_GROUPED.name, *(name for _, name in OWN)),
    )
)
"""The passes that which pairs are fused depends on."""
FEW_ROWS, FEW_FOR_THREADS, LONG_ROW = 512, 32, 8192
"""Below so many rows of at least this length, a program for each row leaves the device idle: a GPU, or the threads of a processor."""
MOST_STORES = 4
"""Of a map that stores on the way what others read. A recurrence that is written out step by step would else become one expression."""
MOST_AGAIN = 256
"""Operations of a fused kernel in which something may be computed twice. Steps of a recurrence that is written out, each with a result of its own,
would else compute all steps before them again."""
MOST_REPEATED = 48
"""Operations of an elementwise kernel that its readers may each do again."""
EXPENSIVE = frozenset(
    (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log1p",
        "sin",
        "cos",
        "tan",
        "tanh",
        "erf",
        "sigmoid",
        "pow",
        "atan2",
        "sinh",
        "cosh",
    )
)


def fused_kernels(kernels: list[Kernel], passes: frozenset[str], returned: set[str]) -> list[Kernel]:
    """Fuses pairs until no pair is left; from the end, so that a result with several users first gets one."""
    place, pairs = len(kernels) - 1, _Pairs(passes)
    while place >= 0:
        merged = _merge_at(kernels, place, pairs, returned) or _siblings(kernels, place, pairs)
        if merged is not None:
            place = len(merged) - _same_end(kernels, merged)  # what follows was tried, and nothing before it counts there
            kernels = merged
        place -= 1
    return kernels


def _same_end(before: list[Kernel], after: list[Kernel]) -> int:
    """How many kernels at the end are the same."""
    pairs = zip(reversed(before), reversed(after))
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], pairs))


class _Pairs:
    """What pairs of kernels become, each tried once: after every fusion the kernels before it are gone through again, most of them with the same
    neighbours."""

    def __init__(self, passes: frozenset[str]) -> None:
        self.passes = passes
        self._known: dict[tuple[Any, ...], tuple[Kernel | None, Kernel, Kernel]] = {}
        """With the pair itself, so that its ids stay its own."""

    def fused(self, producer: Kernel, consumer: Kernel, buffer: str, kept: bool) -> Kernel | None:
        """`kept`: others read the buffer too, so that it is stored all the same."""

        def made_one() -> Kernel | None:
            if isinstance(producer, Map) and kept:
                return _carried(producer, consumer, buffer, self.passes)
            if isinstance(producer, GroupedProduct) and not kept:
                return _gated(producer, consumer, buffer, self.passes)
            return _pair(producer, consumer, buffer, self.passes)

        return self._once((id(producer), id(consumer), buffer, kept), producer, consumer, made_one)

    def inlined(self, producer: Map, consumer: Kernel, buffer: str) -> Kernel | None:
        key = (id(producer), id(consumer), buffer)
        return self._once(key, producer, consumer, lambda: _inlined(producer, consumer, buffer, self.passes))

    def chained(self, first: RowProgram, second: RowProgram) -> Kernel | None:
        return self._once((id(first), id(second)), first, second, lambda: fusion.chain(first, second, ""))

    def _once(self, key: tuple[Any, ...], first: Kernel, second: Kernel, make: Callable[[], Kernel | None]) -> Kernel | None:
        if key not in self._known:
            made_one = make()
            repeats = made_one is not None and _repeats((first, second), made_one)
            self._known[key] = (None if repeats else made_one), first, second
        return self._known[key][0]


def _merge_at(kernels: list[Kernel], place: int, pairs: _Pairs, returned: set[str]) -> list[Kernel] | None:
    producer = kernels[place]
    if isinstance(producer, FunctionCall):
        return None
    for buffer in made(producer):
        users = [later for later in range(place + 1, len(kernels)) if buffer in read(kernels[later])]
        if len(users) > 1 and buffer not in returned and (_widens(producer) or _is_cheap_again(producer, pairs.passes)):
            through = _read_through(kernels, place, users, buffer, pairs)
            if through is not None:
                return through
        for later in users:
            fused = pairs.fused(producer, kernels[later], buffer, buffer in returned or len(users) > 1)
            if fused is None:
                continue
            for name in made(producer):  # all of them that only this consumer read
                if name not in returned and [user for user in range(len(kernels)) if name in read(kernels[user])] == [later]:
                    fused = without_store(fused, name)
            new = _placed(kernels, place, later, fused)
            if new is not None:
                return new
    return None


def _widens(producer: Kernel) -> bool:
    """Whether a kernel does nothing but store what it reads in a wider type: whoever reads that had better read the narrow one."""
    if not isinstance(producer, Map) or len(producer.stores) != 1 or not isinstance(cast := producer.stores[0].body, Cast):
        return False
    load = cast.argument
    if not isinstance(load, Load) or load.view.strides[-1:] != (1,):
        return False
    narrow, wide = (torch.finfo(getattr(torch, each)).bits if "float" in each else 0 for each in (load.dtype, cast.dtype))
    return 0 < narrow < wide


def _is_cheap_again(producer: Kernel, passes: frozenset[str]) -> bool:
    """Whether each reader had better compute it from what it is made of: an activation of one tensor is read as quickly as its result, which then
    need not be written. A processor's threads are slower at it than at writing."""
    if not isinstance(producer, Map) or len(producer.stores) != 1:
        return False
    nodes = list(walk(producer.stores[0].body))
    functions = [node.function for node in nodes if isinstance(node, Apply)]
    if len(functions) > MOST_REPEATED or (FOR_THREADS in passes and not EXPENSIVE.isdisjoint(functions)):
        return False
    views = {node.view for node in nodes if isinstance(node, Load | Gather)}
    elements = [math.prod(size for size, stride in zip(view.shape, view.strides) if stride) for view in views]
    large = sum(2 * count > math.prod(producer.shape) for count in elements)
    return large == 1 and not any(isinstance(node, Gather) for node in nodes)


def _read_through(kernels: list[Kernel], place: int, users: list[int], buffer: str, pairs: _Pairs) -> list[Kernel] | None:
    """Every reader computes what the producer would have stored, and nothing is stored; None where one of them cannot."""
    changed, producer = list(kernels), kernels[place]
    for user in users:
        fused = pairs.inlined(producer, kernels[user], buffer) if isinstance(producer, Map) else None
        if fused is None:
            return None
        changed[user] = fused
    del changed[place]
    return changed


def _carried(producer: Map, consumer: Kernel, buffer: str, passes: frozenset[str]) -> Kernel | None:
    """A map whose result others read too, computed and stored by a program over the same rows, or by another map over the same elements."""
    joins = isinstance(consumer, RowProgram) and "fuse_rows" in passes
    joins |= isinstance(consumer, Map) and SHARED_RESULTS.name in passes and len(consumer.stores) < MOST_STORES
    if not joins or not _worth_inlining(producer, consumer, buffer):
        return None
    carried = fusion.carry(producer, consumer, buffer)  # type: ignore[arg-type]
    return carried or (fusion.absorb(producer, consumer, buffer) if isinstance(consumer, Map) else None)


def _gated(producer: GroupedProduct, consumer: Kernel, buffer: str, passes: frozenset[str]) -> Kernel | None:
    """With the gate that alone reads its result, or with whatever else may follow it."""
    gated = gate(producer, consumer, buffer) if isinstance(consumer, Map) and "fuse_elementwise" in passes else None
    return gated or _pair(producer, consumer, buffer, passes)


def _siblings(kernels: list[Kernel], place: int, pairs: _Pairs) -> list[Kernel] | None:
    """Two programs over the same rows that read the same elements and do not need each other: one pass does for both."""
    first = kernels[place]
    if not isinstance(first, RowProgram) or "fuse_rows" not in pairs.passes:
        return None
    for later in range(place + 1, len(kernels)):
        second = kernels[later]
        if isinstance(second, RowProgram) and not set(made(first)) & read(second) and shared_rows(first, second):
            joined = pairs.chained(first, second)
            return None if joined is None else _placed(kernels, place, later, joined)
    return None


def _repeats(parts: tuple[Kernel, Kernel], fused: Kernel) -> bool:
    """Whether much is computed again in the fused kernel that its parts computed once."""
    work = _operations(fused)
    return work > MOST_AGAIN and work > sum(map(_operations, parts))


def _operations(kernel: Kernel) -> int:
    known: int | None = vars(kernel).get(_COUNTED)
    if known is None:
        vars(kernel)[_COUNTED] = known = sum(map(operations, bodies(kernel)))
    return known


def shared_rows(first: RowProgram, second: RowProgram) -> bool:
    """Whether both load the same elements of at least one buffer."""
    if (first.kept, first.reduced) != (second.kept, second.reduced) or not read(first) & read(second):
        return False
    return not _looks(first).isdisjoint(_looks(second))


def _looks(rows: RowProgram) -> frozenset[View]:
    """What its reductions load."""
    known: frozenset[View] | None = vars(rows).get(_LOOKS)
    if known is None:
        loaded = (node.view for r in rows.reductions for node in reads(r.body) if isinstance(node, Load))
        vars(rows)[_LOOKS] = known = frozenset(loaded)
    return known


def _inlined(producer: Map, consumer: Kernel, buffer: str, passes: frozenset[str]) -> Kernel | None:
    """The consumer with the producer's elements computed in it."""
    if isinstance(consumer, FunctionCall) or buffer in {view.buffer for view in operands(consumer)}:
        return None
    if not _may_fuse(consumer, passes) or not _worth_inlining(producer, consumer, buffer):
        return None
    if isinstance(consumer, GroupedProduct) and _computed_again(producer, consumer, buffer):
        return None
    fused = fusion.inline(producer, consumer, buffer)
    if fused is None and isinstance(consumer, RowProgram) and FOR_THREADS not in passes:  # in C++ column tiles need one loop
        finer = split_for(producer, consumer, buffer)
        return fusion.inline(producer, finer, buffer) if finer is not None else None
    return fused


def _pair(producer: Kernel, consumer: Kernel, buffer: str, passes: frozenset[str]) -> Kernel | None:
    if isinstance(consumer, FunctionCall) or buffer in {view.buffer for view in operands(consumer)}:
        return None
    if isinstance(producer, Map):
        fused = _inlined(producer, consumer, buffer, passes)
        if fused is None and isinstance(consumer, Map) and _may_fuse(consumer, passes):
            return fusion.absorb(
                producer, consumer, buffer
            )  # the producer tells loops apart that the consumer does not: a norm's groups
        return fused
    if isinstance(producer, RowProgram) and isinstance(consumer, RowProgram):
        return fusion.chain(producer, consumer, buffer) if "fuse_rows" in passes else None
    if not isinstance(consumer, Map) or not _may_fuse(producer, passes):
        return None
    if isinstance(producer, RowProgram) and any(store.view.buffer == buffer for store in producer.row_stores):
        enough = keeps_busy(producer, passes)
        joined = fusion.spread(producer, consumer, buffer) if enough and len(consumer.shape) > len(producer.kept) else None
        if joined is not None:
            return joined
    return fusion.absorb(producer, consumer, buffer)


def keeps_busy(rows: RowProgram, passes: frozenset[str]) -> bool:
    """Whether a program for each row keeps the device busy."""
    few = FEW_FOR_THREADS if FOR_THREADS in passes else FEW_ROWS
    return math.prod(rows.kept) >= few or math.prod(rows.reduced) < LONG_ROW


def _computed_again(producer: Map, consumer: GroupedProduct, buffer: str) -> bool:
    """Whether every tile of columns would compute the rows again. A gather only loads them, and its places are found once a tile."""
    rows = isinstance(consumer.element, Load) and consumer.element.view.buffer == buffer
    return rows and not isinstance(producer.stores[0].body, Load | Gather)


def _may_fuse(kernel: Kernel, passes: frozenset[str]) -> bool:
    """Whether elementwise work may become a part of this kernel."""
    kinds: tuple[tuple[Any, str], ...] = ((Map, "fuse_elementwise"), (RowProgram, "fuse_rows"), ((Pool, Scan), "fuse_windows"))
    return any(isinstance(kernel, kind) and name in passes for kind, name in kinds) or is_ours(kernel, passes)


def _worth_inlining(producer: Map, consumer: Kernel, buffer: str) -> bool:
    """Whether computing an element where it is used does not compute it much more often than once."""
    heavy = any(isinstance(n, Apply) and n.function in EXPENSIVE for body in bodies(producer) for n in walk(body))
    if isinstance(consumer, Pool) and loads(consumer, buffer):
        overlap = math.prod(consumer.window) > math.prod(consumer.stride)
        return not (overlap and heavy)
    most = max((math.prod(node.view.shape) for node in loads(consumer, buffer)), default=0)
    return not heavy or most <= 4 * math.prod(producer.shape) or math.prod(producer.shape) == 1


def _placed(kernels: list[Kernel], first: int, second: int, fused: Kernel) -> list[Kernel] | None:
    """The list with two kernels replaced by one, where the order of what they read and make allows it."""
    between = kernels[first + 1 : second]
    outputs = set(made(kernels[first]))
    rest = [kernel for place, kernel in enumerate(kernels) if place not in (first, second)]
    if not any(outputs & read(kernel) for kernel in between):
        rest.insert(second - 1, fused)
        return rest
    inputs = read(kernels[second]) - outputs
    if not any(inputs & set(made(kernel)) for kernel in between):
        rest.insert(first, fused)
        return rest
    return None
