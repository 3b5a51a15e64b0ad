"""A linear layer over a vocabulary and the loss over its rows, some rows at a time: the logits never lie in memory as a whole.

The product stays the library's, whose tiles are hard to beat; what is saved are passes over logits that are far larger than a cache. Each
piece is small enough to be read again from there. Works for any row program that stores numbers of rows and not their elements.
"""

from __future__ import annotations

import dataclasses
import math
import re

from bottega.compiler.bodies import read
from bottega.compiler.expression import Expression, Gather, Index, Load, walk, with_views
from bottega.compiler.kernel import FunctionCall, Kernel, Map, Reduction, RowProgram, StoreOp
from bottega.compiler.plan import RowChunks
from bottega.compiler.view import Buffer, View, contiguous_strides

CHUNK_BYTES = 32 << 20
"""Of logits: less than the caches of a GPU or a server's processor hold, and rows enough to fill its units."""
FEWEST_HALVES = 512
"""Rows of halves at least, however much they are: each piece reads the whole weight, and 128 rows of 2,048 took as long as that does."""
FEWEST_CHUNKS = 4
START = "start"
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}


def row_chunks(
    kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]
) -> tuple[list[Kernel], tuple[RowChunks, ...]]:
    """The kernels with the first such pair made one of pieces, and how they follow each other; `buffers` learns the pieces."""
    kernels = _rows_first(kernels, buffers, returned)
    for place, call in enumerate(kernels):
        if not isinstance(call, FunctionCall) or call.function != "F.linear" or call.library_call or call.then:
            continue
        users = [kernel for kernel in kernels if call.results[0] in read(kernel)]
        if len(users) != 1 or call.results[0] in returned or not isinstance(users[0], RowProgram):
            continue
        made = _Chunked(call, users[0], buffers).made()
        if made is not None:
            rest = [kernel for number, kernel in enumerate(kernels) if number != place]
            at = rest.index(users[0])
            chunks = dataclasses.replace(made[1], first=at, last=at + 2)
            return [*rest[:at], *made[0], *rest[at + 1 :]], (chunks,)
    return kernels, ()


def _rows_first(kernels: list[Kernel], buffers: dict[str, Buffer], returned: set[str]) -> list[Kernel]:
    """Rows that are copied out of a linear layer's result, as all but the last token's are for a loss, copied out of its input instead."""
    for place, call in enumerate(kernels):
        if not isinstance(call, FunctionCall) or call.function != "F.linear" or call.library_call or call.then:
            continue
        users = [at for at, kernel in enumerate(kernels) if call.results[0] in read(kernel)]
        x, copy = call.arguments[0], kernels[users[0]] if users else None
        if len(users) != 1 or call.results[0] in returned or not isinstance(copy, Map) or len(copy.stores) != 1:
            continue
        store, body = copy.stores[0], copy.stores[0].body
        if not isinstance(body, Load) or not isinstance(x, View) or not x.contiguous or not store.view.contiguous:
            continue
        width, depth = buffers[call.results[0]].shape[-1], x.shape[-1]
        target, taken = buffers[store.view.buffer], _named(store.view.buffer, "input")
        whole = copy.shape[-1:] == (width,) and target.shape[-1] == width and body.view.strides[-1] == 1
        if not whole or any(step % width for step in (*body.view.strides[:-1], body.view.offset)):
            continue
        shape, inside = (*copy.shape[:-1], depth), (*target.shape[:-1], depth)
        strides = tuple(step // width * depth for step in body.view.strides[:-1])
        source = View(x.buffer, shape, (*strides, 1), x.offset + body.view.offset // width * depth)
        buffers[taken] = Buffer(taken, inside, buffers[x.buffer].dtype)
        rows = StoreOp(
            View(taken, shape, contiguous_strides(shape)), Load(source, buffers[x.buffer].dtype), buffers[x.buffer].dtype
        )
        look = View(taken, inside, contiguous_strides(inside), 0, taken)
        later = dataclasses.replace(call, arguments=(look, *call.arguments[1:]), results=(target.name,), text="", looks=())
        changed = [*kernels[: users[0]], Map(shape, (rows,), copy.origin), later, *kernels[users[0] + 1 :]]
        return [kernel for number, kernel in enumerate(changed) if number != place]
    return kernels


class _Chunked:
    def __init__(self, call: FunctionCall, program: RowProgram, buffers: dict[str, Buffer]) -> None:
        self.call, self.program, self.buffers = call, program, buffers
        self.logits = buffers[call.results[0]]
        self.parts: dict[str, str] = {}
        self.step = 0

    def made(self) -> tuple[tuple[Kernel, Kernel], RowChunks] | None:
        program, x = self.program, self.call.arguments[0]
        bodies = [reduction.body for reduction in program.reductions] + [store.body for store in program.row_stores]
        nodes = [node for body in bodies for node in walk(body)]
        own = [node.view for node in nodes if isinstance(node, Load | Gather) and node.view.buffer == self.logits.name]
        if program.element_stores or not program.kept or not isinstance(x, View) or not x.contiguous:
            return None
        if self.logits.strides or any(isinstance(node, Index) for node in nodes) or self.logits.dtype not in BYTES:
            return None
        self.count, width = program.kept[0], self.logits.shape[-1]
        rows, steps = math.prod(self.logits.shape[:-1]), {view.strides[0] for view in own}
        within = rows // self.count
        if rows % self.count or steps != {within * width} or any(view.offset >= within * width for view in own):
            return None
        size = BYTES[self.logits.dtype]
        most = max(CHUNK_BYTES // (width * size), FEWEST_HALVES if size == 2 else 0) // within
        self.step = max((n for n in range(1, self.count) if self.count % n == 0 and n <= most), default=0)
        if not self.step or self.count // self.step < FEWEST_CHUNKS:
            return None
        pieces = self._program()
        if pieces is None:
            return None
        known = dict(self.buffers)
        for name, whole in self.parts.items():
            owner = known[whole]
            size = owner.size // self.count * self.step
            self.buffers[name] = Buffer(name, (size,), owner.dtype)
        shape = (self.step, within, x.shape[-1])
        taken = f"{x.text or x.buffer}.reshape({self.count}, {within}, {x.shape[-1]})[{START} : {START} + {self.step}]"
        name = _named(x.buffer, "rows")
        self.buffers[name] = Buffer(name, shape, known[x.buffer].dtype)
        self.buffers[self.logits.name] = Buffer(self.logits.name, (self.step, within, width), self.logits.dtype)
        look = View(name, shape, contiguous_strides(shape), 0, name)
        call = dataclasses.replace(self.call, arguments=(look, *self.call.arguments[1:]), text="", looks=())
        texts = [
            (part, f"{whole}.reshape({self.count}, -1)[{START} : {START} + {self.step}]") for part, whole in self.parts.items()
        ]
        filled = tuple(dict.fromkeys(store.view.buffer for store in program.row_stores))
        return (call, pieces), RowChunks(0, 0, self.count, self.step, ((name, taken), *texts), filled)

    def _program(self) -> RowProgram | None:
        program, failed = self.program, False

        def body(given: Expression) -> Expression:
            nonlocal failed
            made = with_views(given, self._piece)
            failed |= made is None
            return given if made is None else made

        reductions = tuple(Reduction(each.name, each.operation, body(each.body)) for each in program.reductions)
        stores: list[StoreOp] = []
        for store in program.row_stores:
            view = self._piece(store.view)
            if view is None or view.buffer == store.view.buffer:
                return None
            stores.append(StoreOp(view, body(store.body), store.dtype))
        kept = program.kept[1:] if self.step == 1 else (self.step, *program.kept[1:])
        made = dataclasses.replace(program, kept=kept, reductions=reductions, row_stores=tuple(stores))
        return None if failed else made

    def _piece(self, view: View) -> View | None:
        """The view over a piece of the rows; None where its buffer cannot be cut there."""
        step, buffer = view.strides[0], self.buffers[view.buffer]
        shape, strides = (self.step, *view.shape[1:]), view.strides
        if self.step == 1:
            shape, strides = shape[1:], strides[1:]
        if view.buffer == self.logits.name or not step:
            return View(view.buffer, shape, strides, view.offset)
        if buffer.strides or buffer.size != self.count * step or view.offset >= step:
            return None
        name = _named(view.buffer, "part")
        self.parts[name] = view.buffer
        return View(name, shape, strides, view.offset)


def _named(buffer: str, word: str) -> str:
    return f"{re.sub(r'[^a-zA-Z0-9_]+', '_', buffer)}_{word}"
