"""A plan: the kernels of a module in order, the buffers between them, and what `forward` returns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bottega.compiler.choices import BY_RULE, Tuning
from bottega.compiler.kernel import Kernel
from bottega.compiler.view import Buffer, Shape

Cuts = tuple[tuple[tuple[str, ...], str, Shape], ...]


@dataclass(frozen=True)
class RowChunks:
    """Kernels of a plan that run for some rows at a time, in a loop of `forward`."""

    first: int
    """Place of the first of them in the plan."""
    last: int
    """Place behind the last."""
    count: int
    step: int
    parts: tuple[tuple[str, str], ...]
    """Variables that stand for the rows of one turn, with the Python that gives them."""
    filled: tuple[str, ...]
    """Results of which each turn fills a part."""

    @property
    def head(self) -> str:
        return f"for start in range(0, {self.count}, {self.step}):"

    def loop(self, lines: Sequence[str]) -> str:
        """The lines of the kernels as the loop's body."""
        inside = "\n".join((*(f"{name} = {text}" for name, text in self.parts), *lines))
        return f"{self.head}\n{textwrap.indent(inside, '    ')}"


@dataclass(frozen=True)
class KernelPlan:
    buffers: dict[str, Buffer]
    """By name; inputs, parameters and constants beside what kernels make."""
    kernels: tuple[Kernel, ...]
    returns: str
    """Python text of what `forward` returns, in terms of buffers: `out`, `(hidden, state.transpose(0, 1))`."""
    inputs: tuple[str, ...] = ()
    """Tensor inputs in the order of `forward`'s arguments."""
    changed: tuple[tuple[str, str], ...] = ()
    """Inputs that `forward` changes in place, with the Python that gives what they hold in the end."""
    written: tuple[str, ...] = ()
    """Inputs that kernels change where they lie."""
    prepared: tuple[tuple[str, str], ...] = ()
    """Variables that `forward` sets before any kernel, with the Python that gives them: inputs in the layout that kernels expect."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Of every result in the call graph, where kernels may address operands by shapes."""

    cuts: Cuts = ()
    """Calls in the call graph that slice a tensor: names of the results, the call, and the shape of one."""

    tuning: Tuning = BY_RULE
    """Numbers that the backend does not take by its rules."""
    chunks: tuple[RowChunks, ...] = ()

    def chunk_from(self, place: int) -> RowChunks | None:
        """The loop that begins with the kernel at this place."""
        return next((chunk for chunk in self.chunks if chunk.first == place), None)

    def chunk_until(self, place: int) -> RowChunks | None:
        """The loop that ends with it."""
        return next((chunk for chunk in self.chunks if chunk.last == place + 1), None)

    def results(self) -> list[Buffer]:
        return [buffer for buffer in self.buffers.values() if buffer.kind == "result"]
