"""A row in registers whose length is no power of two, in pieces of equal powers of two: 5120 is five times 1024, and no lane of a block is idle.

Pieces are added up element by element before lanes become one, and none but the last has a mask, where the pieces do not meet the row's end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from bottega.compiler.backends.triton.accumulate import Accumulator, reduce_function
from bottega.compiler.backends.triton.emit import TritonEmitter
from bottega.compiler.backends.triton.kernel_writer import FileWriter
from bottega.compiler.backends.triton.layout import RowLayout, is_careful, kind_and_type, of_halves
from bottega.compiler.backends.triton.neutral import neutral_text
from bottega.compiler.backends.triton.reading import moves, store
from bottega.compiler.backends.triton.row_index import COLUMN
from bottega.compiler.backends.triton.row_kernel import RowKernel
from bottega.compiler.expression import Expression, Index, Load, views, walk
from bottega.compiler.kernel import RowProgram

EVEN_ROWS = "even_rows"
SHORTEST, MOST = 256, 9
"""Lanes of a piece, 16 bytes of halves for each thread of a warp; and pieces of a row, each with lines of its own."""
HELD = 64
"""Elements of a row and of its gains that a thread has loaded before it begins to compute."""


def pieces_of(count: int) -> tuple[int, int]:
    """How many pieces of how many lanes: the fewest of those with the fewest idle lanes."""
    whole = 1 << (count - 1).bit_length()
    sizes = [whole >> step for step in range(1, whole.bit_length()) if whole >> step >= SHORTEST]
    cuts = [(math.ceil(count / size), size) for size in sizes if math.ceil(count / size) <= MOST]
    return min([(1, whole), *cuts], key=lambda cut: (cut[0] * cut[1], cut[0]))


def falls_into_pieces(file: FileWriter, kernel: RowProgram, layout: RowLayout) -> bool:
    """Not in the taught form, whose lines follow the call graph."""
    plain = all(each.operation in ("sum", "max", "min") and kind_and_type(each)[0] == "float" for each in kernel.reductions)
    plain = plain and all(_moves(each.body, len(kernel.kept)) for each in kernel.reductions)
    held = not layout.tile and not layout.looped and not file.plan.shapes
    return file.on(EVEN_ROWS) and held and plain and pieces_of(math.prod(kernel.reduced))[0] > 1


def _moves(body: Expression, kept: int) -> bool:
    """Whether a body changes along a row: one that does not is no block, so that nothing could be summed."""
    nodes = list(walk(body))
    indexed = any(isinstance(node, Index) and node.axis >= kept for node in nodes)
    return indexed or any(
        step and size > 1 for view in views(body) for step, size in zip(view.strides[kept:], view.shape[kept:])
    )


class EvenRows(RowKernel):
    def lanes(self, start: str) -> None:
        pieces, self.block = pieces_of(self.count)
        group = self.space.groups[COLUMN]
        self.places: list[tuple[str, list[str], str]] = []
        for piece in range(pieces):
            column = self.writer.fresh(self.column) if piece else self.column
            before = f"{piece} * {self.width}" if piece > 1 else self.width
            self.writer.line(f"{column} = {f'{self.column} + {before}' if piece else f'tl.arange(0, {self.width})'}")
            mask = ""
            if (piece + 1) * self.block > self.count:
                mask = self.mask
                self.writer.line(f"{mask} = {column} < {self.columns}")
            indices = (
                [column] if len(group.loops) == 1 else [self.writer.fresh(name) if piece else name for name in group.indices]
            )
            self.places.append((column, indices, mask))
            group.index, group.indices = column, indices
            self.space.define(COLUMN)

    @contextmanager
    def piece(self, number: int) -> Iterator[TritonEmitter]:
        """The emitter of one piece, with the names of its lanes; what all pieces have alike is known to it."""
        group, self.writer.piece = self.space.groups[COLUMN], number
        group.index, group.indices, self.mask = self.places[number]
        emitter = self.emitters[number]
        emitter.known.update(self.emitter.known)
        yield emitter
        self.writer.piece = 0

    def in_registers(self) -> None:
        kernel = self.kernel
        stored = [item.body for item in kernel.element_stores]
        self.emitter.survey([*(each.body for each in kernel.reductions), *stored])
        self.emitters = [self.emitter.inner() for _ in self.places]
        self.read([each.body for each in kernel.reductions])
        early = len(self.loads(stored)) * self.block * len(self.places) <= HELD * 32 * self.warps()
        if early:
            self.read(stored)
        written: dict[tuple[str, Expression], str] = {}
        for reduction in kernel.reductions:
            key = (reduction.operation, reduction.body)
            if key not in written:
                careful = any(
                    is_careful(each, "float", kernel) for each in kernel.reductions if (each.operation, each.body) == key
                )
                probe = Accumulator(reduction, careful, "float", neutral_text(reduction, *kind_and_type(reduction)))
                self.hoist([reduction.body])
                texts = []
                for number in range(len(self.places)):
                    with self.piece(number) as emitter:
                        text = emitter.write([reduction.body], 60)[0]
                        texts.append(self._word(self.masked(probe, reduction, text) if self.mask else text))
                together = texts[0]
                for text in texts[1:]:
                    keep = ", propagate_nan=tl.PropagateNan.ALL" if careful else ""
                    sums = reduction.operation == "sum"
                    together = f"{together} + {text}" if sums else f"tl.{reduction.operation}imum({together}, {text}{keep})"
                written[key] = self.writer.fresh(reduction.name)
                self.writer.line(f"{written[key]} = {self.scope.over(reduce_function(reduction, careful), together)}")
            self.emitter.names[reduction.name] = written[key]
        if kernel.row_stores:
            store(self.space, self.emitter, list(kernel.row_stores), self.row_masks)
        self.hoist(stored)
        if not early:
            self.read(stored)
        for number in range(len(self.places) if stored else 0):
            with self.piece(number) as emitter:
                store(self.space, emitter, list(kernel.element_stores), self.element_masks)

    def loads(self, bodies: list[Expression]) -> list[Load]:
        found = dict.fromkeys(node for body in bodies for node in walk(body) if isinstance(node, Load))
        return [node for node in found if COLUMN in moves(self.space, node)]

    def read(self, bodies: list[Expression]) -> None:
        """Issues all loads, so that a thread waits for memory once."""
        for node in self.loads(bodies):
            for number in range(len(self.places)):
                with self.piece(number) as emitter:
                    emitter.named(node)

    def warps(self) -> int:
        """As many as a whole block would have, unless a thread then had less than 16 bytes of a piece."""
        return min(super().warps(), max(1, self.block // (256 if of_halves(self.kernel) else 128)))

    def _width(self, looped: bool) -> str:
        return str(self.block)
