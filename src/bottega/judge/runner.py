"""One of the two compared programs, candidate or baseline, as the controller drives it: fresh inputs in, outputs out, two clocks.

A runner is frozen between its calls, so that it can neither disturb the other nor work ahead. A call has two times: from before the worker is
thawed until its call has returned and its inputs are poisoned, and from there until its outputs were read from the controller's own memory. No
moment lies outside both. On a CPU the worker's message says that a call has returned; on a GPU the device itself does (`barrier`).
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from bottega.core.errors import SandboxError
from bottega.judge.arena import Arena
from bottega.judge.barrier import Barrier, BarrierTimeout, flag_value
from bottega.judge.call_options import CallOptions
from bottega.judge.call_record import CallRecord
from bottega.judge.canary import Canary
from bottega.judge.failure import bounded
from bottega.judge.inputs import InputSet, same_bytes
from bottega.judge.inspected_worker import SHIFTS, InspectedWorker
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.output_overlap import TensorPlace, any_overlap
from bottega.judge.output_presence import OutputPresence, Places, claimed_places
from bottega.judge.poison import Poison
from bottega.judge.tensor_transport import ALIGNMENT, TensorSpec, Unsupported, dtype_name, lay_out
from bottega.judge.worker_link import RunnerFailed
from bottega.sandbox import reserved_cores
from bottega.sandbox.channel import Channel, Message
from bottega.sandbox.control import ProcessControl
from bottega.sandbox.core_time import CoreTime, thread_times

WATCHED_SECONDS = 0.01
"""For how long the barrier is tried again and again. Each try behind a kernel that outlasts the driver's time slice interrupts it; for a call
that takes longer than this, the cost of a message and a launch does not matter."""
GAP_SECONDS, MOST_GAPS = 0.001, 3
"""A try that comes back sooner than a time slice met a gap: the worker's device waits for its host. It costs such a call two context switches,
a few tenths of a millisecond, so after a few of them (the first ends with the hold) the worker's message is waited for."""
LARGE_BYTES = 256 << 20
"""What is larger is given back to the device as soon as it is not needed."""
LONGEST_CALL_NS = 10**15
MOST_COMPILATIONS = 256
"""In one call; a kernel with many variants is compiled for each."""
MOST_TENSORS_WITH_GO = 8
"""Views of so few inputs are made well within the time for which a GPU is held as a call begins. For more they are made beforehand, as
on a CPU, so that making them faster gains nothing."""


class Runner(InspectedWorker):
    def __init__(self, name: str, channel: Channel, control: ProcessControl, device: str):
        super().__init__(name, channel, control, device)
        self.barrier: Barrier | None = None

    def attach(self, inputs: Arena, outputs: Arena, deadline: float) -> None:
        self.inputs, self.outputs = inputs, outputs
        message = {"do": "arenas", "inputs": inputs.capacity, "outputs": outputs.capacity}
        descriptors: tuple[int, ...] = (inputs.descriptor, outputs.descriptor)
        if self.device != "cpu":
            self.barrier = self.barrier or Barrier(self.device)
            message["flag"] = self.barrier.flag.capacity
            descriptors += (self.barrier.flag.descriptor,)
        self.ask(message, deadline, descriptors)

    @property
    def arenas(self) -> tuple[Arena, ...]:
        return tuple(arena for arena in (self.inputs, self.outputs) if arena is not None)

    def close(self) -> None:
        self.channel.close()
        self.control.close()
        if self.barrier is not None:
            self.barrier.close()
            self.barrier = None

    def take_in(self, inputs: InputSet) -> None:
        """Move contents into this trusted runner's arena, from which all runners copy them. Not where its module changes its inputs."""
        assert self.inputs is not None
        inputs.specs = self._placed(inputs)
        homes = [spec.view(self.inputs.base) for spec in inputs.specs]
        for place, home in enumerate(homes):
            home.copy_(inputs.tensors[place])
        inputs.tensors, inputs.home = homes, self.inputs
        if sum(spec.extent for spec in inputs.specs) > LARGE_BYTES:
            torch.cuda.empty_cache()

    def survey(self, inputs: InputSet, deadline: float) -> Message:
        """How much room the outputs need, found by a call whose outputs are not read."""
        specs, message = self._place(inputs)
        self.ask({"do": "prepare", **message}, deadline)
        self._fill(specs, inputs)
        if self.device != "cpu":
            torch.cuda.synchronize()
        return self.ask({"do": "survey"}, deadline)

    def run_call(
        self,
        inputs: InputSet,
        options: CallOptions,
        sampled: bool = False,
        keep: bool = False,
        look: Callable[[], Sequence[torch.Tensor]] | None = None,
    ) -> CallRecord:
        """One call on fresh contents at a fresh address. Returns with the worker frozen. With `keep`, the worker retains its outputs. `look` gives
        the reference's outputs: with it, the worker's memory is checked for its outputs as the call returns, and such a call is not timed. It is
        asked when the worker has been stopped there, so that the reference may be run only then.

        Where the outputs must go is told only when the call has returned: a worker that wrote them there in the first place would save the
        copy that the other has to make. A worker that says too early that the call has returned, to learn the place, finds its inputs poisoned.
        """
        assert self.inputs is not None
        options.yield_to_timer()
        deadline = options.deadline()
        self._check_stayed_stopped()  # also while the others ran
        specs, message = self._place(inputs)
        preparing_ns, self.spent = 0, CoreTime()
        if self.device == "cpu" or len(specs) > MOST_TENSORS_WITH_GO:
            preparing_ns = self._prepare(message, deadline)
            message = {}
        preparing, waited_preparing = self.spent, max(self.spent.waited, self.spent.longest_wait)
        settling = time.perf_counter_ns()
        self._fill(specs, inputs)
        shift = ALIGNMENT * secrets.randbelow(SHIFTS)
        self._clear_outputs()
        canary = self._canary([specs[i] for i in sorted(options.mutates)], shift)
        poison = Poison(self.inputs, specs, read_only=bool(options.mutates) or bool(options.aliased))
        if self.device != "cpu":
            self.control.arm()
        options.prepare_device()
        settle_ns = time.perf_counter_ns() - settling
        if self.channel.has_unread():
            raise RunnerFailed("forged", text="the candidate's process spoke before it was asked")
        self._check_stayed_stopped()
        nonce = secrets.randbits(52)
        if sampled:
            self.control.sample_resume()

        waited = self._own_wait()
        begun = time.perf_counter_ns()
        options.hold_call()
        self.thaw()
        self._send({"go": nonce, **message}, deadline)
        returned = self._wait_for("returned", nonce, poison, options.delivery_hold_ns, options)
        poisoned = time.perf_counter_ns()
        where = claimed_places(returned.get("where")) if returned is not None else None
        presence: OutputPresence | None = None
        wanted: Sequence[torch.Tensor] = ()
        if look is not None and self.reads_memory:
            self.freeze(options.deadline())
            wanted = look()
            presence = self._read_presence(where, wanted)
            self.thaw()
        self._send({"deliver": shift, "strides": options.strides, "keep": keep}, options.deadline())
        if returned is None:
            self._receive_event("returned", nonce, options)
        if self.barrier is None:
            done, ended = self._receive_event("done", nonce, options), time.perf_counter_ns()
            self.ask_to_freeze()
            canary.apply()
            self.freeze(options.deadline(), asked=True)
            stopped, late_ns = max(ended, self.spent.stopped_at), 0  # until then it may work on
        else:
            received, ended = self._wait_for("done", nonce, canary, 0, options), time.perf_counter_ns()
            done, late_ns = self._freeze_watched(
                received, lambda: self._receive_event("done", nonce, options), options.deadline()
            )
            stopped = ended + late_ns
        waited = self._own_wait() - waited
        if sampled:
            self.control.sample_pause()
        poison.restore()
        late = canary.changed()
        try:
            claimed = [int(done.get(name, 0)) for name in ("ns", "worked", "avoidable", "enqueued")]
            inner, worked, avoidable, enqueued = claimed
            if not all(0 <= each < LONGEST_CALL_NS for each in claimed):
                raise ValueError("a time that cannot be")
            output_specs = [TensorSpec.from_json(spec) for spec in done["specs"]]
            skeleton = done["outputs"]
            restrided = any(list(own) != list(spec.stride) for own, spec in zip(done["own"], output_specs))
            aliases = frozenset(int(number) for number in done.get("aliases", ()))
            if (
                keep and aliases <= options.aliased
            ):  # another alias of the inputs was poisoned with them, and is rejected as one
                self._retain(output_specs, [int(address) for address in done["addresses"]], options.aliased)
        except (KeyError, TypeError, ValueError, OverflowError, Unsupported):
            raise RunnerFailed("forged", text="the candidate's process sent a malformed report") from None
        self._check_positions(output_specs, shift)
        alike = [(spec.dtype, spec.shape) for spec in output_specs] == [(dtype_name(t.dtype), tuple(t.shape)) for t in wanted]
        absent = presence is not None and alike and not presence.matches(self.output_views(output_specs))
        return CallRecord(
            outer_ns=poisoned - begun,
            delivery_ns=preparing_ns + stopped - poisoned,
            unseen_ns=max(0, self.spent.asked_at - ended) if self.device == "cpu" else 0,
            ahead_ns=preparing.ran + preparing.others + self.spent.stopping if self.device == "cpu" else 0,
            others_ns=self.spent.others if self.device == "cpu" else 0,
            inner_ns=inner,
            skeleton=skeleton,
            specs=output_specs,
            aliases=aliases,
            overlaps=_overlap(where, output_specs) if self.device == "cpu" else done.get("overlaps") is True,
            restrided=restrided,
            settle_ns=settle_ns,
            late_write=late or done.get("unjoined") is True,
            absent=absent,
            where=where,
            waited_ns=waited + self.spent.waited,
            waited_delivery_ns=waited + max(self.spent.waited, self.spent.longest_wait),
            waited_preparing_ns=waited_preparing,
            ran_ns=self.spent.ran if self.device == "cpu" else 0,
            worked_ns=worked,
            avoidable_ns=avoidable,
            enqueued_ns=enqueued,
            late_ns=late_ns,
            held_ns=options.call_hold_ns,
            input_specs=specs,
        )

    def input_views(self, record: CallRecord) -> list[torch.Tensor]:
        assert self.inputs is not None
        return [spec.view(self.inputs.base) for spec in record.input_specs]

    def mutated(self, record: CallRecord, inputs: InputSet) -> list[int]:
        """Which input tensors the call has changed."""
        pairs = enumerate(zip(self.input_views(record), inputs.tensors))
        return [number for number, (view, tensor) in pairs if not same_bytes(view, _laid_out_like(tensor, view))]

    def _place(self, inputs: InputSet) -> tuple[list[TensorSpec], Message]:
        """Where the next inputs will lie, at another address than the last, and the message that tells the worker."""
        specs = inputs.specs if self._holds(inputs) else self._placed(inputs)
        return specs, {"skeleton": inputs.skeleton, "specs": [spec.to_json() for spec in specs]}

    def _placed(self, inputs: InputSet) -> list[TensorSpec]:
        specs, end = lay_out(inputs.tensors, ALIGNMENT * secrets.randbelow(SHIFTS))
        if self.inputs is None or end > self.inputs.capacity:
            raise InvalidTask("get_inputs() draws another shape every time; a task has one shape")
        return specs

    def _fill(self, specs: list[TensorSpec], inputs: InputSet) -> None:
        assert self.inputs is not None
        if not self._holds(inputs):
            for spec, tensor in zip(specs, inputs.tensors):
                spec.view(self.inputs.base).copy_(tensor)

    def _holds(self, inputs: InputSet) -> bool:
        """Whether these contents lie in this runner's input arena already: a trusted runner took them in, and trusted runners may share one."""
        return self.inputs is not None and inputs.home is self.inputs

    def _prepare(self, message: Message, deadline: float) -> int:
        """Have the worker make the views of its next inputs. Returns how many nanoseconds passed until it said so."""
        begun = time.perf_counter_ns()
        self.thaw()
        self._send({"do": "prepare", **message}, deadline)
        if self.barrier is None:
            reply, ended = self.listen(deadline), time.perf_counter_ns()
            self.freeze(deadline)
            ended = max(ended, self.spent.stopped_at)
        else:
            reply, late_ns = self._freeze_watched(None, lambda: self.listen(deadline), deadline)
            ended = time.perf_counter_ns() + late_ns
        if "failure" in reply:
            raise RunnerFailed("failure", bounded(reply["failure"]))
        return ended - begun

    def _freeze_watched(self, message: Message | None, receive: Callable[[], Message], deadline: float) -> tuple[Message, int]:
        """On a GPU: stop the worker when its last message has come. Returns the message, and for how many nanoseconds the device was busy
        meanwhile: with work for a later call."""
        assert self.barrier is not None
        asked = False

        def stopped() -> bool:
            nonlocal message, asked
            if message is None and self.channel.has_unread():
                message = receive()
            if message is not None and not asked:
                self.ask_to_freeze()
                asked = True
            return asked and self.control.has_answered()

        try:
            late_ns = self.barrier.watch(stopped, deadline)
        except BarrierTimeout:
            raise RunnerFailed("timeout") from None
        self.freeze(deadline, asked=True)
        assert message is not None
        return message, late_ns

    def _receive_event(self, event: str, nonce: int, options: CallOptions) -> Message:
        """The message that a call has `returned`, or its delivery is `done`. Raises `RunnerFailed` if either has failed."""
        message = self.listen(options.deadline())
        for _ in range(MOST_COMPILATIONS if self.device != "cpu" else 0):  # only workers beside a GPU tell of it
            if message.get("compiling") != nonce:
                break
            with options.released():
                compiled = self.listen(options.deadline())
            if compiled.get("compiled") != nonce:
                raise RunnerFailed("forged", text="the candidate's process spoke while it was compiling")
            self._send({"on": nonce}, options.deadline())
            message = self.listen(options.deadline())
        if message.get(event) != nonce:
            raise RunnerFailed("forged", text="the candidate's process answered a call that was not made")
        if "failure" in message:
            self.freeze(options.deadline())
            raise RunnerFailed("failure", bounded(message["failure"]))
        return message

    def _wait_for(self, event: str, nonce: int, target: Poison | Canary, hold_ns: int, options: CallOptions) -> Message | None:
        """Wait until a call has `returned`, or its delivery is `done`, and apply the target. Returns the worker's message, if it came first.

        On a GPU the worker's device writes a flag, and what counts is that the flag is there and the device free. A message without the flag
        reports a failure, or is forged: an honest worker waits for the device before it sends one.
        """
        if self.barrier is None:
            message: Message | None = self._receive_event(event, nonce, options)
            target.apply()
            return message
        message, gaps, begun = None, 0, time.monotonic()
        launched = begun
        try:
            while not self.barrier.apply(target, flag_value(event, nonce), hold_ns, options.deadline()):
                if message is not None:
                    raise RunnerFailed("forged", text="the candidate's process says that something is over that is not")
                now = time.monotonic()
                gaps += now - launched < GAP_SECONDS
                if self.channel.has_unread() or gaps >= MOST_GAPS or now - begun > WATCHED_SECONDS:
                    message = self._receive_event(event, nonce, options)
                launched = time.monotonic()
        except BarrierTimeout:
            raise RunnerFailed("timeout") from None
        return message

    def _canary(self, changed: list[TensorSpec], shift: int) -> Canary:
        assert self.inputs is not None and self.outputs is not None
        regions = [self.outputs.base[shift : shift + self.extent]]
        return Canary(regions + [self.inputs.base[spec.offset : spec.offset + spec.extent] for spec in changed])

    def _own_wait(self) -> int:
        """How long the controller has waited for a core so far; not counted on a GPU."""
        return thread_times()[1] if self.device == "cpu" else 0


def _laid_out_like(tensor: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    if tensor.stride() == view.stride():
        return tensor
    return torch.empty_strided(view.shape, view.stride(), dtype=view.dtype, device=view.device).copy_(tensor)


@contextlib.contextmanager
def on_all_cores(runners: Iterable[Runner]) -> Iterator[None]:
    """While they are timed, these runners and the controller also use the reserved cores."""
    granted = list(runners)
    _use_cores(granted, everywhere=True)
    try:
        yield
    finally:
        _use_cores(granted, everywhere=False)


def _use_cores(runners: Iterable[Runner], everywhere: bool) -> None:
    reserved_cores.allow([0], everywhere)
    for runner in runners:
        if runner.device != "cpu":
            with contextlib.suppress(SandboxError):  # a lost worker is noticed at its next call
                runner.control.use_cores(everywhere)


def _overlap(where: Places | None, specs: Sequence[TensorSpec]) -> bool:
    """Whether outputs at these places, as a worker claims them, share memory."""
    claimed = zip(where or (), specs)
    return any_overlap([TensorPlace(at, spec.shape, strides, spec.torch_dtype.itemsize) for (at, strides), spec in claimed])
