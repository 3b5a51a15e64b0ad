"""What one call of a runner returned and how long it took, by the controller's clock and by the worker's claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bottega.judge.output_presence import Places
from bottega.judge.tensor_transport import TensorSpec


@dataclass
class CallRecord:
    outer_ns: int
    """By the controller's clock: from before the thaw until the call had returned, and on a GPU the device was the controller's again."""
    delivery_ns: int
    """By the same clock, from there on: until the outputs were seen in place. It includes the time before the call in which the worker made the
    views of its inputs, because work that needs no inputs could be done then too."""
    inner_ns: int
    """By the worker's own clock: precise, and forgeable."""
    skeleton: Any
    specs: list[TensorSpec]
    aliases: frozenset[int]
    restrided: bool
    """Whether an output had another layout than the reference's, as the worker claims."""
    settle_ns: int
    """How long the controller's own preparation took: it grows when a worker left work behind on the device."""
    late_write: bool
    overlaps: bool = False
    """Whether two outputs share memory: by the places that it claims on a CPU, where they are looked at; on a GPU as it says."""
    absent: bool = False
    """The outputs were not at the claimed addresses when the worker said that the call had returned."""
    where: Places | None = None
    """Of the outputs in the worker's own memory, as it claims; on a CPU."""
    waited_ns: int = 0
    """How long a thread on the critical path was ready and had no core: the worker's first, its supervisor's or the controller's."""
    waited_delivery_ns: int = 0
    """The same with whichever thread of the worker waited longest: torch may copy outputs with several."""
    waited_preparing_ns: int = 0
    """The same while the worker made the views of its inputs."""
    ran_ns: int = 0
    """How long the worker's first thread was on a core during the call, by the operating system's count; 0 on a GPU."""
    worked_ns: int = 0
    """The part of it inside the module, as the worker claims."""
    avoidable_ns: int = 0
    """What the worker did by itself between the message that started the call and the one that it has returned, as it says: reading and writing
    them, which a worker that hostile code has replaced need not do; 0 on a GPU, which is held meanwhile."""
    enqueued_ns: int = 0
    """How long the host took to launch the call's work on a GPU, as the worker says: what is longer than the hold shows on every clock."""
    unseen_ns: int = 0
    """From the worker's last message until its supervisor began to count what it still ran; part of the delivery. 0 on a GPU."""
    ahead_ns: int = 0
    """What its threads ran from there until each of them was stopped, and while it made the views of its inputs; 0 on a GPU."""
    others_ns: int = 0
    """What its other threads ran in all, from the thaw until they were stopped; 0 on a GPU."""
    late_ns: int = 0
    """For how long a GPU did something else while the worker was being stopped: its own work or another process's; 0 on a CPU."""
    held_ns: int = 0
    """For how long the controller occupied a GPU as the call began."""
    input_specs: list[TensorSpec] = field(default_factory=list)

    def core_ns(self, cores: int) -> int:
        """What the call took by the operating system's count, which waiting for a core does not change, from the views of its inputs on until the
        worker was stopped."""
        return round(self.ran_ns + (self.others_ns + self.ahead_ns) / max(1, cores - 1)) if self.ran_ns else self.inner_ns
