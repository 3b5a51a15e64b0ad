"""The controller: the trusted process of a task. It draws inputs, owns the buffers, computes the oracle and keeps the clock.

One controller serves one task and any number of candidates, one after the other. The task's own code runs here and in the baselines; the
candidate's never does. It reports what it measured; the judge turns that into a verdict.
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
from functools import partial
from typing import Any

import torch

from bottega.judge.arena import Arena
from bottega.judge.baseline_compilation import BaselineCompilation, failure_reason
from bottega.judge.baselines import COMPILE_MODES
from bottega.judge.call_options import no_op
from bottega.judge.device import THREADS_BESIDE_A_GPU, DeviceControl, initialise_device
from bottega.judge.device_lock import Lease
from bottega.judge.evaluation import Evaluation, ExtensionArchive
from bottega.judge.inputs import InputSet
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.oracle import Oracle
from bottega.judge.reference import Reference, one_line, release
from bottega.judge.runner import Runner
from bottega.judge.settings import Settings
from bottega.judge.task_profile import TaskProfile, Unrepeatable, draw_inputs, of_reference, profile_task
from bottega.judge.task_shortcuts import inspect_task
from bottega.judge.worker_link import RunnerFailed
from bottega.sandbox.channel import SPINS, Channel, ChannelClosed, payload_descriptor, read_payload
from bottega.sandbox.control import ProcessControl

KEPT_BYTES = 1 << 30
"""Device memory that a controller keeps for the next candidate."""


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the judge until it closes the channel."""
    channel, lease, beside = Channel.from_descriptor(descriptors[0]), Lease(descriptors[1:5]), Lease(descriptors[5:9])
    if arguments["device"] != "cpu":
        torch.set_num_threads(THREADS_BESIDE_A_GPU)
    controller = Controller(channel, lease, beside, str(arguments["device"]))
    try:
        controller.serve()
    except ChannelClosed:
        return


class DeviceHeld(Exception):
    """The time was up while others had the device."""


PATIENCE, PATIENCE_BESIDE_A_GPU = 30.0, 5.0
"""Seconds in which the code of a task may keep others from timing. What takes long beside a GPU is done by the host, such as drawing weights."""


@contextmanager
def alarm(seconds: float, lease: Lease, patience: float) -> Iterator[None]:
    """Interrupt task code that does not return. What hangs outside Python is killed by the judge a little later.

    Before that, code that takes long stops sharing the lease: whoever times beside it sees that the machine is in use, and need not wait."""
    end = time.monotonic() + seconds

    def ring(number: int, frame: Any) -> None:
        left = end - time.monotonic()
        if left > 0:
            lease.give_way(patience)
            signal.setitimer(signal.ITIMER_REAL, min(left + 0.01, patience / 2))
            return
        if lease.waiting:
            raise DeviceHeld
        raise InvalidTask(
            f"importing, building, feeding and calling the module takes more than {seconds:g} s; use smaller shapes"
        )

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, patience / 2))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Controller:
    def __init__(self, channel: Channel, lease: Lease, beside: Lease, device: str):
        self.channel = channel
        self.lease = lease
        self.beside = beside
        """A second handle on the same lease, for background compilation."""
        self.device = device
        self.device_control: DeviceControl
        self.settings = Settings()
        self.baselines: dict[str, Runner] = {}
        """Those that are ready."""
        self.unavailable: dict[str, str] = {}
        """Why others cannot be used."""
        self._compilation: BaselineCompilation | None = None
        self.profile = TaskProfile()
        self.state = "loaded"
        self.reference: Reference
        self.oracle: Oracle
        self._buffers: tuple[Arena, Arena] | None = None

    def serve(self) -> None:
        handlers = {"open": self.open, "evaluate": self.evaluate, "fitness": self.fitness}
        while True:
            message = self.channel.receive()
            try:
                reply = handlers[message["do"]](message)
            except InvalidTask as reason:
                reply = {"invalid": str(reason)}
            except torch.OutOfMemoryError:
                release(self.device)
                reply = {"invalid": f"the task needs more memory than the {self.device} device has left; use smaller shapes"}
            except DeviceHeld:
                reply = {"held": True}
            except RunnerFailed as failure:
                reply = {
                    "invalid": f"the reference could not be run: {failure.detail.get('text') or failure.text or failure.kind}"
                }
            except ChannelClosed:
                raise
            except Exception as error:
                reply = {"broken": one_line(error), "trace": "".join(traceback.format_exception(error))[-3000:]}
            self.channel.send(reply)

    def open(self, message: dict[str, Any]) -> dict[str, Any]:
        """Open the task: build it, start the baselines, and profile it."""
        descriptors = self.channel.claim_descriptors(1 + 2 * len(message["baselines"]))
        payload = pickle.loads(read_payload(descriptors[0]))
        self.settings = payload["settings"]
        deadline = time.monotonic() + self.settings.task_timeout
        runners = {
            name: self._runner(name, *descriptors[1 + 2 * number : 3 + 2 * number])
            for number, name in enumerate(message["baselines"])
        }
        patience = PATIENCE if self.device == "cpu" else PATIENCE_BESIDE_A_GPU
        with alarm(self.settings.task_timeout + 1, self.lease, patience):
            for runner in runners.values():
                runner.listen(deadline)
            with self.lease.starting_or_stopping():
                for runner in runners.values():
                    runner.tell({"do": "initialise"})
                initialise_device(self.device)
                self.device_control = DeviceControl(self.device)
                for runner in runners.values():
                    runner.listen(deadline)
            self.baselines["eager"] = runners.pop("eager")
            try:
                self._profile_task(payload["source"], deadline)
            except Unrepeatable as reason:
                if self.settings.training:
                    raise InvalidTask(f"{reason} in training mode; judge it in evaluation mode (--mode eval)") from None
                if self.settings.training is False:
                    raise
                self.settings = replace(self.settings, training=False)
                try:
                    self._profile_task(payload["source"], deadline)
                except Unrepeatable as again:
                    raise InvalidTask(f"{again}, also in evaluation mode; take the randomness or the state out") from None
                self.profile.notes.append(
                    "mode: as built, the reference answers differently every time; it was judged in evaluation mode"
                )
            if runners:
                payloads = {name: self._payload(payload["source"], "task", "Model", COMPILE_MODES[name]) for name in runners}
                self._compilation = BaselineCompilation(runners, payloads, self.beside, self.settings.task_timeout)
        return {"opened": True, "facts": self.profile.facts}

    def _profile_task(self, source: str, deadline: float) -> None:
        eager = self.baselines["eager"]
        self.reference = Reference(source, self.device, self.settings.training, self.settings.precision)
        self.oracle = Oracle(self.reference)
        with self.lease.shared() if self.device == "cpu" else nullcontext():  # loading hardly touches a GPU
            of_reference(eager, lambda: self.load(eager, source, "task", "Model", deadline))
        self.profile = profile_task(
            self.reference, self.oracle, self.baselines, self.device_control, self.lease, self.settings.precision, deadline
        )

    def draw(self, variant: str = "plain") -> InputSet:
        return draw_inputs(self.profile, self.reference, self.baselines["eager"], variant)

    def evaluate(self, message: dict[str, Any]) -> dict[str, Any]:
        payload_at, end, control, *lent = self.channel.claim_descriptors(4 if "archive" in message else 3)
        payload = pickle.loads(read_payload(payload_at))
        runner = self._runner("candidate", end, control)
        archive = ExtensionArchive(lent[0], message["archive"] == "kept") if lent else None
        try:
            found = Evaluation(self, runner, payload["source"], payload["claimed"], payload["settings"], archive).evaluate()
        finally:
            runner.close()
            if archive is not None:
                os.close(archive.descriptor)
            if self.profile.large:
                self.oracle.forget()
            self._release_memory()
        return {"evaluation": found, "archive": archive.told if archive is not None else None}

    def _release_memory(self) -> None:
        """Release device memory of the last evaluation: other tasks are open beside this one."""
        if self.device != "cpu" and torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > KEPT_BYTES:
            torch.cuda.empty_cache()

    def fitness(self, message: dict[str, Any]) -> dict[str, Any]:
        """Where the verdict is to be against a compiled baseline, includes whether there is one."""
        unavailable = self.await_baselines() if self.settings.baselines[0] != "eager" else {}
        return {"fitness": {**inspect_task(self.reference, self.profile.facts), "unavailable": unavailable}}

    def await_baselines(self) -> dict[str, str]:
        """Wait, without the device, for baselines that are being compiled, and call each once. Returns why some cannot be used, by name."""
        compilation, self._compilation = self._compilation, None
        if compilation is not None:
            self.unavailable |= compilation.result()
            for name, runner in compilation.runners.items():
                if name not in self.unavailable:
                    self._admit_baseline(name, runner)
        return self.unavailable

    def _admit_baseline(self, name: str, runner: Runner) -> None:
        """Call a compiled baseline for the first time, so that whatever it still compiles is compiled now."""
        seconds = self.settings.task_timeout
        deadline = time.monotonic() + seconds
        options = self.profile.call_options(
            precision=self.settings.precision,
            state=self.state,
            deadline=lambda: deadline,
            device_control=self.device_control,
            yield_to_timer=no_op
            if self.device == "cpu"
            else partial(self.lease.yield_to_timer, self.device_control.synchronize),
            released=self.lease.released,
        )
        try:
            with self.lease.shared():
                runner.attach(*self._arenas_of_a_baseline(), deadline)
                runner.extent = self.profile.watched_room
                if self.state != "loaded":
                    self._give_state(runner, deadline)
                runner.run_call(self.draw(), options)
        except RunnerFailed as failure:
            self.unavailable[name] = failure_reason(failure, seconds)
            runner.control.kill()
            return
        self.baselines[name] = runner

    def _arenas_of_a_baseline(self) -> tuple[Arena, Arena]:
        """Baselines are trusted, and called one at a time: they take inputs from one place. Not where they change them: what the first has made of
        them is looked at when all have been called."""
        if self.profile.mutates:
            return self.profile.arenas(self.device)
        inputs = self.baselines["eager"].inputs
        assert inputs is not None
        return inputs, self.profile.output_arena(self.device)

    def load(self, runner: Runner, source: str, name: str, class_name: str, deadline: float) -> dict[str, Any]:
        """Have a worker import and build a module; baselines get the precision that the user allows."""
        descriptor = self._payload(source, name, class_name)
        try:
            return runner.ask({"do": "load"}, deadline, (descriptor,))
        finally:
            os.close(descriptor)

    def _payload(self, source: str, name: str, class_name: str, mode: str = "") -> int:
        """A descriptor of what a worker loads, with the mode of torch.compile, if any."""
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
        for runner in self.baselines.values():
            self._give_state(runner, deadline)

    def _give_state(self, runner: Runner, deadline: float) -> None:
        descriptor = payload_descriptor(self.reference.state_bytes(self.state))
        try:
            runner.ask({"do": "state"}, deadline, (descriptor,))
        finally:
            os.close(descriptor)

    def buffers(self) -> tuple[Arena, Arena]:
        """Input and output memory for a candidate: created once, cleared for each."""
        if self._buffers is None:
            self._buffers = self.profile.arenas(self.device)
        else:
            for arena in self._buffers:
                arena.base.zero_()
        return self._buffers

    def _runner(self, name: str, end: int, control: int) -> Runner:
        spins = 0 if self.device == "cpu" else SPINS
        return Runner(name, Channel.from_descriptor(end, spins, takes_descriptors=False), ProcessControl(control), self.device)
