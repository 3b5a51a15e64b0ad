"""Options of every call in one stage of an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass


def no_op() -> None:
    """Does nothing."""


@dataclass(frozen=True)
class CallOptions:
    precision: str
    state: str
    """Which parameters candidate and baseline have: `loaded` or `seeded`."""
    mutates: frozenset[int]
    """Inputs that the reference itself changes in place."""
    aliased: frozenset[int]
    """Outputs of the reference that lie in the memory of its inputs: then a candidate's may too."""
    """Whether the reference returns memory of its inputs."""
    deadline: Callable[[], float]
    prepare_device: Callable[[], None]
    """Called before each call, when everything else is ready."""
    hold_call: Callable[[], None]
    """Called as a call begins: occupies the device while the worker wakes up and enqueues its work."""
    call_hold_ns: int
    """For how long that is; 0 where nothing is held."""
    delivery_hold_ns: int
    """For how long the device is kept busy when the call has ended, while the worker enqueues the copy of its outputs."""
    yield_to_timer: Callable[[], None] = no_op
    """Called before each call: lets a waiting timer have the device."""
    released: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while a worker compiles in the middle of a call: the device is not used then, and others may have it."""
    paused: Callable[..., AbstractContextManager[None]] = nullcontext
    """Entered for what is not the candidate's work: its time limit does not run meanwhile. Takes the most seconds that it may last."""
    strides: tuple[tuple[int, ...], ...] = ()
    """How each output is laid out in memory: as the reference returns it. Another layout is converted in the delivery, and charged."""
    typical: tuple[float, ...] = ()
    """Size of each output over several draws: one draw of a scalar may cancel to almost nothing."""
    reference_overlaps: bool = False
    """Whether two of the reference's outputs share memory."""
