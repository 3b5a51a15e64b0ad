"""A plan: the kernels of a module in order, the buffers between them, and what `forward` returns."""

from __future__ import annotations

from dataclasses import dataclass

from bottega.learn.teachers.builder.kernel import Kernel
from bottega.learn.teachers.builder.view import Buffer


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

    def results(self) -> list[Buffer]:
        return [buffer for buffer in self.buffers.values() if buffer.kind == "result"]
