"""What holds for every call of one examination."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass


def no_op() -> None:
    """For what is not asked for."""


@dataclass(frozen=True)
class CallOptions:
    precision: str
    state: str
    """Which parameters both runners have: `loaded` or `seeded`."""
    mutates: frozenset[int]
    """Inputs that the reference itself changes in place."""
    reference_aliases: bool
    """Whether the reference returns memory of its inputs."""
    deadline: Callable[[], float]
    prepare_device: Callable[[], None]
    """Called before each turn, when everything else is ready."""
    hold_call: Callable[[], None]
    """Called as a turn begins: keeps the device busy while the worker wakes up and enqueues its work."""
    call_hold_ns: int
    """For how long that is; 0 where nothing is held."""
    delivery_hold_ns: int
    """For how long the device is kept busy when the call has ended, while the worker enqueues the copy of its outputs."""
    yield_to_timer: Callable[[], None] = no_op
    """Called before each turn: lets a timer have the device that waits for it."""
    released: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while a worker compiles in the middle of a call: the device is not used then, and others may have it."""
    strides: tuple[tuple[int, ...], ...] = ()
    """How each output is laid out in memory: as the reference returns it. Whoever returns another layout has it changed, and pays for it."""
    typical: tuple[float, ...] = ()
    """Size of each output over several draws: one draw of a scalar may cancel to almost nothing."""
