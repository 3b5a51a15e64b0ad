"""A plan: the kernels of a module in order, the buffers between them, and what `forward` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bottega.compiler.choices import BY_RULE, Tuning
from bottega.compiler.kernel import Kernel
from bottega.compiler.view import Buffer, Shape

Cuts = tuple[tuple[tuple[str, ...], str, Shape], ...]


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
    prepared: tuple[tuple[str, str], ...] = ()
    """Variables that `forward` sets before any kernel, with the Python that gives them: inputs in the layout that kernels expect."""

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Of every result in the call graph, where kernels may address operands by shapes."""

    cuts: Cuts = ()
    """Calls in the call graph that slice a tensor: names of the results, the call, and the shape of one."""

    tuning: Tuning = BY_RULE
    """Numbers that the backend does not take by its rules."""

    def results(self) -> list[Buffer]:
        return [buffer for buffer in self.buffers.values() if buffer.kind == "result"]
