"""Checks of a worker's memory: its outputs in the controller's buffer, and the outputs that it still holds in its own memory.

On a CPU the supervisor reads and writes the memory of the stopped worker. On a GPU the worker is asked to deliver retained outputs again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from bottega.core.errors import SandboxError
from bottega.judge.arena import Arena
from bottega.judge.call_record import CallRecord
from bottega.judge.output_presence import OutputPresence, Places, scattered_regions
from bottega.judge.retained_outputs import RetainedOutputs
from bottega.judge.tensor_transport import ALIGNMENT, TensorSpec, Unsupported, aligned
from bottega.judge.worker_link import RunnerFailed, WorkerLink
from bottega.sandbox.channel import Channel
from bottega.sandbox.control import ProcessControl

SHIFTS = 16
"""Addresses at which inputs and outputs may begin: a call never sees the pointer it saw before, except by chance."""


NOT_THERE = "the outputs do not lie where the candidate's process says"


class InspectedWorker(WorkerLink):
    def __init__(self, name: str, channel: Channel, control: ProcessControl, device: str):
        super().__init__(name, channel, control, device)
        self.inputs: Arena | None = None
        self.outputs: Arena | None = None
        self.extent = ALIGNMENT
        """Bytes of the output arena that a correct answer fills."""
        self.retained: RetainedOutputs | None = None
        self.reads_memory = device == "cpu"
        """Whether the supervisor can read the worker's memory; cleared for good when it cannot for a trusted worker."""

    def output_views(self, specs: list[TensorSpec]) -> list[torch.Tensor]:
        """The outputs in the controller's memory, read by specs that the controller trusts."""
        assert self.outputs is not None
        base = self.outputs.base
        try:
            return [spec.view(base) for spec in specs]
        except (RuntimeError, TypeError, ValueError, Unsupported) as error:
            raise RunnerFailed("forged", text=f"the outputs do not lie where they should: {error}") from None

    def retained_was_altered(self, latest: list[TensorSpec], strides: tuple[tuple[int, ...], ...], deadline: float) -> bool:
        """Whether the retained outputs have changed, after a call whose outputs lie at `latest`. On a GPU the worker delivers them again for
        this, and releases them."""
        retained = self.retained
        if retained is None:
            return False
        if retained.addresses:
            return not self._still_holds(retained, latest)
        assert self.outputs is not None
        self.retained, shift = None, ALIGNMENT * secrets.randbelow(SHIFTS)
        self._clear_outputs()
        if self.device != "cpu":
            torch.cuda.synchronize()  # or else what the worker delivers could be overwritten
        try:
            reply = self.ask({"do": "again", "shift": shift, "strides": strides}, deadline)
        except RunnerFailed as failure:
            if failure.kind != "failure":
                raise
            return True  # it no longer has what it was told to keep
        try:
            specs = [TensorSpec.from_json(spec) for spec in reply["specs"]]
            self._check_positions(specs, shift)
            self.output_views(specs)
            return not retained.equals(self.outputs.base, specs)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError, Unsupported):
            raise RunnerFailed("forged", text="the candidate's process sent a malformed report") from None

    def overwrite(self, record: CallRecord, without: frozenset[int]) -> str:
        """Write into the outputs of a call, as a caller may, but for some. Returns why that could not be done: then they are no memory of the
        worker's own."""
        views = self.output_views(record.specs)
        try:
            presence = OutputPresence.read(record.where, views, self.control)
            if record.where is None or not presence.matches(views):
                return NOT_THERE
            written = self.control.overwrite_memory(scattered_regions(record.where, views, without))
            return "" if written else self.control.memory_unreadable
        except SandboxError:
            raise RunnerFailed("died") from None

    def trim(self, deadline: float) -> int:
        """Have the worker release what it holds for the next call. Returns its peak device memory, as the worker claims."""
        self.retained = None
        peak = self.ask({"do": "trim"}, deadline).get("peak")
        return peak if isinstance(peak, int) and 0 <= peak < 1 << 50 else 0

    def _retain(self, specs: list[TensorSpec], addresses: list[int], without: frozenset[int]) -> None:
        """Save the outputs that were just delivered, but for some. The addresses are the worker's claim, so the same contents must stand there
        now."""
        assert self.outputs is not None
        if any(spec.offset + spec.extent > self.outputs.capacity for spec in specs):
            return  # more than the reference returns: the check of shapes and data types reports it
        self.output_views(specs)
        known = addresses if self.reads_memory and len(addresses) == len(specs) else []
        retained = RetainedOutputs.of(self.outputs.base, specs, known, without)
        if not retained.numbers:
            return
        if retained.addresses and not self._still_holds(retained, specs):
            raise RunnerFailed("forged", text=NOT_THERE)
        self.retained = retained

    def _still_holds(self, retained: RetainedOutputs, latest: list[TensorSpec]) -> bool:
        assert self.outputs is not None
        places = retained.places_to_read(self.outputs.base, latest)
        try:
            found = self.control.read_memory(retained.regions(places))
        except SandboxError:
            raise RunnerFailed("died") from None
        return found is not None and retained.are(places, found)

    def _read_presence(self, where: Places | None, expected: Sequence[torch.Tensor]) -> OutputPresence:
        """Read the outputs of the stopped worker in its own memory."""
        try:
            return OutputPresence.read(where, expected, self.control)
        except SandboxError:
            raise RunnerFailed("died") from None

    def _clear_outputs(self) -> None:
        """Fill the output area with bytes that are NaN in every floating type."""
        assert self.outputs is not None
        self.outputs.base[: self.extent + ALIGNMENT * SHIFTS].fill_(255)

    def _check_positions(self, specs: list[TensorSpec], shift: int) -> None:
        """Outputs are read only in the watched area: one after the other from the address that the worker was told."""
        place = shift
        for spec in specs:
            if spec.offset != place:
                raise RunnerFailed("forged", text="the outputs do not lie where they should")
            try:
                place = aligned(spec.offset + spec.extent)
            except Unsupported:
                raise RunnerFailed("forged", text="an output of a data type that does not exist") from None
