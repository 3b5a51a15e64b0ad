"""The worker process of the trusted mode: one long-lived torch (and CUDA context) that takes whole tasks, candidate after candidate.

It reports what it does before it does it, so that the judge knows which candidate is at fault when it hangs or dies. After an error from
which the device does not recover it exits, and another process takes its place.
"""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.judge.decide import decide
from bottega.judge.device import DeviceControl, initialise_device
from bottega.judge.device_lock import Lease
from bottega.judge.failure import describe
from bottega.judge.heap import steady_heap
from bottega.judge.invalid_task import InvalidTask
from bottega.judge.math_libraries import warm_libraries
from bottega.judge.reference import release
from bottega.judge.settings import Settings
from bottega.judge.trusted import NOTE
from bottega.judge.trusted.evaluation import TrustedEvaluation
from bottega.judge.trusted.process import TIMED_BYTES
from bottega.judge.trusted.rounds import time_together
from bottega.judge.trusted.runner import OutOfDeviceMemory
from bottega.judge.trusted.shared_device import SharedDevice
from bottega.judge.trusted.task import TrustedTask
from bottega.languages import language_named
from bottega.sandbox import reserved_cores
from bottega.sandbox.channel import Channel, ChannelClosed, read_payload

HEAP_BYTES = 128 << 20
MEMORY_FACTOR = 4.0
"""A worker may take so many times its equal share of the device's memory: few tasks are large."""


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the judge until it closes the channel."""
    settings: Settings = arguments["settings"]
    channel, lease, timed = Channel.from_descriptor(descriptors[0]), Lease(descriptors[1:5]), descriptors[5]
    reserved_cores.allow([0], everywhere=True)  # nobody else is on the machine for whom some would be kept free
    device = settings.device.partition(":")[0]
    torch.set_num_threads((os.cpu_count() or 1) if device == "cpu" else 1)
    warm_libraries()
    channel.send({"up": True})
    channel.receive()
    if device == "cpu":
        steady_heap(HEAP_BYTES)
    else:
        initialise_device(device)
        torch.cuda.set_per_process_memory_fraction(min(0.9, MEMORY_FACTOR / arguments["workers"]))
        ones = torch.ones(16, 16, device=device)
        (ones @ ones).sum().item()
    worker = TrustedWorker(channel, settings, device, lease, timed, arguments["foreign"])
    channel.send({"ready": True})
    try:
        worker.serve()
    except ChannelClosed:
        return


class TrustedWorker:
    def __init__(
        self, channel: Channel, settings: Settings, device: str, lease: Lease, timed: int, foreign: bool = False
    ) -> None:
        """`foreign`: the judge holds the device for this process, and is told when it is to be held alone."""
        self.channel, self.settings, self.device, self.lease = channel, settings, device, lease
        self.foreign = foreign
        self.sharing = SharedDevice(lease, self._report_stage)
        self.sharing.watch_compilers()
        self.control = DeviceControl(device)
        self.folder = Path(tempfile.mkdtemp(prefix="candidates-"))
        self.task: TrustedTask | None = None
        self.current = ""
        """The candidate that is tried; empty while the task is opened and while several are timed."""
        self.timed = ""
        """The candidate whose call is timed. The judge reads it from shared memory: a message would wake it beside every call."""
        self._timed_memory = timed
        self.seconds: Counter[str] = Counter()
        gc.collect()
        gc.freeze()

    def serve(self) -> None:
        if not self.foreign and self.settings.timed:  # alone: every worker's start makes all the others wait
            with self.lease.exclusive():
                self.control.rates()
        while True:
            begun = time.monotonic()
            self.channel.receive()
            task, candidates, profiled, rounds = pickle.loads(read_payload(self.channel.claim_descriptors(1)[0]))
            self._count({"idle": time.monotonic() - begun})
            try:
                self.judge(task, candidates, profiled, rounds)
            except ChannelClosed:
                raise
            except Exception as error:
                self._exit_after(error)
            gc.collect()
            self.channel.send({"done": dict(self.seconds)})
            self.seconds.clear()

    def judge(self, task: Task, candidates: Sequence[Candidate], profiled: bool, rounds: int = 0) -> None:
        """Report a verdict for each candidate."""
        try:
            opened = self._open(task)
        except InvalidTask as reason:
            self._close()
            return self.channel.send({"invalid": str(reason)})
        except OutOfDeviceMemory:
            self._close()
            return self.channel.send({"no_memory": ""})
        correct: list[TrustedEvaluation] = []
        for candidate in candidates:
            self.current = candidate.id
            evaluation = TrustedEvaluation(opened, candidate, self.folder / candidate.id)
            try:
                evaluation.run(profiled)
            except OutOfDeviceMemory:
                evaluation.runner = None
                release(self.device)
                self._count(self.sharing.take_seconds())
                self.channel.send({"no_memory": candidate.id})
                continue
            except InvalidTask as reason:
                return self.channel.send({"invalid": str(reason)})
            self._check_device(evaluation)
            if evaluation.correct and self._settings_for(candidate).timed:
                correct.append(evaluation)
                continue
            self._report_verdict(evaluation)
            if not evaluation.correct:
                self._discard_overwritten(opened)
        self.current = ""
        if correct:
            self._time(opened, correct, rounds)
        for candidate in candidates:
            shutil.rmtree(self.folder / candidate.id, ignore_errors=True)
        sys.modules.pop("candidate", None)
        return None

    def _open(self, task: Task) -> TrustedTask:
        if self.task is not None and self.task.task.id == task.id:
            return self.task
        self._close()
        self.current = ""
        with self.sharing.stage("importing"):
            opened = TrustedTask(task, self.settings, self.device, self.control, self.sharing)
        with self.sharing.shared(), self.sharing.stage("opening"):
            opened.open()
            opened.reference_calls("loaded")
            if self.device == "cpu":
                opened.compile()
        if self.device != "cpu":
            with self.sharing.stage("opening"):
                opened.compile()
        self.task = opened
        self._count(self.sharing.take_seconds())
        return opened

    def _close(self) -> None:
        if self.task is not None and len(self.task.baselines) > 1:
            torch._dynamo.reset()
        self.task = None
        release(self.device)

    def _discard_overwritten(self, opened: TrustedTask) -> None:
        self.current = ""
        with self.sharing.shared(), self.sharing.stage("checking inputs"):
            self._count({"overwritten": float(opened.discard_overwritten())})
        self._count(self.sharing.take_seconds())

    def _time(self, opened: TrustedTask, correct: Sequence[TrustedEvaluation], rounds: int) -> None:
        self._report_stage("waiting")
        begun = time.monotonic()
        if self.foreign:
            self.channel.send({"alone": True})
            self.channel.receive()
        with self.lease.exclusive():
            self._report_stage("timing")
            locked = time.monotonic()
            try:
                time_together(opened, correct, self._set_timed, rounds)
            except torch.OutOfMemoryError:
                release(self.device)
                for evaluation in correct:
                    self.channel.send({"no_memory": evaluation.candidate.id})
                return
            ended = time.monotonic()
        self._set_timed("")
        conditions = self.control.conditions()
        for evaluation in correct:
            evaluation.report["conditions"] = conditions
            evaluation.report["stages"] |= {
                "alone": round((locked - begun) / len(correct), 4),
                "timing": round((ended - locked) / len(correct), 4),
            }
            self._check_device(evaluation)
            self._report_verdict(evaluation)

    def _report_verdict(self, evaluation: TrustedEvaluation) -> None:
        candidate = evaluation.candidate
        verdict = decide(evaluation.task.task, candidate, self._settings_for(candidate), evaluation.report)
        self.channel.send({"verdict": verdict.to_json(), "candidate": candidate.id})
        if not evaluation.correct:
            evaluation.runner = None

    def _settings_for(self, candidate: Candidate) -> Settings:
        timed = language_named(candidate.language).is_timed_on(self.device)
        return self.settings if timed else replace(self.settings, timed=False)

    def _check_device(self, evaluation: TrustedEvaluation) -> None:
        """After a failure: exit if the device no longer works in this process."""
        if "failure" in evaluation.report and not self._device_works():
            self.channel.send({"device_broken": evaluation.candidate.id, "report": evaluation.report})
            os._exit(1)

    def _device_works(self) -> bool:
        if self.device == "cpu":
            return True
        try:
            torch.cuda.synchronize()
            torch.ones(16, device=self.device).sum().item()
        except Exception:
            return False
        return True

    def _exit_after(self, error: Exception) -> None:
        """Report an error that is no candidate's, and exit: the state of this process is unknown."""
        name = self.current or self.timed
        if self._device_works():
            self.channel.send({"error": "".join(traceback.format_exception(error)), "candidate": name})
        else:
            report = {"failure": {"kind": "failure", **describe("forward", error, "")}, "notes": [NOTE]}
            self.channel.send({"device_broken": name, "report": report})
        os._exit(1)

    def _report_stage(self, stage: str) -> None:
        self.channel.send({"stage": stage, "candidate": self.current})

    def _count(self, seconds: dict[str, float]) -> None:
        self.seconds.update(seconds)  # type: ignore[arg-type]

    def _set_timed(self, name: str) -> None:
        self.timed = name
        os.pwrite(self._timed_memory, name.encode()[:TIMED_BYTES].ljust(TIMED_BYTES), 0)
