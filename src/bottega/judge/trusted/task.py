"""A task that is open in a worker: the reference, its baselines, and a few draws of inputs with the reference's outputs and the truth.

The draws serve all candidates of the task, because the oracle costs more than everything else about a correct candidate. A wrong candidate
may have written into them, so afterwards their checksums are compared, and they are made again if they have changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch

from bottega.core.task import Task
from bottega.judge.baselines import COMPILE_MODES
from bottega.judge.call_options import CallOptions, no_op
from bottega.judge.call_record import CallRecord
from bottega.judge.device import DeviceControl
from bottega.judge.inputs import InputSet, flat_bytes
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.loading import autocast, set_precision
from bottega.judge.oracle import Oracle, OracleSlice
from bottega.judge.reference import Reference
from bottega.judge.settings import Settings
from bottega.judge.task_profile import (
    SMALL_OUTPUT,
    TIMED_CALLS,
    UNKNOWN_YET,
    TaskProfile,
    must_vary,
    of_reference,
    output_sizes,
    profile_first_call,
    small_output_sizes,
)
from bottega.judge.tensor_transport import TensorSpec, is_dense
from bottega.judge.trusted.runner import InProcessRunner, OutOfDeviceMemory
from bottega.judge.trusted.shared_device import SharedDevice
from bottega.judge.variants import OF_INTEGERS
from bottega.judge.worker_link import RunnerFailed

DRAWS = ("plain", "spiked", "plain")
"""The judge's quick variants, and a fresh draw of the first: a candidate that keeps something of an earlier call shows."""
LARGEST_TRUTH = 1 << 30
"""Bytes of the truth of one draw that are kept; where it takes more it is computed for every candidate."""


@dataclass
class ReferenceCall:
    """One draw with the reference's call on it. It stands in for the oracle and for the eager runner in the judge's `run_trial`."""

    oracle: Oracle
    state: str
    inputs: InputSet
    record: CallRecord | None = None
    failure: RunnerFailed | None = None
    outputs: list[torch.Tensor] = field(default_factory=list)
    inputs_after: list[torch.Tensor] = field(default_factory=list)
    """The inputs as the reference leaves them, where it changes them."""
    slices: list[OracleSlice] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.oracle.kind

    def draw(self, variant: str = "plain") -> InputSet:
        return self.inputs

    def run_call(self, inputs: InputSet, options: CallOptions) -> CallRecord:
        if self.failure is not None or self.record is None:
            raise self.failure or RunnerFailed("died")
        return self.record

    def output_views(self, specs: list[TensorSpec]) -> list[torch.Tensor]:
        return self.outputs

    def input_views(self, record: CallRecord) -> list[torch.Tensor]:
        return self.inputs_after

    def truth(self, inputs: InputSet, state: str, outputs: list[torch.Tensor]) -> Iterator[OracleSlice]:
        yield from self.slices or self.oracle.truth(self.inputs, self.state, self.outputs)

    def keep_truth(self) -> None:
        size, slices = 0, []
        for piece in self.oracle.truth(self.inputs, self.state, self.outputs):
            slices.append(piece)
            size += sum(tensor.nbytes for tensor in [*piece.outputs, *piece.inputs_after])
            if size > LARGEST_TRUTH:
                return
        self.slices = slices

    def tensors(self) -> Iterable[torch.Tensor]:
        truths = (tensor for piece in self.slices for tensor in piece.outputs)
        return (*self.inputs.tensors, *self.outputs, *self.inputs_after, *truths)


class TrustedTask:
    """Raises `InvalidTask` for what cannot be judged, and `OutOfDeviceMemory` where the memory is full."""

    def __init__(self, task: Task, settings: Settings, device: str, control: DeviceControl, sharing: SharedDevice) -> None:
        self.task, self.settings, self.device, self.control, self.sharing = task, settings, device, control, sharing
        self.reference = Reference(task.source, device, settings.training, settings.precision)
        self.oracle = Oracle(self.reference)
        self.profile = TaskProfile()
        self.baselines: dict[str, InProcessRunner] = {}
        self._calls: dict[str, list[ReferenceCall]] = {}
        self._checksums: dict[str, list[int]] = {}

    @property
    def eager(self) -> InProcessRunner:
        return self.baselines["eager"]

    @cached_property
    def parameters(self) -> bytes:
        """What every candidate is given to load."""
        return self.reference.state_bytes("loaded")

    def open(self) -> None:
        """The reference's first calls, on the device."""
        reference, precision = self.reference, self.settings.precision
        set_precision(precision)
        try:
            self.baselines["eager"] = self._baseline("eager")
            drawn = must_vary(reference)
            profile = self.profile = TaskProfile(lower_precision=precision in ("bf16", "fp16"), aliased=UNKNOWN_YET)
            first = profile_first_call(profile, self.eager, drawn, lambda: self.options("loaded"))
            if not first.specs:
                raise InvalidTask("the model returns no tensor: there is nothing to compare")
            self.oracle.mutates = bool(profile.mutates)
            profile.sizes = output_sizes(self.eager.outputs)
            profile.typical = self._typical_sizes()
        except torch.OutOfMemoryError:
            raise OutOfDeviceMemory from None
        profile.facts = {
            "input_bytes": sum(tensor.nbytes for tensor in drawn.tensors),
            "output_bytes": sum(spec.extent for spec in first.specs),
            "parameter_bytes": sum(value.nbytes for value in reference.seeded_state.values()),
            **self.control.rates(),
        }
        self.eager.forget()

    def compile(self) -> None:
        """The other baselines. Most of it happens on the host: on a GPU, call it without the lease."""
        for name in self.settings.compiled:
            runner = self.baselines[name] = self._baseline(name)
            runner.module = torch.compile(runner.module, mode=COMPILE_MODES[name])
            self._first_call(runner, self.reference.draw())
            runner.forget()

    def options(self, state: str) -> CallOptions:
        return self.profile.call_options(
            precision=self.settings.precision,
            state=state,
            deadline=lambda: 0.0,
            device_control=self.control,
            yield_to_timer=no_op if self.device == "cpu" else partial(self.sharing.yield_to_timer, self.control.synchronize),
        )

    def reference_calls(self, state: str) -> list[ReferenceCall]:
        """What candidates are tried on; made at the first use, for parameters that could be loaded and for those that could not."""
        if state not in self._calls:
            set_precision(self.settings.precision)
            self._load(state)
            self._calls[state] = [self._reference_call(variant, state) for variant in self._draws]
            self._load("loaded")
            self.eager.forget()
            self._checksums[state] = self._checksum(state)
        return self._calls[state]

    @property
    def _draws(self) -> tuple[str, ...]:
        return (*DRAWS, *(OF_INTEGERS if self.reference.inputs.has_discrete else ()))

    def draw_weaker(self, state: str, number: int) -> ReferenceCall | None:
        """Another call in the place of one on which the reference is not accurate; None where its variant has no weaker form."""
        variant = self._draws[number]
        if variant == "plain" or not self.reference.inputs.weaken(variant):
            return None
        self._load(state)
        self._calls[state][number] = made = self._reference_call(variant, state)
        self._load("loaded")
        self.eager.forget()
        self._checksums[state] = self._checksum(state)
        return made

    def discard_overwritten(self) -> bool:
        """After a wrong candidate: whether it wrote into what later verdicts rest on. That is then discarded."""
        overwritten = any(self._checksum(state) != self._checksums[state] for state in self._calls)
        if overwritten:
            self._calls.clear()
            self._load("loaded")
        return overwritten

    def _reference_call(self, variant: str, state: str) -> ReferenceCall:
        made = ReferenceCall(self.oracle, state, self.reference.draw(variant))
        try:
            made.record = self.eager.run_call(made.inputs, self.options(state))
        except RunnerFailed as failure:
            made.failure = failure
            return made
        made.outputs = self.eager.outputs
        made.inputs_after = self.eager.inputs if self.profile.mutates else []
        try:
            made.keep_truth()
        except torch.OutOfMemoryError:
            raise OutOfDeviceMemory from None
        return made

    def _typical_sizes(self) -> tuple[float, ...]:
        small = [tensor.is_floating_point() and tensor.numel() <= SMALL_OUTPUT for tensor in self.eager.outputs]
        if not any(small):
            return tuple(0.0 for _ in small)
        sizes = []
        for _ in range(TIMED_CALLS):
            self._first_call(self.eager, self.reference.draw())
            sizes.append(small_output_sizes(self.eager.outputs))
        return tuple(max(column) for column in zip(*sizes))

    def _first_call(self, runner: InProcessRunner, drawn: InputSet) -> None:
        """A call that shows whether the task can be judged."""
        of_reference(runner, lambda: runner.run_call(drawn, self.options("loaded")))

    def _baseline(self, name: str) -> InProcessRunner:
        with nullcontext() if self.device == "cpu" else self.sharing.released():  # on a CPU it would disturb a timer
            model = self.reference.build()
        model.load_state_dict(self.reference.state("loaded"), strict=True)
        return InProcessRunner(name, model.to(self.device), self.device, context=autocast(self.device, self.settings.precision))

    def _load(self, state: str) -> None:
        self.eager.module.load_state_dict(self.reference.state(state), strict=True)

    def _checksum(self, state: str) -> list[int]:
        """One number for each tensor that later verdicts rest on."""
        tensors = [tensor for call in self._calls[state] for tensor in call.tensors()]
        parts = [*tensors, *self.eager.module.state_dict().values()]
        sums = [sum_of_words(tensor) for tensor in parts if tensor.numel()]
        return torch.stack(sums).tolist() if sums else []  # type: ignore[no-any-return]


def sum_of_words(tensor: torch.Tensor) -> torch.Tensor:
    data = flat_bytes(tensor if is_dense(tensor.shape, tensor.stride()) else tensor.contiguous())
    # Weights that a recurrent module keeps in one piece of memory begin anywhere in it: take the widest words that are aligned there.
    word = next(
        word for word in (torch.int64, torch.int32, torch.int16, torch.uint8) if data.storage_offset() % word.itemsize == 0
    )
    whole = data.numel() // word.itemsize * word.itemsize
    return data[:whole].view(word).sum(dtype=torch.int64) + data[whole:].sum(dtype=torch.int64)
