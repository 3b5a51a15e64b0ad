"""The task profile: what the first calls of the reference show. What it returns, whether it is deterministic, what it does to its inputs, how
long it takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, Protocol, TypeVar

import torch

from bottega.judge.arena import Arena
from bottega.judge.call_options import CallOptions, no_op
from bottega.judge.call_record import CallRecord
from bottega.judge.device import DELIVERY_HOLD_NS, DeviceControl
from bottega.judge.device_lock import Lease
from bottega.judge.inputs import InputSet, digest, same_bytes
from bottega.judge.inspected_worker import SHIFTS
from bottega.judge.invalid_task import InvalidTask, out_of_memory
from bottega.judge.loading import bytes_of
from bottega.judge.memory_need import CONTEXT_BYTES
from bottega.judge.oracle import Oracle
from bottega.judge.output_comparison import OutputComparison, nonfinite_elements, root_mean_square
from bottega.judge.reference import Reference, release
from bottega.judge.runner import LARGE_BYTES, Runner, on_all_cores
from bottega.judge.tensor_transport import ALIGNMENT, TensorSpec, dtype_name, lay_out
from bottega.judge.worker_link import RunnerFailed

T = TypeVar("T")
ROOMY_OUTPUT = 256 << 20
UNKNOWN_YET = frozenset({-1})
"""Which outputs lie in the memory of the inputs, until the first call shows it."""
SMALL_OUTPUT = 64
"""Outputs with no more elements than this may cancel to almost nothing in one draw."""
TIMED_CALLS = 4
LONG_SUM = 1 << 16
"""Elements of an input for each of the outputs, above which what is left out of a sum does not show on spiked inputs."""


@dataclass
class TaskProfile:
    """What is known about a task before any candidate is judged."""

    input_room: int = 0
    output_room: int = 0
    """Bytes that the inputs (at any of their addresses) and the outputs take in an arena."""
    lower_precision: bool = False
    mutates: frozenset[int] = frozenset()
    aliased: frozenset[int] = frozenset()
    """Outputs that lie in the memory of the inputs."""
    overlaps: bool = False
    """Whether two of the reference's own outputs share memory: then a candidate's may too."""
    typical: tuple[float, ...] = ()
    alone_ms: float = 0.0
    workspace: int = 0
    """Bytes of the device that the reference takes beside inputs, parameters and outputs; 0 on a CPU."""
    nonfinite: int = 0
    """How many elements of a right answer are NaN or infinite on plain inputs: what a mask hides, say."""
    sizes: tuple[float, ...] = ()
    """Root mean square of each output on plain inputs, 0 for integers."""
    long_sums: bool = False
    """Whether there are so few outputs for so many inputs that each is made of very many."""
    strides: tuple[tuple[int, ...], ...] = ()
    """How each output lies in memory."""
    reuses_outputs: bool = False
    """The reference itself returns memory that it goes on to use and may change: then a candidate may too."""
    reads_memory: bool = True
    """Whether the supervisor can read a worker's memory, on a CPU."""
    writes_memory: bool = False
    """Whether it can write into a worker's outputs, as a caller may, and the reference stays correct."""
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def call_options(
        self,
        *,
        precision: str,
        state: str,
        deadline: Callable[[], float],
        device_control: DeviceControl,
        timed: bool = False,
        yield_to_timer: Callable[[], None] = no_op,
        released: Callable[[], AbstractContextManager[None]] = nullcontext,
        paused: Callable[..., AbstractContextManager[None]] = nullcontext,
    ) -> CallOptions:
        return CallOptions(
            precision=precision,
            state=state,
            mutates=self.mutates,
            aliased=self.aliased,
            reference_overlaps=self.overlaps,
            deadline=deadline,
            prepare_device=device_control.flush_caches if timed else device_control.synchronize,
            hold_call=device_control.hold_call if timed else no_op,
            call_hold_ns=device_control.hold_ns if timed else 0,
            delivery_hold_ns=DELIVERY_HOLD_NS if timed else 0,
            yield_to_timer=yield_to_timer,
            released=released,
            paused=paused,
            strides=self.strides,
            typical=self.typical,
        )

    @property
    def large(self) -> bool:
        """Whether memory is released between calls; never between timed ones."""
        return self.input_room + self.output_room > LARGE_BYTES

    @property
    def watched_room(self) -> int:
        """Bytes that a correct output may take: where a lower precision is allowed, it may be wider than the baseline's."""
        return self.output_room * (2 if self.lower_precision else 1)

    def arenas(self, device: str) -> tuple[Arena, Arena]:
        return Arena.create(device, self.input_room), self.output_arena(device)

    def output_arena(self, device: str) -> Arena:
        wide = self.output_room * 2 if self.output_room < ROOMY_OUTPUT else 0  # for a wider, wrong data type
        return Arena.create(device, max(self.watched_room, wide) + ALIGNMENT * (SHIFTS + 64))


class ReferenceRunner(Protocol):
    """Runs the reference: in a process of its own, or in this one."""

    name: str
    device: str

    def run_call(self, inputs: InputSet, options: CallOptions) -> CallRecord: ...

    def output_views(self, specs: list[TensorSpec]) -> list[torch.Tensor]: ...

    def mutated(self, record: CallRecord, inputs: InputSet) -> list[int]: ...


class Unrepeatable(InvalidTask):
    """The reference answers differently to the same inputs."""


def draw_inputs(profile: TaskProfile, reference: Reference, eager: Runner, variant: str = "plain") -> InputSet:
    """Inputs for the next call. On a GPU the trusted runner holds the original; on a CPU every runner gets its copy right before its call, so
    that the caches are in the same state for all of them."""
    at_home = reference.device != "cpu" and not profile.mutates
    if profile.large and reference.device != "cpu":
        torch.cuda.empty_cache()  # what the oracle took is of other sizes: the inputs would come on top of it
    return reference.draw(variant, eager.take_in if at_home else None)


def profile_task(
    reference: Reference,
    oracle: Oracle,
    baselines: dict[str, Runner],
    device_control: DeviceControl,
    lease: Lease,
    precision: str,
    deadline: float,
) -> TaskProfile:
    """Give every baseline its arenas and its first calls. Raises `InvalidTask` for what cannot be judged."""
    profile = TaskProfile(lower_precision=precision in ("bf16", "fp16"), aliased=UNKNOWN_YET)
    eager = baselines["eager"]
    with lease.shared():
        inputs, first = _first_calls(profile, reference, baselines, device_control, lease, precision, deadline)
        if profile.large:
            release(reference.device)
    with lease.exclusive(), on_all_cores(baselines.values()):
        device_control.calibrate(first.enqueued_ns)
        timed = profile.call_options(
            precision=precision, state="loaded", deadline=lambda: deadline, device_control=device_control, timed=True
        )
        times, profile.typical = _first_times(profile, reference, eager, timed)
        rates = device_control.rates()
    profile.alone_ms = median(times) / 1e6
    oracle.workspace, oracle.mutates = profile.workspace, bool(profile.mutates)
    oracle.room = profile.input_room + profile.output_room
    with lease.shared():
        # The kind of oracle is fixed now, before a candidate can influence it.
        options = profile.call_options(
            precision=precision,
            state="loaded",
            deadline=lambda: deadline,
            device_control=device_control,
            yield_to_timer=no_op if reference.device == "cpu" else partial(lease.yield_to_timer, device_control.synchronize),
            released=lease.released,
        )
        drawn = draw_inputs(profile, reference, eager)
        record = _reference_call(eager, drawn, options)
        if profile.large:
            eager.trim(deadline)
        outputs = eager.output_views(record.specs)
        profile.sizes = output_sizes(outputs)
        if all(each.is_floating_point() or each.is_complex() for each in outputs):  # which of two is larger may be close
            reference.inputs.tilted = reference.tilted
        largest = max((tensor.numel() for tensor in drawn.tensors if tensor.is_floating_point()), default=0)
        profile.long_sums = largest >= LONG_SUM * max(1, sum(each.numel() for each in outputs))
        counts = []
        for piece in oracle.truth(drawn, "loaded", outputs):
            options.yield_to_timer()
            counts += [nonfinite_elements(truth, counted=True) for truth in piece.outputs]
            del piece
        profile.nonfinite = int(torch.stack(counts).sum())
        oracle.settled = oracle.kind
        if profile.large:
            oracle.forget()
    profile.facts = {
        "input_bytes": sum(spec.extent for spec in inputs),
        "output_bytes": sum(spec.extent for spec in first.specs),
        "parameter_bytes": bytes_of(reference.seeded_state.values()),
        "workspace_bytes": profile.workspace,
        "reference_ms": profile.alone_ms,
        "quickest_ms": min(times) / 1e6,
        "inputs": [[spec.dtype, list(spec.shape)] for spec in inputs],
        "outputs": [[spec.dtype, list(spec.shape)] for spec in first.specs],
        "mutates_inputs": sorted(profile.mutates),
        "peak_bytes": _peak(profile, reference) if reference.device != "cpu" else 0,
        **rates,
    }
    return profile


def _first_calls(
    profile: TaskProfile,
    reference: Reference,
    baselines: dict[str, Runner],
    device_control: DeviceControl,
    lease: Lease,
    precision: str,
    deadline: float,
) -> tuple[list[TensorSpec], CallRecord]:
    """Find out how much room inputs and outputs take, what a call does to its inputs, and whether it repeats itself."""

    def terms(timed: bool = False) -> CallOptions:
        return profile.call_options(
            precision=precision,
            state="loaded",
            deadline=lambda: deadline,
            device_control=device_control,
            timed=timed,
            yield_to_timer=no_op if reference.device == "cpu" else partial(lease.yield_to_timer, device_control.synchronize),
            released=lease.released,
        )

    eager, device = baselines["eager"], reference.device
    drawn = must_vary(reference)
    inputs, profile.input_room = lay_out(drawn.tensors, ALIGNMENT * SHIFTS)
    shared = Arena.create(device, profile.input_room)
    survey_room = Arena.create(device, ALIGNMENT)
    eager.attach(shared, survey_room, deadline)
    survey = of_reference(eager, lambda: eager.survey(drawn, deadline))
    if not survey["tensors"]:
        raise InvalidTask("the model returns no tensor: there is nothing to compare")
    profile.output_room, profile.workspace = int(survey["bytes"]), int(survey["workspace"])
    eager.attach(shared, profile.output_arena(device), deadline)
    eager.extent = profile.watched_room
    survey_room.close()
    profile_first_call(profile, eager, drawn, terms)
    # Twice: the extra cost of the first such call is paid before the device is held exclusively, and is in no time.
    _reference_call(eager, drawn, terms(timed=True))
    return inputs, _reference_call(eager, drawn, terms(timed=True))


def profile_first_call(
    profile: TaskProfile, eager: ReferenceRunner, drawn: InputSet, options: Callable[[], CallOptions]
) -> CallRecord:
    """Find out what a call does to its inputs and how its outputs lie in memory. Raises `Unrepeatable` where a second call differs."""
    first = _reference_call(eager, drawn, options())
    profile.mutates = frozenset(eager.mutated(first, drawn))
    profile.aliased, profile.overlaps = first.aliases, first.overlaps
    profile.strides = tuple(spec.stride for spec in first.specs)
    outputs = [view.clone() for view in eager.output_views(first.specs)]
    must_repeat(outputs, eager.output_views(_reference_call(eager, drawn, options()).specs))
    return first


def output_sizes(outputs: list[torch.Tensor]) -> tuple[float, ...]:
    """Root mean square of each floating-point output, 0 for the others."""
    return tuple(root_mean_square(each) if each.is_floating_point() else 0.0 for each in outputs)


def small_output_sizes(views: list[torch.Tensor]) -> list[float]:
    """Root mean square of each small floating-point output, 0 for the others."""
    return [root_mean_square(v) if v.is_floating_point() and v.numel() <= SMALL_OUTPUT else 0.0 for v in views]


def _peak(profile: TaskProfile, reference: Reference) -> int:
    """Bytes of the device for this task once a candidate has its arenas too: contexts, arenas, and the most that the two processes have taken."""
    arenas = 2 * (profile.input_room + max(profile.watched_room, profile.output_room))
    eager = bytes_of(reference.seeded_state.values()) + profile.output_room + profile.workspace
    return 2 * CONTEXT_BYTES + arenas + eager + torch.cuda.max_memory_reserved()


def of_reference(runner: ReferenceRunner, call: Callable[[], T]) -> T:
    """Turn any failure of the reference into `InvalidTask`."""
    try:
        return call()
    except RunnerFailed as failure:
        text = failure.detail.get("text") or failure.text
        if failure.kind == "failure" and out_of_memory(text):
            raise InvalidTask(
                f"the reference needs more memory than the {runner.device} device has left; use smaller shapes"
            ) from None
        reasons = {"timeout": "takes longer than the task timeout", "died": "kills its process (out of memory, or a crash)"}
        if failure.detail.get("type") == "Unsupported":
            raise InvalidTask(f"the model returns {' '.join(text.split())[:400]}") from None
        told = reasons.get(failure.kind) or f"raises {failure.detail.get('type', '')}: {text}"
        raise InvalidTask(f"{runner.name} baseline: the reference {' '.join(told.split())[:400]}") from None


def _reference_call(runner: ReferenceRunner, drawn: InputSet, options: CallOptions) -> CallRecord:
    return of_reference(runner, lambda: runner.run_call(drawn, options))


def _first_times(
    profile: TaskProfile, reference: Reference, eager: Runner, options: CallOptions
) -> tuple[list[int], tuple[float, ...]]:
    """Nanoseconds of a few calls on fresh inputs, and the size of each small output over them. Also finds out whether the outputs of the first
    call are unchanged after the second."""
    times: list[int] = []
    sizes: list[list[float]] = []
    for number in range(TIMED_CALLS):
        keep = number == 0
        try:
            record = of_reference(eager, lambda: eager.run_call(draw_inputs(profile, reference, eager), options, keep=keep))  # noqa: B023
        except InvalidTask:
            if not (keep and eager.reads_memory):
                raise
            profile.reads_memory = eager.reads_memory = False
            record = _reference_call(eager, draw_inputs(profile, reference, eager), options)
        times.append(record.inner_ns)
        views = eager.output_views(record.specs)
        sizes.append(small_output_sizes(views))
        if number == 0:
            first = record
        if number == 1:
            held = eager.retained is not None and eager.reads_memory
            places = enumerate(zip(first.where or (), record.where or ()))
            same_place = held and any(one == two and one[0] for n, (one, two) in places if n not in profile.aliased)
            profile.reuses_outputs = eager.retained_was_altered(record.specs, options.strides, options.deadline()) or same_place
            profile.writes_memory = (
                held and not (profile.mutates or profile.reuses_outputs) and not eager.overwrite(record, profile.aliased)
            )
            if profile.large:
                eager.trim(options.deadline())
    return times, tuple(max(column) for column in zip(*sizes))


def must_vary(reference: Reference) -> InputSet:
    """Inputs. Refuses a task whose inputs never change: a candidate could recognise them and cache the answers. Two draws never exist at the same
    time: they may be large."""
    before = [digest(tensor) for tensor in reference.draw().tensors]
    drawn = reference.draw()
    if not any(tensor.numel() for tensor in drawn.tensors):
        raise InvalidTask("get_inputs() returns no tensor with elements: there is nothing to compute with")
    if before == [digest(tensor) for tensor in drawn.tensors]:
        raise InvalidTask(
            "get_inputs() returns the same contents every time: answers could be kept; draw them at random, without a fixed seed"
        )
    return drawn


def must_repeat(before: list[torch.Tensor], after: list[torch.Tensor]) -> None:
    for one, two in zip(before, after):
        if one.shape == two.shape and one.stride() == two.stride() and same_bytes(one, two):
            continue
        if one.shape != two.shape or _differs(one, two):
            raise Unrepeatable("the reference answers differently to the same inputs: it draws random numbers or keeps state")


def _differs(before: torch.Tensor, after: torch.Tensor) -> bool:
    floating = before.is_floating_point() or before.is_complex()
    comparison = OutputComparison(
        dtype_name(before.dtype), "fp32", root_mean_square(before) if floating else 0.0, rounding=(1e-4, 1.0)
    )
    comparison.feed(after.reshape(-1), before.reshape(-1), before.reshape(-1))
    return bool(comparison.problem)
