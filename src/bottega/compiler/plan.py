"""A plan: the kernels of a module in order, the buffers between them, and what `forward` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bottega.compiler.kernel import Kernel
from bottega.compiler.view import Buffer, Shape

Cuts = tuple[tuple[tuple[str, ...], str, Shape], ...]


@dataclass(frozen=True)
class Plan:
    buffers: dict[str, Buffer]
    """By name; inputs, parameters and constants beside what kernels make."""
    kernels: tuple[Kernel, ...]
    returns: str
    """Python text of what `forward` returns, in terms of buffers: `out`, `(hidden, state.transpose(0, 1))`."""
    inputs: tuple[str, ...] = ()
    """Tensor inputs in the order of `forward`'s arguments."""
    prepared: tuple[tuple[str, str], ...] = ()
    """Buffers that depend on parameters alone, with the Python that makes them: folded weights. They are made in each call unless
    a technique keeps them."""

    literal: bool = False
    """Whether sizes are written as numbers, where they are not read off a tensor that exists."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Of every result that the sketch names, where kernels may look operands up by shapes."""

    cuts: Cuts = ()
    """Calls of the sketch that take parts of a tensor: names of the results, the call, and the shape of one."""

    def results(self) -> list[Buffer]:
        return [buffer for buffer in self.buffers.values() if buffer.kind == "result"]
