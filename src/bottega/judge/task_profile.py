"""The first calls of a reference: what it returns, whether it repeats itself, what it does to its inputs, how long it takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

import torch

from bottega.judge.arena import Arena
from bottega.judge.compare import Comparison, root_mean_square
from bottega.judge.device import DELIVERY_HOLD_NS, DeviceCare
from bottega.judge.inputs import Drawn, same_bytes
from bottega.judge.invalid import InvalidTask, out_of_memory
from bottega.judge.layout import ALIGNMENT, TensorSpec, dtype_name, lay_out
from bottega.judge.lease import Lease
from bottega.judge.loading import bytes_of
from bottega.judge.memory_need import CONTEXT_BYTES
from bottega.judge.oracle import Oracle
from bottega.judge.reference import Reference, release
from bottega.judge.runner import LARGE_BYTES, SHIFTS, Side, SideFailed, Turn, on_all_cores
from bottega.judge.terms import Terms, nothing

T = TypeVar("T")
ROOMY_OUTPUT = 256 << 20
SMALL_OUTPUT = 64
"""Outputs with no more elements than this may cancel to almost nothing in one draw."""
TIMED_CALLS = 4


@dataclass
class Acquaintance:
    """What is known about a task before any candidate is seen."""

    input_room: int = 0
    output_room: int = 0
    """Bytes that the inputs (at any of their addresses) and the outputs take in an arena."""
    lower_precision: bool = False
    mutates: frozenset[int] = frozenset()
    aliases: bool = False
    typical: tuple[float, ...] = ()
    alone_ms: float = 0.0
    workspace: int = 0
    """Bytes of the device that the reference takes beside inputs, parameters and outputs; 0 on a CPU."""
    strides: tuple[tuple[int, ...], ...] = ()
    """How each output lies in memory."""
    reuses_outputs: bool = False
    """The reference itself returns memory that it goes on to use, and may change: then a candidate may too."""
    reads_memory: bool = True
    """Whether the supervisor can look at what a side holds, on a CPU."""
    writes_memory: bool = False
    """Whether it can write into what a side returned, as a caller may, and the reference bears it."""
    notes: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def terms(
        self,
        *,
        precision: str,
        state: str,
        deadline: Callable[[], float],
        care: DeviceCare,
        timed: bool = False,
        breathe: Callable[[], None] = nothing,
        apart: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Terms:
        return Terms(
            precision=precision,
            state=state,
            mutates=self.mutates,
            reference_aliases=self.aliases,
            deadline=deadline,
            settle=care.settle if timed else care.quiet,
            hold_call=care.hold_call if timed else nothing,
            call_hold_ns=care.hold_ns if timed else 0,
            delivery_hold_ns=DELIVERY_HOLD_NS if timed else 0,
            breathe=breathe,
            apart=apart,
            strides=self.strides,
            typical=self.typical,
        )

    @property
    def large(self) -> bool:
        """Whether memory is worth handing back between calls: never within timed ones."""
        return self.input_room + self.output_room > LARGE_BYTES

    @property
    def watched_room(self) -> int:
        """Bytes in which a right answer may lie: where a lower precision is allowed, it may be wider than the baseline's."""
        return self.output_room * (2 if self.lower_precision else 1)

    def arenas(self, device: str) -> tuple[Arena, Arena]:
        return Arena.create(device, self.input_room), self.output_arena(device)

    def output_arena(self, device: str) -> Arena:
        wide = self.output_room * 2 if self.output_room < ROOMY_OUTPUT else 0  # for a wider, wrong data type
        return Arena.create(device, max(self.watched_room, wide) + ALIGNMENT * (SHIFTS + 64))


class Unrepeatable(InvalidTask):
    """The reference answers differently to the same inputs."""


def fresh(known: Acquaintance, reference: Reference, eager: Side, variant: str = "plain") -> Drawn:
    """Contents for the next call. On a GPU the trusted side holds the original; on a CPU every side gets its copy right before its turn, so that
    it lies in the caches for all of them alike."""
    at_home = reference.device != "cpu" and not known.mutates
    return reference.draw(variant, eager.take_in if at_home else None)


def get_acquainted(
    reference: Reference,
    oracle: Oracle,
    baselines: dict[str, Side],
    care: DeviceCare,
    lease: Lease,
    precision: str,
    deadline: float,
) -> Acquaintance:
    """Give every baseline its arenas and its first calls. Raises `InvalidTask` for what cannot be judged."""
    known = Acquaintance(lower_precision=precision in ("bf16", "fp16"), aliases=True)  # until the first turn tells
    eager = baselines["eager"]
    with lease.shared():
        inputs, first = _first_calls(known, reference, baselines, care, lease, precision, deadline)
        if known.large:
            release(reference.device)
    with lease.exclusive(), on_all_cores(baselines.values()):
        care.calibrate()
        timed = known.terms(precision=precision, state="loaded", deadline=lambda: deadline, care=care, timed=True)
        times, known.typical = _first_times(known, reference, eager, timed)
        rates = care.rates()
    known.alone_ms = median(times) / 1e6
    oracle.workspace, oracle.mutates = known.workspace, bool(known.mutates)
    oracle.room = known.input_room + known.output_room
    with lease.shared():
        # Which truth there is shows now, before a candidate can have a part in it.
        terms = known.terms(precision=precision, state="loaded", deadline=lambda: deadline, care=care)
        drawn = fresh(known, reference, eager)
        turn = _turn(eager, drawn, terms)
        if known.large:
            eager.trim(deadline)
        for _ in oracle.truth(drawn, "loaded", eager.output_views(turn.specs)):
            pass
        if known.large:
            oracle.forget()
    known.facts = {
        "input_bytes": sum(spec.extent for spec in inputs),
        "output_bytes": sum(spec.extent for spec in first.specs),
        "parameter_bytes": bytes_of(reference.seeded_state.values()),
        "workspace_bytes": known.workspace,
        "reference_ms": known.alone_ms,
        "quickest_ms": min(times) / 1e6,
        "inputs": [[spec.dtype, list(spec.shape)] for spec in inputs],
        "outputs": [[spec.dtype, list(spec.shape)] for spec in first.specs],
        "mutates_inputs": sorted(known.mutates),
        "peak_bytes": _peak(known, reference) if reference.device != "cpu" else 0,
        **rates,
    }
    return known


def _first_calls(
    known: Acquaintance,
    reference: Reference,
    baselines: dict[str, Side],
    care: DeviceCare,
    lease: Lease,
    precision: str,
    deadline: float,
) -> tuple[list[TensorSpec], Turn]:
    """Find out how much room inputs and outputs take, what a call does to its inputs, and whether it repeats itself."""

    def terms(timed: bool = False) -> Terms:
        return known.terms(
            precision=precision,
            state="loaded",
            deadline=lambda: deadline,
            care=care,
            timed=timed,
            breathe=nothing if reference.device == "cpu" else lease.breathe,
            apart=lease.apart,
        )

    eager, device = baselines["eager"], reference.device
    drawn = reference.draw()
    must_vary(drawn, reference)
    inputs, known.input_room = lay_out(drawn.tensors, ALIGNMENT * SHIFTS)
    shared = Arena.create(device, known.input_room)
    survey_room = Arena.create(device, ALIGNMENT)
    eager.attach(shared, survey_room, deadline)
    survey = of_reference(eager, lambda: eager.survey(drawn, deadline))
    if not survey["tensors"]:
        raise InvalidTask("the model returns no tensor: there is nothing to compare")
    known.output_room, known.workspace = int(survey["bytes"]), int(survey["workspace"])
    eager.attach(shared, known.output_arena(device), deadline)
    eager.extent = known.watched_room
    survey_room.close()
    first = _turn(eager, drawn, terms())
    known.mutates = frozenset(eager.mutated(first, drawn))
    known.aliases = first.aliases
    known.strides = tuple(spec.stride for spec in first.specs)
    outputs = [view.clone() for view in eager.output_views(first.specs)]
    must_repeat(outputs, eager.output_views(_turn(eager, drawn, terms()).specs))
    del outputs
    _turn(eager, drawn, terms(timed=True))  # what the first such turn takes longer is over when the device is had alone
    return inputs, first


def _peak(known: Acquaintance, reference: Reference) -> int:
    """Bytes of the device for this task once a candidate has its arenas too: contexts, arenas, and the most that the two processes have taken."""
    arenas = 2 * (known.input_room + max(known.watched_room, known.output_room))
    eager = bytes_of(reference.seeded_state.values()) + known.output_room + known.workspace
    return 2 * CONTEXT_BYTES + arenas + eager + torch.cuda.max_memory_reserved()


def of_reference(side: Side, call: Callable[[], T]) -> T:
    """Whatever goes wrong in a call of the reference is the task's fault: say so in its words."""
    try:
        return call()
    except SideFailed as failure:
        text = failure.detail.get("text") or failure.text
        if failure.kind == "failure" and out_of_memory(text):
            raise InvalidTask(
                f"the reference needs more memory than the {side.device} device has left; use smaller shapes"
            ) from None
        reasons = {"timeout": "takes longer than the task timeout", "died": "kills its process (out of memory, or a crash)"}
        if failure.detail.get("type") == "Unsupported":
            raise InvalidTask(f"the model returns {' '.join(text.split())[:400]}") from None
        told = reasons.get(failure.kind) or f"raises {failure.detail.get('type', '')}: {text}"
        raise InvalidTask(f"{side.name} baseline: the reference {' '.join(told.split())[:400]}") from None


def _turn(side: Side, drawn: Drawn, terms: Terms) -> Turn:
    return of_reference(side, lambda: side.play(drawn, terms))


def _first_times(known: Acquaintance, reference: Reference, eager: Side, terms: Terms) -> tuple[list[int], tuple[float, ...]]:
    """Nanoseconds of a few calls on fresh inputs, and the size of each small output over them; and whether what the first of them returned
    is still the same after the second."""
    times: list[int] = []
    sizes: list[list[float]] = []
    for number in range(TIMED_CALLS):
        keep = number == 0 and not known.aliases
        try:
            turn = of_reference(eager, lambda: eager.play(fresh(known, reference, eager), terms, keep=keep))  # noqa: B023
        except InvalidTask:
            if not (keep and eager.reads_memory):
                raise
            known.reads_memory = eager.reads_memory = False
            turn = _turn(eager, fresh(known, reference, eager), terms)
        times.append(turn.inner_ns)
        views = eager.output_views(turn.specs)
        sizes.append([root_mean_square(v) if v.is_floating_point() and v.numel() <= SMALL_OUTPUT else 0.0 for v in views])
        if number == 0:
            first = turn
        if number == 1:
            held = eager.kept is not None and eager.reads_memory
            same_place = held and any(one == two for one, two in zip(first.where, turn.where) if one[0])
            known.reuses_outputs = eager.kept_is_altered(turn.specs, terms.strides, terms.deadline()) or same_place
            known.writes_memory = held and not (known.mutates or known.reuses_outputs) and not eager.overwrite(turn)
            if known.large:
                eager.trim(terms.deadline())
    return times, tuple(max(column) for column in zip(*sizes))


def must_vary(one: Drawn, reference: Reference) -> None:
    """Inputs that never change could be recognised, and their answers kept."""
    two = reference.draw()
    if all(a.shape == b.shape and same_bytes(a, b) for a, b in zip(one.tensors, two.tensors)):
        raise InvalidTask(
            "get_inputs() returns the same contents every time: answers could be kept; draw them at random, without a fixed seed"
        )


def must_repeat(before: list[torch.Tensor], after: list[torch.Tensor]) -> None:
    for one, two in zip(before, after):
        if one.shape != two.shape or _differs(one, two):
            raise Unrepeatable("the reference answers differently to the same inputs: it draws random numbers or keeps state")


def _differs(before: torch.Tensor, after: torch.Tensor) -> bool:
    floating = before.is_floating_point() or before.is_complex()
    comparison = Comparison(
        dtype_name(before.dtype), "fp32", root_mean_square(before) if floating else 0.0, rounding=(1e-4, 1.0)
    )
    comparison.feed(after.reshape(-1), before.reshape(-1), before.reshape(-1))
    return bool(comparison.problem)
