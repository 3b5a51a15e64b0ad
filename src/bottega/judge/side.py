"""One side of a comparison as the referee holds it: the channel to a player, its reins, and the memory between them.

A side is frozen whenever it is not its turn, so that it can neither disturb the other nor work ahead; a turn is timed
from before it is thawed until its result was read from the referee's own memory.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from bottega.core.errors import JudgeError
from bottega.judge.arena import Arena
from bottega.judge.failure import bounded
from bottega.judge.inputs import Drawn, same_bytes
from bottega.judge.invalid import InvalidTask
from bottega.judge.keeper import Keeper
from bottega.judge.layout import ALIGNMENT, TensorSpec, Unsupported, aligned, lay_out
from bottega.judge.terms import Terms
from bottega.judge.wire import Channel, DeadlinePassed, Departed, Message, ProtocolBroken

SHIFTS = 16
"""Addresses at which inputs may begin: a call never sees the pointer it saw before, except by chance."""
GLANCES = 512
SPOILED_BLOCKS, SPOILED_WORDS = 64, 128
LONGEST_CALL_NS = 10**15


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
    """By the referee's clock: from before the thaw until the result was seen."""
    inner_ns: int
    """By the player's own clock: precise, and only as honest as the player."""
    skeleton: Any
    specs: list[TensorSpec]
    aliases: bool
    settle_ns: int
    """How long the referee's own preparation took: it grows when a side left work behind on the device."""
    late_write: bool
    input_specs: list[TensorSpec] = field(default_factory=list)


class Side:
    def __init__(self, name: str, channel: Channel, reins: Keeper, device: str):
        self.name = name
        self.channel = channel
        self.reins = reins
        self.device = device
        self.inputs: Arena | None = None
        self.outputs: Arena | None = None
        self.extent = ALIGNMENT
        """Bytes of the output arena that a right answer fills."""

    def ask(self, message: Message, deadline: float, descriptors: tuple[int, ...] = ()) -> Message:
        """Send a request while the player runs freely, and return its answer."""
        self.thaw()
        reply = self._exchange(message, deadline, descriptors)
        self.freeze(deadline)
        if "failure" in reply:
            raise SideFailed("failure", bounded(reply["failure"]))
        return reply

    def attach(self, inputs: Arena, outputs: Arena, deadline: float) -> None:
        self.inputs, self.outputs = inputs, outputs
        message = {"do": "arenas", "inputs": inputs.capacity, "outputs": outputs.capacity}
        self.ask(message, deadline, (inputs.descriptor, outputs.descriptor))

    def prepare(self, drawn: Drawn, deadline: float) -> list[TensorSpec]:
        """Tell the player where its next inputs will lie: somewhere else than the last."""
        specs, end = lay_out(drawn.tensors, ALIGNMENT * secrets.randbelow(SHIFTS))
        if self.inputs is None or end > self.inputs.capacity:
            raise InvalidTask("get_inputs() draws another shape every time; a task has one shape")
        self.ask({"do": "prepare", "skeleton": drawn.skeleton, "specs": [spec.to_json() for spec in specs]}, deadline)
        return specs

    def survey(self, drawn: Drawn, deadline: float) -> Message:
        """How much room the outputs need, found by a call whose outputs nobody looks at."""
        assert self.inputs is not None
        for spec, tensor in zip(self.prepare(drawn, deadline), drawn.tensors):
            spec.view(self.inputs.base).copy_(tensor)
        if self.device != "cpu":
            torch.cuda.synchronize()
        return self.ask({"do": "survey"}, deadline)

    def play(self, drawn: Drawn, terms: Terms, sampled: bool = False) -> Turn:
        """One turn on fresh contents at a fresh address. Returns frozen.

        Where the outputs must go is told only when the call has returned: whoever could write them there in the first place
        would save the copy that the other side is charged for. And whoever says early that the call has returned, to learn the
        place, finds the inputs spoiled.
        """
        assert self.inputs is not None and self.outputs is not None
        deadline = terms.deadline()
        specs = self.prepare(drawn, deadline)
        settling = time.perf_counter_ns()
        for spec, tensor in zip(specs, drawn.tensors):
            spec.view(self.inputs.base).copy_(tensor)
        shift = ALIGNMENT * secrets.randbelow(SHIFTS)
        self.outputs.base[: self.extent + ALIGNMENT * SHIFTS].fill_(255)  # NaN in every floating type
        glances = self._glances([specs[i] for i in sorted(terms.mutates)], shift)
        needed_later = self.device != "cpu" or bool(terms.mutates) or terms.reference_aliases
        spoils = [] if needed_later else self._spoils(specs)
        if self.device != "cpu":
            self.reins.arm()
        terms.settle()
        settle_ns = time.perf_counter_ns() - settling
        if self.channel.has_unread():
            raise SideFailed("forged", text="the candidate's process spoke before it was asked")
        nonce = secrets.randbits(52)
        if sampled:
            self.reins.sample_resume()

        begun = time.perf_counter_ns()
        terms.hold()
        self.thaw()
        returned = self._exchange({"go": nonce}, deadline)
        if returned.get("returned") != nonce:
            raise SideFailed("forged", text="the candidate's process answered a call that was not made")
        if "failure" in returned:
            self.freeze(deadline)
            raise SideFailed("failure", bounded(returned["failure"]))
        kept = [words[places] for words, places in spoils]
        for words, places in spoils:
            words[places] = -1  # NaN in every floating type, out of range for an index
        done = self._exchange({"deliver": shift}, deadline)
        seen = [words[places].cpu() for words, places in glances]
        ended = time.perf_counter_ns()

        if sampled:
            self.reins.sample_pause()
        if done.get("done") != nonce:
            raise SideFailed("forged", text="the candidate's process answered a call that was not made")
        if "failure" in done:
            self.freeze(deadline)
            raise SideFailed("failure", bounded(done["failure"]))
        report = self.listen(deadline)
        self.freeze(deadline)
        for (words, places), values in zip(spoils, kept):
            words[places] = values
        late = any(not torch.equal(before, words[places].cpu()) for before, (words, places) in zip(seen, glances))
        try:
            inner = int(done["ns"])
            if not 0 <= inner < LONGEST_CALL_NS:
                raise ValueError("a time that cannot be")
            output_specs = [TensorSpec.from_json(spec) for spec in report["specs"]]
            skeleton = report["outputs"]
        except (KeyError, TypeError, ValueError, OverflowError, Unsupported):
            raise SideFailed("forged", text="the candidate's process sent a malformed report") from None
        self._must_lie_in_order(output_specs, shift)
        return Turn(ended - begun, inner, skeleton, output_specs, bool(report.get("aliases")), settle_ns, late, specs)

    def _glances(self, changed: list[TensorSpec], shift: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Where to look the moment a turn ends, and again later: random words of the outputs and of inputs that are changed in place."""
        assert self.inputs is not None and self.outputs is not None
        regions = [self.outputs.base[shift : shift + self.extent // 8 * 8]]
        regions += [self.inputs.base[spec.offset : spec.offset + spec.extent // 8 * 8] for spec in changed]
        words = [region.view(torch.int64) for region in regions if region.numel()]
        return [(each, torch.randint(each.numel(), (GLANCES,)).to(each.device)) for each in words]

    def _spoils(self, specs: list[TensorSpec]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Random blocks of the inputs, to be overwritten once the call says it has returned and put back when the turn is over."""
        assert self.inputs is not None
        regions = [self.inputs.base[spec.offset : spec.offset + spec.extent // 8 * 8] for spec in specs]
        words = [region.view(torch.int64) for region in regions if region.numel()]
        within = torch.arange(SPOILED_WORDS)
        return [
            (each, (torch.randint(each.numel(), (SPOILED_BLOCKS, 1)) + within).remainder_(each.numel()).view(-1))
            for each in words
        ]

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

    def freeze(self, deadline: float) -> None:
        """Stop it, and see that it rests. On a GPU a thread may sit in the driver for a while, where it does no harm."""
        try:
            while not self.reins.freeze() and self.device == "cpu":
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

    def listen(self, deadline: float) -> Message:
        """The next message of the player; what keeps it from coming raises `SideFailed`."""
        return self._exchange(None, deadline)

    def _exchange(self, message: Message | None, deadline: float, descriptors: tuple[int, ...] = ()) -> Message:
        try:
            if message is not None:
                self.channel.send(message, descriptors)
            return self.channel.receive(deadline)
        except Departed:
            raise SideFailed("died") from None
        except DeadlinePassed:
            raise SideFailed("timeout") from None
        except ProtocolBroken as error:
            raise SideFailed("forged", text=f"the candidate's process sent {error}") from None


def _laid_out_like(tensor: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    return (
        tensor
        if tensor.stride() == view.stride()
        else torch.empty_strided(view.shape, view.stride(), dtype=view.dtype, device=view.device).copy_(tensor)
    )
