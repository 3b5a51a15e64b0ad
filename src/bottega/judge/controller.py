"""The trusted process of a task: it draws inputs, owns the buffers, knows the truth and keeps the clock.

One referee serves one task and any number of candidates, one after the other. The task's own code runs here and in
the baselines; the candidate's never does. It reports what it measured; the judge decides what that means.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch

from bottega.judge.arena import Arena
from bottega.judge.baselines import COMPILE_MODES
from bottega.judge.compilation import Compilation, told
from bottega.judge.device import THREADS_BESIDE_A_GPU, DeviceCare, wake
from bottega.judge.examination import Examination
from bottega.judge.fitness import inspect_task
from bottega.judge.inputs import Drawn
from bottega.judge.invalid import InvalidTask
from bottega.judge.lease import Lease
from bottega.judge.oracle import Oracle
from bottega.judge.reference import Reference, one_line, release
from bottega.judge.runner import Side, SideFailed
from bottega.judge.settings import Settings
from bottega.judge.task_profile import Acquaintance, Unrepeatable, fresh, get_acquainted, of_reference
from bottega.judge.terms import nothing
from bottega.sandbox.control import Keeper
from bottega.sandbox.wire import SPINS, Channel, Departed, payload_descriptor, read_payload

KEPT_BYTES = 1 << 30
"""Device memory that a referee keeps for the next candidate."""


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the judge until it closes the channel."""
    channel, lease, beside = Channel.from_descriptor(descriptors[0]), Lease(descriptors[1:4]), Lease(descriptors[4:7])
    if arguments["device"] != "cpu":
        torch.set_num_threads(THREADS_BESIDE_A_GPU)
    referee = Referee(channel, lease, beside, str(arguments["device"]), str(arguments.get("cache", "")))
    try:
        referee.serve()
    except Departed:
        return


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Give up on a task's own code that does not come back. What hangs outside Python is ended by the judge, a little later."""

    def ring(number: int, frame: Any) -> None:
        raise InvalidTask(f"the task did not come up within {seconds:g} s; use smaller shapes or a longer task timeout")

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Referee:
    def __init__(self, channel: Channel, lease: Lease, beside: Lease, device: str, cache: str):
        self.channel = channel
        self.lease = lease
        self.beside = beside
        """The same lease once more, for what happens beside the referee's own work."""
        self.device = device
        self.cache = cache
        """A folder for what may be kept between runs; empty when there is none."""
        self.care: DeviceCare
        self.settings = Settings()
        self.baselines: dict[str, Side] = {}
        """Those that can play."""
        self.unavailable: dict[str, str] = {}
        """Why others never will."""
        self._compilation: Compilation | None = None
        self.known = Acquaintance()
        self.state = "loaded"
        self.reference: Reference
        self.oracle: Oracle
        self._buffers: tuple[Arena, Arena] | None = None

    def serve(self) -> None:
        handlers = {"open": self.open, "examine": self.examine, "fitness": self.fitness}
        while True:
            message = self.channel.receive()
            try:
                reply = handlers[message["do"]](message)
            except InvalidTask as reason:
                reply = {"invalid": str(reason)}
            except torch.OutOfMemoryError:
                release(self.device)
                reply = {"invalid": f"the task needs more memory than the {self.device} device has left; use smaller shapes"}
            except SideFailed as failure:
                reply = {
                    "invalid": f"the reference could not be run: {failure.detail.get('text') or failure.text or failure.kind}"
                }
            except Departed:
                raise
            except Exception as error:
                reply = {"broken": one_line(error), "trace": "".join(traceback.format_exception(error))[-3000:]}
            self.channel.send(reply)

    def open(self, message: dict[str, Any]) -> dict[str, Any]:
        """Bring the task up: build it, start the baselines, and get acquainted."""
        descriptors = self.channel.claim_descriptors(1 + 2 * len(message["baselines"]))
        payload = pickle.loads(read_payload(descriptors[0]))
        self.settings = payload["settings"]
        deadline = time.monotonic() + self.settings.task_timeout
        sides = {
            name: self._side(name, *descriptors[1 + 2 * number : 3 + 2 * number])
            for number, name in enumerate(message["baselines"])
        }
        with alarm(self.settings.task_timeout + 1):
            for side in sides.values():
                side.listen(deadline)
            with self.lease.coming_or_going():
                for side in sides.values():
                    side.tell({"do": "wake"})
                wake(self.device)
                self.care = DeviceCare(self.device)
                for side in sides.values():
                    side.listen(deadline)
            self.baselines["eager"] = sides.pop("eager")
            try:
                self._get_acquainted(payload["source"], deadline)
            except Unrepeatable as reason:
                if self.settings.training:
                    raise InvalidTask(f"{reason} in training mode; judge it in evaluation mode (--mode eval)") from None
                if self.settings.training is False:
                    raise
                self.settings = replace(self.settings, training=False)
                try:
                    self._get_acquainted(payload["source"], deadline)
                except Unrepeatable as again:
                    raise InvalidTask(f"{again}, also in evaluation mode; take the randomness out") from None
                self.known.notes.append(
                    "mode: as built, the reference answers differently every time; it was judged in evaluation mode"
                )
            if sides:
                payloads = {name: self._payload(payload["source"], "task", "Model", COMPILE_MODES[name]) for name in sides}
                self._compilation = Compilation(sides, payloads, self.beside, self.settings.task_timeout)
        return {"opened": True, "facts": self.known.facts}

    def _get_acquainted(self, source: str, deadline: float) -> None:
        eager = self.baselines["eager"]
        self.reference = Reference(source, self.device, self.settings.training)
        self.oracle = Oracle(self.reference)
        with self.lease.shared() if self.device == "cpu" else nullcontext():  # loading hardly touches a GPU
            of_reference(eager, lambda: self.load(eager, source, "task", "Model", deadline))
        self.known = get_acquainted(
            self.reference, self.oracle, self.baselines, self.care, self.lease, self.settings.precision, deadline
        )

    def draw(self, variant: str = "plain") -> Drawn:
        return fresh(self.known, self.reference, self.baselines["eager"], variant)

    def examine(self, message: dict[str, Any]) -> dict[str, Any]:
        payload_at, end, reins = self.channel.claim_descriptors(3)
        payload = pickle.loads(read_payload(payload_at))
        side = self._side("candidate", end, reins)
        try:
            found = Examination(self, side, payload["source"], payload["language"], payload["settings"]).run()
        finally:
            side.close()
            if self.known.large:
                self.oracle.forget()
            self._tidy()
        return {"examination": found}

    def _tidy(self) -> None:
        """Give back what the last candidate's examination took of the device: other tasks are up beside this one."""
        if self.device != "cpu" and torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > KEPT_BYTES:
            torch.cuda.empty_cache()

    def fitness(self, message: dict[str, Any]) -> dict[str, Any]:
        """Where the outcome is to speak of a compiled baseline, whether there is one is part of it."""
        unavailable = self.await_baselines() if self.settings.baselines[0] != "eager" else {}
        return {"fitness": {**inspect_task(self.reference, self.known.facts), "unavailable": unavailable}}

    def await_baselines(self) -> dict[str, str]:
        """Wait, without the device, for baselines that are being compiled, and have each play once. Why some cannot be used, by name."""
        compilation, self._compilation = self._compilation, None
        if compilation is not None:
            self.unavailable |= compilation.result()
            for name, side in compilation.sides.items():
                if name not in self.unavailable:
                    self._take_up(name, side)
        return self.unavailable

    def _take_up(self, name: str, side: Side) -> None:
        """A baseline that was compiled plays for the first time. What it needs its own kind of call for, it compiles now."""
        seconds = self.settings.task_timeout
        deadline = time.monotonic() + seconds
        terms = self.known.terms(
            precision=self.settings.precision,
            state=self.state,
            deadline=lambda: deadline,
            care=self.care,
            breathe=nothing if self.device == "cpu" else self.lease.breathe,
            apart=self.lease.apart,
        )
        try:
            with self.lease.shared():
                inputs = self.baselines[
                    "eager"
                ].inputs  # all baselines are trusted: one at a time, they take them from one place
                assert inputs is not None
                side.attach(inputs, self.known.output_arena(self.device), deadline)
                side.extent = self.known.watched_room
                if self.state != "loaded":
                    self._give_state(side, deadline)
                side.play(self.draw(), terms)
        except SideFailed as failure:
            self.unavailable[name] = told(failure, seconds)
            side.reins.kill()
            return
        self.baselines[name] = side

    def load(self, side: Side, source: str, name: str, class_name: str, deadline: float) -> dict[str, Any]:
        """Have a player import and build a module; the baselines get the precision that the user allows."""
        descriptor = self._payload(source, name, class_name)
        try:
            return side.ask({"do": "load"}, deadline, (descriptor,))
        finally:
            os.close(descriptor)

    def _payload(self, source: str, name: str, class_name: str, mode: str = "") -> int:
        """What a player loads, and in which mode it compiles that, if in any."""
        payload = {
            "source": source,
            "name": name,
            "class_name": class_name,
            "initial": self.reference.initial_pickle,
            "seed": self.reference.seed,
            "state": self.reference.state_bytes("loaded"),
            "by_order": bool(self.reference.guessable),
            "precision": self.settings.precision,
            "autocast": name == "task",
            "training": self.settings.training,
            "compile": mode,
        }
        return payload_descriptor(pickle.dumps(payload))

    def use_state(self, state: str, deadline: float) -> None:
        """Give the baselines the parameters that the candidate has: loaded ones, or those of the common seed."""
        if state == self.state:
            return
        self.state = state
        for side in self.baselines.values():
            self._give_state(side, deadline)

    def _give_state(self, side: Side, deadline: float) -> None:
        descriptor = payload_descriptor(self.reference.state_bytes(self.state))
        try:
            side.ask({"do": "state"}, deadline, (descriptor,))
        finally:
            os.close(descriptor)

    def buffers(self) -> tuple[Arena, Arena]:
        """Memory for a candidate: made once, used by the next too, who finds nothing there that the last one may have left."""
        if self._buffers is None:
            self._buffers = self.known.arenas(self.device)
        else:
            for arena in self._buffers:
                arena.base.zero_()
        return self._buffers

    def _side(self, name: str, end: int, reins: int) -> Side:
        spins = 0 if self.device == "cpu" else SPINS
        return Side(name, Channel.from_descriptor(end, spins, takes_descriptors=False), Keeper(reins), self.device)
