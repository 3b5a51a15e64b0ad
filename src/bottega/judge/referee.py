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
from typing import Any

import torch

from bottega.judge.acquaintance import Acquaintance, get_acquainted, of_reference
from bottega.judge.arena import Arena
from bottega.judge.device import THREADS_BESIDE_A_GPU, DeviceCare, wake
from bottega.judge.examination import Examination
from bottega.judge.fitness import inspect_task
from bottega.judge.invalid import InvalidTask
from bottega.judge.keeper import Keeper
from bottega.judge.lease import Lease
from bottega.judge.reference import Reference, one_line, release
from bottega.judge.settings import Settings
from bottega.judge.side import Side, SideFailed
from bottega.judge.wire import SPINS, Channel, Departed, payload_descriptor, read_payload

KEPT_BYTES = 1 << 30
"""Device memory that a referee keeps for the next candidate."""


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the judge until it closes the channel."""
    channel, lease = Channel.from_descriptor(descriptors[0]), Lease(descriptors[1:4])
    if arguments["device"] != "cpu":
        torch.set_num_threads(THREADS_BESIDE_A_GPU)
    referee = Referee(channel, lease, str(arguments["device"]), str(arguments.get("cache", "")))
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
    def __init__(self, channel: Channel, lease: Lease, device: str, cache: str):
        self.channel = channel
        self.lease = lease
        self.device = device
        self.cache = cache
        """A folder for what may be kept between runs; empty when there is none."""
        self.care: DeviceCare
        self.settings = Settings()
        self.baselines: dict[str, Side] = {}
        self.known = Acquaintance()
        self.state = "loaded"
        self.reference: Reference
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
        for number, name in enumerate(message["baselines"]):
            self.baselines[name] = self._side(name, *descriptors[1 + 2 * number : 3 + 2 * number])
        with alarm(self.settings.task_timeout + 1):
            for side in self.baselines.values():
                side.listen(deadline)
            with self.lease.coming_or_going():
                for side in self.baselines.values():
                    side.tell({"do": "wake"})
                wake(self.device)
                self.care = DeviceCare(self.device)
                for side in self.baselines.values():
                    side.listen(deadline)
            self.reference = Reference(payload["source"], self.device, self.settings.training)
            with self.lease.shared() if self.device == "cpu" else nullcontext():  # loading hardly touches a GPU
                for side in self.baselines.values():
                    self._load_reference(side, payload["source"], deadline)
            self.known = get_acquainted(
                self.reference, self.baselines, self.care, self.lease, self.settings.precision, deadline
            )
        return {"opened": True, "facts": self.known.facts}

    def examine(self, message: dict[str, Any]) -> dict[str, Any]:
        payload_at, end, reins = self.channel.claim_descriptors(3)
        payload = pickle.loads(read_payload(payload_at))
        side = self._side("candidate", end, reins)
        try:
            found = Examination(self, side, payload["source"], payload["language"], payload["settings"]).run()
        finally:
            side.close()
            self._tidy()
        return {"examination": found}

    def _tidy(self) -> None:
        """Give back what the last candidate's examination took of the device: other tasks are up beside this one."""
        if self.device != "cpu" and torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > KEPT_BYTES:
            torch.cuda.empty_cache()

    def fitness(self, message: dict[str, Any]) -> dict[str, Any]:
        return {"fitness": inspect_task(self.reference, self.known.facts)}

    def _load_reference(self, side: Side, source: str, deadline: float) -> None:
        compile_it = side.name == "compile"
        of_reference(side, lambda: self.load(side, source, "task", "Model", deadline, compile_it=compile_it))

    def load(
        self, side: Side, source: str, name: str, class_name: str, deadline: float, *, compile_it: bool = False
    ) -> dict[str, Any]:
        """Have a player import and build a module; the baselines get the precision that the user allows."""
        payload = {
            "source": source,
            "name": name,
            "class_name": class_name,
            "initial": self.reference.initial,
            "seed": self.reference.seed,
            "state": self.reference.state_bytes("loaded"),
            "precision": self.settings.precision,
            "autocast": name == "task",
            "training": self.settings.training,
            "compile": compile_it,
        }
        descriptor = payload_descriptor(pickle.dumps(payload))
        try:
            return side.ask({"do": "load"}, deadline, (descriptor,))
        finally:
            os.close(descriptor)

    def use_state(self, state: str, deadline: float) -> None:
        """Give the baselines the parameters that the candidate has: loaded ones, or those of the common seed."""
        if state == self.state:
            return
        for side in self.baselines.values():
            descriptor = payload_descriptor(self.reference.state_bytes(state))
            try:
                side.ask({"do": "state"}, deadline, (descriptor,))
            finally:
                os.close(descriptor)
        self.state = state

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
