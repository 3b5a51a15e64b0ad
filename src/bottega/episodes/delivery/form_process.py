"""One compiled form of a whole model in a process of its own, which begins to compile beside the search and is stopped when its time is over.

It has the model as the text that a capture wrote: weights are drawn anew. What it found so far is reported after each step, so that a compiler that
does not end takes nothing with it but what it had not yet done. It does not outlive whoever started it, however that ends.

Whoever started it holds the device for it: shared while it works, and it stands still as soon as somebody wants to time; alone while it times, or its
compiler tries kernels.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import bottega
from bottega.core.held_folder import HeldFolder
from bottega.episodes.delivery.device_turn import AskedTurn, time_trials_alone
from bottega.episodes.delivery.whole_model import FormResult, Part, form_text
from bottega.judge.device_lock import Lease, open_lease
from bottega.sandbox import linux

COMMAND = "from bottega.episodes.delivery.form_process import main; main()"
POLL_S = 0.005
REST = 9.0
"""Times as long as it had the device alone it has it not, while others search beside it."""
COMPILE_SHARE = 4
ENDING_S = 5.0
SCRATCH = "bottega_form_"
SETTLE_S = 0.02
"""What a process that stands still has enqueued may keep a GPU busy for so long. Trials, which enqueue more, are made alone."""


@dataclass
class FormProcess:
    """`start` it, `choose` once, `close` it."""

    folder: Path
    """Of the run: its messages go to a file there."""
    task: Path
    form: str
    device: str
    precision: str = "fp32"
    _process: Any = field(init=False, default=None)
    _lines: queue.Queue[dict[str, Any] | None] = field(init=False, default_factory=queue.Queue)
    _wants_alone: threading.Event = field(init=False, default_factory=threading.Event)
    _beside: bool = field(init=False, default=True)
    """Of a search, until it is asked what helps."""
    _over: threading.Event = field(init=False, default_factory=threading.Event)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def start(self) -> None:
        import torch

        if self._process is not None:
            return
        package = str(Path(bottega.__file__).parents[1])
        paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        threads = max(1, len(os.sched_getaffinity(0)) // COMPILE_SHARE)  # of the compiler's: others work beside it
        self._scratch = HeldFolder(SCRATCH)
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", COMMAND],
                env={"TORCHINDUCTOR_COMPILE_THREADS": str(threads), **os.environ, "PYTHONPATH": paths},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # with the processes that a compiler starts
            )
        threading.Thread(target=self._read, daemon=True).start()
        self._holder = threading.Thread(target=self._hold_device, daemon=True)
        self._holder.start()
        job = {"task": str(self.task.resolve()), "folder": str(self.folder.resolve()), "form": self.form, "device": self.device,
               "precision": self.precision, "scratch": self._scratch.path, "matmul": torch.get_float32_matmul_precision(),
               "threads": torch.get_num_threads()}  # fmt: skip
        self._tell(job)

    @property
    def log(self) -> Path:
        return self.folder / f"form-{self.form}.log"

    def choose(
        self,
        parts: Sequence[Part],
        plain: FormResult | None,
        seconds: float | None,
        say: Callable[[str], None],
        keep: Callable[[FormResult], object] = lambda known: None,
    ) -> FormResult:
        """What it found by then, with a word on what is missing. `plain`: what helps the model as it is. `keep` is told of each step."""
        self._beside = False
        self._tell({"parts": [asdict(part) for part in parts], "plain": plain.to_json() if plain else None})
        known, ready, until = FormResult(self.form), False, None if seconds is None else time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except queue.Empty:
                over = "compiling the model was not over in time" if not ready else "time was over before every part was tried"
                return replace(
                    known, missing=f"{'not measured: ' if not known.times_ms else ''}{over}; compile_minutes= allows more"
                )
            if line is None or "failed" in line:
                why = line["failed"] if line else "its process ended"
                return replace(known, missing=f"{'' if known.times_ms else 'not measured: '}{why}; {self.log} has more")
            if "say" in line:
                say(line["say"])
            elif "result" in line:
                known = FormResult.from_json(line["result"])
                keep(replace(known, missing="ended before every part was tried"))
            ready = ready or "ready" in line
            if "done" in line:
                return known

    def close(self) -> None:
        if self._process is not None:
            self._over.set()
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._holder.join(ENDING_S)
            with contextlib.suppress(OSError):  # what it was told last, and never read
                self._process.stdin.close()
            self._scratch.close()
            self._process = None

    def _hold_device(self) -> None:
        """It goes on with each word that it waits for, so that it does nothing between having the device alone and sharing it."""
        with closing(Lease(open_lease(self.device))) as lease:
            had_it_alone, rested = False, 0.0
            while not self._over.is_set():
                with lease.shared():
                    self._signal(signal.SIGCONT)
                    if had_it_alone:
                        self._tell({"alone": False})
                    while not (self._over.is_set() or self._wants_alone.wait(POLL_S) or lease.wanted()):
                        pass
                    had_it_alone = self._wants_alone.is_set()
                    if not had_it_alone:
                        self._signal(signal.SIGSTOP)
                        if self.device != "cpu":
                            time.sleep(SETTLE_S)
                if had_it_alone:
                    while self._beside and time.monotonic() < rested and not self._over.is_set():
                        time.sleep(POLL_S)
                    with lease.exclusive():
                        begun = time.monotonic()
                        self._tell({"alone": True})
                        while self._wants_alone.is_set() and not self._over.is_set():
                            time.sleep(POLL_S / 10)
                        rested = time.monotonic() + REST * (time.monotonic() - begun)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError), self._lock:  # it has ended, which its reader says
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        process = self._process
        with contextlib.suppress(ValueError):  # closed under us
            for line in process.stdout:
                message = json.loads(line)
                if "alone" in message:
                    (self._wants_alone.set if message["alone"] else self._wants_alone.clear)()
                else:
                    self._lines.put(message)
        self._over.set()
        self._lines.put(None)


def main() -> None:
    """The process. Standard output has the messages alone; it ends with whoever started it."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGCONT)  # it may be stopped, and is to see that nobody is there any more
    asked, granted = queue.Queue[dict[str, Any]](), queue.Queue[dict[str, Any]]()
    threading.Thread(target=_listen, args=(asked, granted), daemon=True).start()
    lock = threading.Lock()

    def tell(**message: Any) -> None:
        with lock:
            told.write(json.dumps(message) + "\n")
            told.flush()

    def ask(alone: bool) -> None:
        tell(alone=alone)
        granted.get()

    try:
        _work(asked, tell, AskedTurn(ask))
    except Exception as error:
        import traceback

        traceback.print_exc()
        tell(failed=f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}")
    os._exit(0)  # the compiler's processes and threads are not waited for


def _listen(asked: queue.Queue[dict[str, Any]], granted: queue.Queue[dict[str, Any]]) -> None:
    scratch = ""
    for line in sys.stdin:
        message = json.loads(line)
        (granted if "alone" in message else asked).put(message)
        scratch = message.get("scratch", scratch)
    if scratch:
        shutil.rmtree(scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)  # with the compiler's processes


def _work(asked: queue.Queue[dict[str, Any]], tell: Any, turn: AskedTurn) -> None:
    import torch

    from bottega.core.arguments import Arguments, read_arguments
    from bottega.episodes.delivery.end_to_end import EndToEnd, on_device_of
    from bottega.judge.loading import import_source

    job = asked.get()
    torch.set_num_threads(job["threads"])
    torch.set_float32_matmul_precision(job["matmul"])
    task = import_source(Path(job["task"]).read_text(encoding="utf-8"), "task", job["scratch"])
    with torch.device(job["device"]):  # a GPU draws weights at once
        model = task.Model().to(job["device"])
    if job["device"] != "cpu":
        os.nice(10)  # it compiles while the judge takes times
    moved = torch.utils._pytree.tree_map(
        lambda value: value.to(job["device"]) if isinstance(value, torch.Tensor) else value, task.get_inputs()
    )
    inputs = Arguments(*read_arguments(moved, model.forward))
    time_trials_alone(turn)
    measured = EndToEnd(model, inputs, Path(job["folder"]), job["form"], job["precision"], lambda text: tell(say=text), turn)
    begun = time.monotonic()
    on_device_of(model).__enter__()
    measured.call(measured.rival)
    measured.call(measured.rival)
    tell(
        ready=time.monotonic() - begun,
        say=f"the model is compiled, {form_text(job['form'])}, after {time.monotonic() - begun:.0f} s",
    )
    given = asked.get()
    parts = [Part.from_json(each) for each in given["parts"]]
    plain = FormResult.from_json(given["plain"]) if given["plain"] else None
    for result in measured.choose(parts, plain):
        tell(result=result.to_json())
    tell(done=True)
