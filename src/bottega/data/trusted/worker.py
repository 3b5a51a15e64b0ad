"""A process of the trusting bench: one long-lived torch (and CUDA context) that takes whole tasks, kernel after kernel.

It says what it does before it does it, so that the bench knows whose fault it is when it hangs or dies. After an error that the
device does not recover from it leaves, and another process takes its place.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from bottega.core.candidate import Candidate
from bottega.core.task import Task
from bottega.data.pool import leave_with
from bottega.data.trusted.apart import Apart
from bottega.data.trusted.examine import Examination
from bottega.data.trusted.orders import LOG, UNDER_WAY, Orders
from bottega.data.trusted.room import TaskRoom
from bottega.data.trusted.side import Crowded
from bottega.data.trusted.timing import time_together
from bottega.data.trusted.trust import NOTE
from bottega.judge.decide import decide
from bottega.judge.device import DeviceCare, wake
from bottega.judge.failure import describe
from bottega.judge.heap import steady_heap
from bottega.judge.invalid import InvalidTask
from bottega.judge.lease import Lease, open_lease
from bottega.judge.machine import QUICK_CONNECTIONS
from bottega.judge.reference import one_line, release
from bottega.judge.settings import Settings
from bottega.judge.worker import warm_libraries

NAME_BYTES = 16
HEAP_BYTES = 128 << 20
ROOM_FACTOR = 4.0
"""A process may take so many times its fair part of the device's memory: few tasks are large."""


def work(pipe: Connection, parent: int, orders: Orders, name: str) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    threading.Thread(target=leave_with, args=(parent,), daemon=True).start()
    lease = Lease(open_lease(orders.lease))  # before the temporary folder becomes our own
    folder = Path(orders.folder) / name
    folder.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / LOG, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    _environment(orders, folder)
    with suppress(ImportError):
        import_module("triton.language")
    try:
        worker = Worker(pipe, orders, lease, folder, log)
    except Exception as error:
        pipe.send(("unfit", one_line(error)))
        return
    pipe.send(("ready", torch.__version__))
    while True:
        begun = time.monotonic()
        try:
            task, candidates, profiled = pipe.recv()
        except EOFError:
            return
        worker.spend({"idle": time.monotonic() - begun})
        try:
            worker.judge(task, candidates, profiled)
        except Exception as error:  # a fault of ours, or of a device that is broken
            worker.give_up(error)


def _environment(orders: Orders, folder: Path) -> None:
    shared = Path(orders.folder)
    os.environ["TMPDIR"] = str(folder)
    for name, part in (("TRITON_CACHE_DIR", "triton"), ("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("BOTTEGA_BUILD_DIR", "build")):
        os.environ[name] = str(shared / part)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    kind, _, index = orders.settings.device.partition(":")
    if kind == "cpu":
        os.environ |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = index or "0"
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", QUICK_CONNECTIONS)
        torch.set_num_threads(1)
    if orders.settings.compiled:
        setattr(import_module("torch._inductor.config"), "compile_threads", 1)  # noqa: B010 (it may have been imported before the environment was set)


class Worker:
    def __init__(self, pipe: Connection, orders: Orders, lease: Lease, folder: Path, log: int) -> None:
        self.pipe, self.settings, self.lease, self.folder, self.log = pipe, orders.settings, lease, folder, log
        self.sharing = Apart(lease, self._waits)
        self.sharing.watch_triton()
        self.device = orders.settings.device.partition(":")[0]
        self.room: TaskRoom | None = None
        self._stage = "opening"
        self.current = ""
        """The kernel that is tried; empty while the task is brought up and while several are timed."""
        self.timed = ""
        self.spent: dict[str, float] = {}
        self._under_way = os.open(folder / UNDER_WAY, os.O_RDWR | os.O_CREAT, 0o600)
        warm_libraries()
        if self.device == "cpu":
            steady_heap(HEAP_BYTES)
        else:
            with lease.coming_or_going():
                wake(self.device)
                torch.cuda.set_per_process_memory_fraction(min(0.9, ROOM_FACTOR / orders.workers))
                ones = torch.ones(16, 16, device=self.device)
                (ones @ ones).sum().item()
        self.care = DeviceCare(self.device)
        with lease.exclusive():
            self.care.rates()
        gc.collect()
        gc.freeze()

    def judge(self, task: Task, candidates: Sequence[Candidate], profiled: bool) -> None:
        """Everything about these kernels, told kernel by kernel; `done` comes last."""
        try:
            room = self._opened(task)
        except (InvalidTask, Crowded) as reason:
            self._close()
            self._end(("invalid", str(reason)) if isinstance(reason, InvalidTask) else ("crowded", ""))
            return
        right: list[Examination] = []
        for candidate in candidates:
            self.current = candidate.id
            examination = Examination(room, candidate, self.sharing, self.folder / candidate.id, self._say)
            os.ftruncate(self.log, 0)
            try:
                examination.run(profiled)
            except Crowded:
                examination.side = None
                release(self.device)
                self.pipe.send(("crowded", candidate.id))
                continue
            except InvalidTask as reason:
                self._end(("invalid", str(reason)))
                return
            self._must_be_well(examination)
            if examination.right and self._timed(candidate):
                right.append(examination)
                continue
            self._settle(examination)
            if not examination.right:
                self._look_again(room)
        self.current = ""
        if right:
            self._time(room, right)
        for candidate in candidates:
            shutil.rmtree(self.folder / candidate.id, ignore_errors=True)
        sys.modules.pop("candidate", None)
        self._end()

    def _look_again(self, room: TaskRoom) -> None:
        self._say("waiting")
        with self.sharing.shared():
            self.spend({"remade": float(not room.look_again())})

    def _opened(self, task: Task) -> TaskRoom:
        if self.room is not None and self.room.task.id == task.id:
            return self.room
        self._close()
        begun = time.monotonic()
        self._say("opening")
        room = TaskRoom(task, self.settings, self.device, self.care, self.sharing)
        self._say("waiting")
        with self.sharing.shared():
            self._say("opening")
            room.open()
            room.draws("loaded")
            if self.device == "cpu":
                room.compile()
        if self.device != "cpu":
            room.compile()
        self.room = room
        apart, self.sharing.spent = self.sharing.spent, Counter()
        self.spend({**apart, "opening": time.monotonic() - begun - sum(apart.values())})
        return room

    def _close(self) -> None:
        if self.room is not None and len(self.room.baselines) > 1:
            torch._dynamo.reset()
        self.room = None
        release(self.device)

    def _time(self, room: TaskRoom, right: Sequence[Examination]) -> None:
        self._say("waiting")
        begun = time.monotonic()
        with self.lease.exclusive():
            self._say("timing")
            locked = time.monotonic()
            try:
                time_together(room, right, self._put_under_way)
            except torch.OutOfMemoryError:
                release(self.device)
                for examination in right:
                    self.pipe.send(("crowded", examination.candidate.id))
                return
            ended = time.monotonic()
        conditions = self.care.conditions()
        self._put_under_way("")
        for examination in right:
            examination.found["conditions"] = conditions
            examination.found["stages"] |= {
                "alone": round((locked - begun) / len(right), 4),
                "timing": round((ended - locked) / len(right), 4),
            }
            self._must_be_well(examination)
            self._settle(examination)

    def _settle(self, examination: Examination) -> None:
        verdict = decide(
            examination.room.task, examination.candidate, self._settings_of(examination.candidate), examination.found
        )
        self.pipe.send(("verdict", examination.candidate.id, verdict))
        if not examination.right:
            examination.side = None

    def _must_be_well(self, examination: Examination) -> None:
        """After a failure: whether the device still does what it is told. If not, this process has seen its last kernel."""
        if self.device == "cpu" or "failure" not in examination.found:
            return
        if not self._well():
            self.pipe.send(("poisoned", examination.candidate.id, examination.found))
            os._exit(1)

    def _well(self) -> bool:
        if self.device == "cpu":
            return True
        try:
            torch.cuda.synchronize()
            torch.ones(16, device=self.device).sum().item()
        except Exception:
            return False
        return True

    def give_up(self, error: Exception) -> None:
        """Say what was wrong, and leave: nobody knows what state this process is in."""
        name = self.current or self.timed
        if self._well():
            self.pipe.send(("broken", name, "".join(traceback.format_exception(error))))
        else:
            found = {"failure": {"kind": "failure", **describe("forward", error, "")}, "notes": [NOTE]}
            self.pipe.send(("poisoned", name, found))
        os._exit(1)

    def _timed(self, candidate: Candidate) -> bool:
        return self._settings_of(candidate).timed

    def _settings_of(self, candidate: Candidate) -> Settings:
        interpreted = candidate.language == "triton" and self.device == "cpu"
        return replace(self.settings, timed=False) if interpreted else self.settings

    def _say(self, stage: str) -> None:
        self._stage = stage
        self.pipe.send(("at", self.current, stage))

    def _waits(self, begins: bool) -> None:
        self.pipe.send(("at", self.current, "waiting" if begins else self._stage))

    def spend(self, seconds: dict[str, float]) -> None:
        for what, number in seconds.items():
            self.spent[what] = self.spent.get(what, 0.0) + number

    def _put_under_way(self, name: str) -> None:
        self.timed = name
        os.pwrite(self._under_way, name.encode()[:NAME_BYTES].ljust(NAME_BYTES), 0)

    def _end(self, last: tuple[Any, ...] | None = None) -> None:
        if last is not None:
            self.pipe.send(last)
        gc.collect()
        spent, self.spent = self.spent, {}
        self.pipe.send(("done", spent))
