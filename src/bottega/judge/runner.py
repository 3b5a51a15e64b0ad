"""One side of a comparison as the referee holds it: the channel to a player, its reins, and the memory between them.

A side is frozen whenever it is not its turn, so that it can neither disturb the other nor work ahead. A turn has two times:
from before the side is thawed until its call has returned and its inputs are spoiled, and from there until its outputs
were read from the referee's own memory. No moment lies outside both. That a call has returned is said by a message on a CPU,
and by the device itself on a GPU (`fence`).
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from bottega.core.errors import JudgeError
from bottega.judge.arena import Arena
from bottega.judge.barrier import Fence, Overdue
from bottega.judge.canary import Glance
from bottega.judge.failure import bounded
from bottega.judge.inputs import Drawn, same_bytes
from bottega.judge.invalid import InvalidTask
from bottega.judge.layout import ALIGNMENT, TensorSpec, Unsupported, aligned, dtype_name, lay_out
from bottega.judge.poison import Spoil
from bottega.judge.presence import Presence, scattered
from bottega.judge.retained_outputs import Kept
from bottega.judge.terms import Terms
from bottega.sandbox import free_cores
from bottega.sandbox.control import Keeper
from bottega.sandbox.core_time import CoreTime, thread_times
from bottega.sandbox.wire import Channel, DeadlinePassed, Departed, Message, ProtocolBroken, word

SHIFTS = 16
"""Addresses at which inputs may begin: a call never sees the pointer it saw before, except by chance."""
WATCHED_SECONDS = 0.01
"""For how long the fence is tried again and again. Each try behind a kernel that outlasts the driver's time slice interrupts it; of
a call that takes longer than this, what a message and a launch take is no part that counts."""
GAP_SECONDS, MOST_GAPS = 0.001, 3
"""A try that comes back sooner than a time slice met a gap: the side's device waits for its host. It costs such a call a change to
and fro, a few tenths of a millisecond, so after a few of them (the first ends with the hold) the side's message is waited for."""
MOST_STIRRED = 2
"""On a busy machine a stopped thread was once seen to have run for some microseconds more. Whoever works in the other side's turns does so
in most of them."""
LARGE_BYTES = 256 << 20
"""What is larger is given back to the device as soon as it is not needed."""
LONGEST_CALL_NS = 10**15
MOST_COMPILATIONS = 256
"""In one call; a kernel with many variants is compiled for each."""
MOST_TENSORS_WITH_GO = 8
"""Views of so few inputs are made well within the time for which a GPU is held as a call begins. Of more they are made beforehand, as
on a CPU, so that nobody gains by making them quicker."""


class SideFailed(Exception):
    """The player did not do its turn. `kind` is `failure` (it raised), `timeout`, `died` or `forged`."""

    def __init__(self, kind: str, detail: Message | None = None, text: str = ""):
        super().__init__(kind)
        self.kind = kind
        self.detail = detail or {}
        self.text = text


@dataclass
class Turn:
    outer_ns: int
    """By the referee's clock: from before the thaw until the call had returned, and on a GPU the device was the referee's again."""
    delivery_ns: int
    """By the same clock, from there on: until the outputs were seen where they belong. And before it: until the side had made the views of
    its inputs, for what needs no inputs could be done then too."""
    inner_ns: int
    """By the player's own clock: precise, and only as honest as the player."""
    skeleton: Any
    specs: list[TensorSpec]
    aliases: bool
    restrided: bool
    """Whether an output had another layout than the reference's, by the player's own word."""
    settle_ns: int
    """How long the referee's own preparation took: it grows when a side left work behind on the device."""
    late_write: bool
    absent: bool = False
    """The outputs did not lie where the side had them, by its own word, when it said that the call had returned."""
    where: Any = None
    """Addresses and strides of the outputs in the side's own memory, by its own word; on a CPU."""
    waited_ns: int = 0
    """How long whoever had to act was ready and had no core: the side's first thread, its warden or the referee."""
    waited_delivery_ns: int = 0
    """The same with whichever thread waited longest: torch may copy outputs with several."""
    waited_preparing_ns: int = 0
    """The same while it made the views of its inputs."""
    ran_ns: int = 0
    """How long the side's first thread was on a core in the turn, by the operating system's count; 0 on a GPU, whose device does the work."""
    worked_ns: int = 0
    """The part of it inside the call, by the player's own word."""
    held_ns: int = 0
    """For how long the referee held a GPU as the turn began."""
    input_specs: list[TensorSpec] = field(default_factory=list)


class Side:
    def __init__(self, name: str, channel: Channel, reins: Keeper, device: str):
        self.name = name
        self.channel = channel
        self.reins = reins
        self.device = device
        self.inputs: Arena | None = None
        self.outputs: Arena | None = None
        self.fence: Fence | None = None
        self.extent = ALIGNMENT
        """Bytes of the output arena that a right answer fills."""
        self.spent = CoreTime()
        """From the last time it was stopped but one to the last."""
        self.stirred = 0
        """How often something of it was seen to have run while it was stopped."""
        self.kept: Kept | None = None
        self.reads_memory = device == "cpu"
        """Whether the supervisor can look at what the side holds; cleared for good when it cannot for a trusted side."""

    def ask(self, message: Message, deadline: float, descriptors: tuple[int, ...] = ()) -> Message:
        """Send a request while the player runs freely, and return its answer."""
        self.thaw()
        self._send(message, deadline, descriptors)
        reply = self.listen(deadline)
        self.freeze(deadline)
        if "failure" in reply:
            raise SideFailed("failure", bounded(reply["failure"]))
        return reply

    def tell(self, message: Message, descriptors: tuple[int, ...] = ()) -> None:
        """Send a request to a player that was never frozen; `listen` for its answer."""
        self._send(message, None, descriptors)

    def attach(self, inputs: Arena, outputs: Arena, deadline: float) -> None:
        self.inputs, self.outputs = inputs, outputs
        message = {"do": "arenas", "inputs": inputs.capacity, "outputs": outputs.capacity}
        descriptors: tuple[int, ...] = (inputs.descriptor, outputs.descriptor)
        if self.device != "cpu":
            self.fence = self.fence or Fence(self.device)
            message["word"] = self.fence.word.capacity
            descriptors += (self.fence.word.descriptor,)
        self.ask(message, deadline, descriptors)

    @property
    def arenas(self) -> tuple[Arena, ...]:
        return tuple(arena for arena in (self.inputs, self.outputs) if arena is not None)

    def take_in(self, drawn: Drawn) -> None:
        """Keep contents in this trusted side's own inputs: the original for all sides. Not where its module changes its inputs."""
        assert self.inputs is not None
        drawn.specs = self._placed(drawn)
        homes = [spec.view(self.inputs.base) for spec in drawn.specs]
        for place, home in enumerate(homes):
            home.copy_(drawn.tensors[place])
        drawn.tensors, drawn.home = homes, self.inputs
        if sum(spec.extent for spec in drawn.specs) > LARGE_BYTES:
            torch.cuda.empty_cache()

    def place(self, drawn: Drawn) -> tuple[list[TensorSpec], Message]:
        """Where the next inputs will lie, somewhere else than the last, and how the player is told."""
        specs = drawn.specs if drawn.home is self.inputs else self._placed(drawn)
        return specs, {"skeleton": drawn.skeleton, "specs": [spec.to_json() for spec in specs]}

    def _placed(self, drawn: Drawn) -> list[TensorSpec]:
        specs, end = lay_out(drawn.tensors, ALIGNMENT * secrets.randbelow(SHIFTS))
        if self.inputs is None or end > self.inputs.capacity:
            raise InvalidTask("get_inputs() draws another shape every time; a task has one shape")
        return specs

    def _fill(self, specs: list[TensorSpec], drawn: Drawn) -> None:
        assert self.inputs is not None
        for spec, tensor in zip(specs, drawn.tensors) if drawn.home is not self.inputs else ():
            spec.view(self.inputs.base).copy_(tensor)

    def _prepare(self, told: Message, deadline: float) -> int:
        """Have the side make the views of its next inputs. How many nanoseconds it took to say that it has."""
        begun = time.perf_counter_ns()
        self.thaw()
        self._send({"do": "prepare", **told}, deadline)
        reply = self.listen(deadline)
        taken = time.perf_counter_ns() - begun
        self.freeze(deadline)
        if "failure" in reply:
            raise SideFailed("failure", bounded(reply["failure"]))
        return taken

    def survey(self, drawn: Drawn, deadline: float) -> Message:
        """How much room the outputs need, found by a call whose outputs nobody looks at."""
        assert self.inputs is not None
        specs, told = self.place(drawn)
        self.ask({"do": "prepare", **told}, deadline)
        self._fill(specs, drawn)
        if self.device != "cpu":
            torch.cuda.synchronize()
        return self.ask({"do": "survey"}, deadline)

    def play(
        self, drawn: Drawn, terms: Terms, sampled: bool = False, keep: bool = False, look: Sequence[torch.Tensor] = ()
    ) -> Turn:
        """One turn on fresh contents at a fresh address. Returns frozen; with `keep`, the side goes on to hold what it returned. With
        what the reference returned to `look` for, it is seen whether they are there when the call has returned; such a turn is not timed.

        Where the outputs must go is told only when the call has returned: whoever could write them there in the first place
        would save the copy that the other side has to make. And whoever says early that the call has returned, to learn the
        place, finds the inputs spoiled.
        """
        assert self.inputs is not None and self.outputs is not None
        terms.breathe()
        deadline = terms.deadline()
        self._must_have_rested()  # also while the others played
        specs, told = self.place(drawn)
        preparing_ns, self.spent = 0, CoreTime()
        if self.device == "cpu" or len(specs) > MOST_TENSORS_WITH_GO:
            preparing_ns = self._prepare(told, deadline)
            told = {}
        waited_preparing = max(self.spent.waited, self.spent.longest_wait)
        settling = time.perf_counter_ns()
        self._fill(specs, drawn)
        shift = ALIGNMENT * secrets.randbelow(SHIFTS)
        self.outputs.base[: self.extent + ALIGNMENT * SHIFTS].fill_(255)  # NaN in every floating type
        glance = self._glance([specs[i] for i in sorted(terms.mutates)], shift)
        spoil = Spoil(self.inputs, specs, harmless=bool(terms.mutates) or terms.reference_aliases)
        if self.device != "cpu":
            self.reins.arm()
        terms.settle()
        settle_ns = time.perf_counter_ns() - settling
        if self.channel.has_unread():
            raise SideFailed("forged", text="the candidate's process spoke before it was asked")
        self._must_have_rested()
        nonce = secrets.randbits(52)
        if sampled:
            self.reins.sample_resume()

        waited = self._waited()
        begun = time.perf_counter_ns()
        terms.hold_call()
        self.thaw()
        self._send({"go": nonce, **told}, deadline)
        returned = self._over(spoil, "returned", nonce, terms.delivery_hold_ns, terms)
        struck = time.perf_counter_ns()
        presence = self._look(returned, look, terms) if look and self.reads_memory else None
        self._send({"deliver": shift, "strides": terms.strides, "keep": keep}, terms.deadline())
        if returned is None:
            self._hear("returned", nonce, terms)
        done = self._over(glance, "done", nonce, 0, terms)
        ended = time.perf_counter_ns()
        done = done or self._hear("done", nonce, terms)
        waited = self._waited() - waited

        self.freeze(terms.deadline())
        if sampled:
            self.reins.sample_pause()
        spoil.mend()
        late = glance.changed()
        try:
            inner, worked = int(done["ns"]), int(done.get("worked", 0))
            if not (0 <= inner < LONGEST_CALL_NS and 0 <= worked < LONGEST_CALL_NS):
                raise ValueError("a time that cannot be")
            output_specs = [TensorSpec.from_json(spec) for spec in done["specs"]]
            skeleton = done["outputs"]
            restrided = any(list(own) != list(spec.stride) for own, spec in zip(done["own"], output_specs))
            if keep:
                self._remember(output_specs, [int(address) for address in done["addresses"]])
        except (KeyError, TypeError, ValueError, OverflowError, Unsupported):
            raise SideFailed("forged", text="the candidate's process sent a malformed report") from None
        self._must_lie_in_order(output_specs, shift)
        alike = [(spec.dtype, spec.shape) for spec in output_specs] == [(dtype_name(t.dtype), tuple(t.shape)) for t in look]
        absent = presence is not None and alike and not presence.is_what_came(self.output_views(output_specs))
        return Turn(
            outer_ns=struck - begun,
            delivery_ns=preparing_ns + ended - struck,
            inner_ns=inner,
            skeleton=skeleton,
            specs=output_specs,
            aliases=bool(done.get("aliases")),
            restrided=restrided,
            settle_ns=settle_ns,
            late_write=late or done.get("unjoined") is True,
            absent=absent,
            where=returned.get("where") if returned is not None else None,
            waited_ns=waited + self.spent.waited,
            waited_delivery_ns=waited + max(self.spent.waited, self.spent.longest_wait),
            waited_preparing_ns=waited_preparing,
            ran_ns=self.spent.ran if self.device == "cpu" else 0,
            worked_ns=worked,
            held_ns=terms.call_hold_ns,
            input_specs=specs,
        )

    def _hear(self, what: str, nonce: int, terms: Terms) -> Message:
        """The message that a side's call has returned, or its delivery is done, or either has failed."""
        message = self.listen(terms.deadline())
        for _ in range(MOST_COMPILATIONS):
            if message.get("compiling") != nonce:
                break
            with terms.apart():
                compiled = self.listen(terms.deadline())
            if compiled.get("compiled") != nonce:
                raise SideFailed("forged", text="the candidate's process spoke while it was compiling")
            self._send({"on": nonce}, terms.deadline())
            message = self.listen(terms.deadline())
        if message.get(what) != nonce:
            raise SideFailed("forged", text="the candidate's process answered a call that was not made")
        if "failure" in message:
            self.freeze(terms.deadline())
            raise SideFailed("failure", bounded(message["failure"]))
        return message

    def _over(self, target: Spoil | Glance, what: str, nonce: int, hold_ns: int, terms: Terms) -> Message | None:
        """Wait until a call has returned, or a delivery is done, and strike. Returns the side's message, if it came before that.

        On a GPU the side's device writes a word, and what counts is that the word is there and the device free. A message without
        the word tells of a failure, or is a lie: honest sides wait for the device before they send it.
        """
        if self.fence is None:
            message: Message | None = self._hear(what, nonce, terms)
            target.strike()
            return message
        message, gaps, begun = None, 0, time.monotonic()
        launched = begun
        try:
            while not self.fence.strike(target, word(what, nonce), hold_ns, terms.deadline()):
                if message is not None:
                    raise SideFailed("forged", text="the candidate's process says that something is over that is not")
                now = time.monotonic()
                gaps += now - launched < GAP_SECONDS
                if self.channel.has_unread() or gaps >= MOST_GAPS or now - begun > WATCHED_SECONDS:
                    message = self._hear(what, nonce, terms)
                launched = time.monotonic()
        except Overdue:
            raise SideFailed("timeout") from None
        return message

    def _look(self, returned: Message | None, expected: Sequence[torch.Tensor], terms: Terms) -> Presence:
        """Stop the side where it is, and read its outputs in its own memory."""
        self.freeze(terms.deadline())
        try:
            presence = Presence.read((returned or {}).get("where"), expected, self.reins)
        except JudgeError:
            raise SideFailed("died") from None
        self.thaw()
        return presence

    def _glance(self, changed: list[TensorSpec], shift: int) -> Glance:
        assert self.inputs is not None and self.outputs is not None
        regions = [self.outputs.base[shift : shift + self.extent]]
        return Glance(regions + [self.inputs.base[spec.offset : spec.offset + spec.extent] for spec in changed])

    def _must_lie_in_order(self, specs: list[TensorSpec], shift: int) -> None:
        """Outputs are read only where they were watched: one after the other from the address that was told."""
        place = shift
        for spec in specs:
            if spec.offset != place:
                raise SideFailed("forged", text="the outputs do not lie where they should")
            try:
                place = aligned(spec.offset + spec.extent)
            except Unsupported:
                raise SideFailed("forged", text="an output of a data type that does not exist") from None

    def output_views(self, specs: list[TensorSpec]) -> list[torch.Tensor]:
        """The outputs as they lie in the referee's memory, read by specs that the referee trusts."""
        assert self.outputs is not None
        base = self.outputs.base
        try:
            return [spec.view(base) for spec in specs]
        except (RuntimeError, TypeError, ValueError, Unsupported) as error:
            raise SideFailed("forged", text=f"the outputs do not lie where they should: {error}") from None

    def input_views(self, turn: Turn) -> list[torch.Tensor]:
        assert self.inputs is not None
        return [spec.view(self.inputs.base) for spec in turn.input_specs]

    def mutated(self, turn: Turn, drawn: Drawn) -> list[int]:
        """Which input tensors are no longer what was put there."""
        views = self.input_views(turn)
        return [
            i
            for i, (view, tensor) in enumerate(zip(views, drawn.tensors))
            if not same_bytes(view, _laid_out_like(tensor, view))
        ]

    def _remember(self, specs: list[TensorSpec], addresses: list[int]) -> None:
        """Look at what was just returned, to know it again. The addresses are the side's word: the same must stand there now."""
        assert self.outputs is not None
        if any(spec.offset + spec.extent > self.outputs.capacity for spec in specs):
            return  # more than the reference returns: the shapes or data types will tell
        self.output_views(specs)
        kept = Kept.of(self.outputs.base, specs, addresses if self.reads_memory and len(addresses) == len(specs) else [])
        if kept.addresses and not self._holds(kept, specs):
            raise SideFailed("forged", text="the outputs do not lie where the candidate's process says")
        self.kept = kept

    def _holds(self, kept: Kept, latest: list[TensorSpec]) -> bool:
        assert self.outputs is not None
        places = kept.places_to_read(self.outputs.base, latest)
        try:
            found = self.reins.read_memory(kept.regions(places))
        except JudgeError:
            raise SideFailed("died") from None
        return found is not None and kept.are(places, found)

    def kept_is_altered(self, latest: list[TensorSpec], strides: tuple[tuple[int, ...], ...], deadline: float) -> bool:
        """Whether what was kept is something else by now, after a call whose outputs lie at `latest`. On a GPU the side hands it over again
        for that, and lets it go."""
        kept = self.kept
        if kept is None:
            return False
        if kept.addresses:
            return not self._holds(kept, latest)
        assert self.outputs is not None
        self.kept, shift = None, ALIGNMENT * secrets.randbelow(SHIFTS)
        self.outputs.base[: self.extent + ALIGNMENT * SHIFTS].fill_(255)
        if self.device != "cpu":
            torch.cuda.synchronize()  # or else what the side hands over could be overwritten
        try:
            reply = self.ask({"do": "again", "shift": shift, "strides": strides}, deadline)
        except SideFailed as failure:
            if failure.kind != "failure":
                raise
            return True  # it no longer has what it was told to keep
        try:
            specs = [TensorSpec.from_json(spec) for spec in reply["specs"]]
            self._must_lie_in_order(specs, shift)
            self.output_views(specs)
            return not kept.equals(self.outputs.base, specs)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError, Unsupported):
            raise SideFailed("forged", text="the candidate's process sent a malformed report") from None

    def overwrite(self, turn: Turn) -> str:
        """Write into what the turn's call returned, as a caller may. Returns why that could not be done: then it is no memory of its own."""
        views = self.output_views(turn.specs)
        try:
            presence = Presence.read(turn.where, views, self.reins)
            if not presence.is_what_came(views):
                return "the outputs do not lie where the candidate's process says"
            return "" if self.reins.overwrite_memory(scattered(turn.where, views)) else self.reins.memory_unreadable
        except JudgeError:
            raise SideFailed("died") from None

    def trim(self, deadline: float) -> int:
        """Have the player give back what it holds for the next call. Returns the most it has had of the device, by its own word."""
        self.kept = None
        peak = self.ask({"do": "trim"}, deadline).get("peak")
        return peak if isinstance(peak, int) and 0 <= peak < 1 << 50 else 0

    def _must_have_rested(self) -> None:
        """On a CPU, by the operating system's own count, nothing of the side ran since it was stopped."""
        try:
            if self.device == "cpu" and not self.reins.still():
                self.stirred += 1
        except JudgeError:
            raise SideFailed("died") from None
        if self.stirred > MOST_STIRRED:
            raise SideFailed("forged", text="the candidate's processes ran while they were stopped")

    def _waited(self) -> int:
        """The referee, so far; on a GPU nobody's waiting is counted."""
        return thread_times()[1] if self.device == "cpu" else 0

    def freeze(self, deadline: float) -> None:
        """Stop it, and see that it rests. On a GPU a thread may sit in the driver for a while, where it does no harm."""
        self.spent = CoreTime()
        try:
            while True:
                resting = self.reins.freeze()
                self.spent += self.reins.spent
                if resting or self.device != "cpu":
                    return
                if time.monotonic() > deadline:
                    raise SideFailed("forged", text="the candidate's processes cannot be stopped")
        except JudgeError:
            raise SideFailed("died") from None

    def thaw(self) -> None:
        try:
            self.reins.thaw()
        except JudgeError:
            raise SideFailed("died") from None

    def close(self) -> None:
        self.channel.close()
        self.reins.close()
        if self.fence is not None:
            self.fence.close()
            self.fence = None

    def listen(self, deadline: float) -> Message:
        """The next message of the player; what keeps it from coming raises `SideFailed`."""
        try:
            return self.channel.receive(deadline)
        except Departed:
            raise SideFailed("died") from None
        except DeadlinePassed:
            raise SideFailed("timeout") from None
        except ProtocolBroken as error:
            raise SideFailed("forged", text=f"the candidate's process sent {error}") from None

    def _send(self, message: Message, deadline: float | None, descriptors: tuple[int, ...] = ()) -> None:
        """Without a deadline only to a trusted player, which reads what it is told."""
        try:
            self.channel.send(message, descriptors, deadline)
        except Departed:
            raise SideFailed("died") from None
        except DeadlinePassed:
            raise SideFailed("timeout") from None


def _laid_out_like(tensor: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    return (
        tensor
        if tensor.stride() == view.stride()
        else torch.empty_strided(view.shape, view.stride(), dtype=view.dtype, device=view.device).copy_(tensor)
    )


@contextlib.contextmanager
def on_all_cores(sides: Iterable[Side]) -> Iterator[None]:
    """While they are timed, these sides and the referee also use the cores that are kept free for that."""
    held = list(sides)
    _use_cores(held, everywhere=True)
    try:
        yield
    finally:
        _use_cores(held, everywhere=False)


def _use_cores(sides: Iterable[Side], everywhere: bool) -> None:
    free_cores.allow([0], everywhere)
    for side in sides:
        if side.device != "cpu":
            with contextlib.suppress(JudgeError):  # a side that is gone is found so when it plays
                side.reins.use_cores(everywhere)
