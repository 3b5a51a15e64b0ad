"""The process that runs a module on command: the candidate's, and in the same way each baseline's.

Candidate code shares this process and may rewrite anything in it. Nothing said here is believed: the referee reads
the outputs from its own memory, keeps its own clock, and takes the reports below only as hints for the diagnosis.
Both sides of a comparison run this same file, so that what it costs cancels out.
"""

from __future__ import annotations

import ctypes
import importlib.util
import io
import linecache
import os
import pickle
import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import torch

from bottega.judge.arena import Arena
from bottega.judge.cupti import ProfilerMissing, kernel_times
from bottega.judge.layout import TensorSpec, flatten, lay_out, unflatten
from bottega.judge.wire import SPINS, Channel, Departed, read_payload

TEXT_LIMIT = 6000


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the referee until it closes the channel."""
    torch.set_num_threads(int(arguments.get("threads", os.cpu_count() or 1)))
    device = str(arguments["device"])
    player = Player(Channel.from_descriptor(descriptors[0], spins=0 if device == "cpu" else SPINS), device)
    try:
        player.serve()
    except Departed:
        return


class StageFailed(Exception):
    """The module failed in a stage that has a name; the original exception is the cause."""

    def __init__(self, stage: str, cause: BaseException):
        super().__init__(stage)
        self.stage = stage
        self.cause = cause


class Player:
    def __init__(self, channel: Channel, device: str):
        self.channel = channel
        self.device = device
        self.module: Any = None
        self.source_path = ""
        self.arguments: tuple[Any, ...] = ()
        self.inputs: Arena | None = None
        self.outputs: Arena | None = None
        self.autocast: AbstractContextManager[Any] = nullcontext()

    def serve(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()  # the context is made here, before the clock of any stage runs
        handlers = {
            "load": self.load,
            "state": self.state,
            "arenas": self.arenas,
            "prepare": self.prepare,
            "survey": self.survey,
            "profile": self.profile,
        }
        self.channel.send({"ready": True})
        while True:
            message = self.channel.receive()
            if "go" in message:
                self.play(message["go"])
                continue
            try:
                reply = handlers[message["do"]](message)
            except StageFailed as failure:
                reply = {"failure": describe(failure.stage, failure.cause, self.source_path)}
            except BaseException as error:
                reply = {"failure": describe(str(message.get("do")), error, self.source_path)}
            self.channel.send(reply)

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Import the source, build the class with the given seed, load the state strictly if its names fit."""
        payload = pickle.loads(read_payload(self.channel.claim_descriptors(1)[0]))
        set_precision(payload["precision"])
        self.autocast = autocast(self.device, payload["precision"]) if payload["autocast"] else nullcontext()
        module = self._stage("import", import_source, payload["source"], payload["name"])
        self.source_path = module.__file__ or ""
        factory = getattr(module, payload["class_name"], None)
        if factory is None:
            raise StageFailed("import", NameError(f"the file defines no {payload['class_name']}"))
        torch.manual_seed(payload["seed"])
        built = self._stage("construct", lambda: factory(*payload["initial"]))
        if not isinstance(built, torch.nn.Module):
            raise StageFailed("construct", TypeError(f"{payload['class_name']} is not a torch.nn.Module"))
        mismatch = self._stage("state", load_state, built, payload["state"])
        if payload["training"] is not None:
            built.train(payload["training"])
        self.module = self._stage("construct", lambda: built.to(self.device))
        if payload["compile"]:
            self.module = torch.compile(self.module)
        return {"loaded": True, "mismatch": mismatch}

    def state(self, message: dict[str, Any]) -> dict[str, Any]:
        state = torch.load(io.BytesIO(read_payload(self.channel.claim_descriptors(1)[0])), weights_only=True)
        getattr(self.module, "_orig_mod", self.module).load_state_dict(state, strict=True)
        return {"loaded": True}

    def arenas(self, message: dict[str, Any]) -> dict[str, Any]:
        inputs, outputs = self.channel.claim_descriptors(2)
        self.arguments = ()
        self.inputs = self.outputs = None
        self.inputs = Arena.attach(self.device, message["inputs"], inputs)
        self.outputs = Arena.attach(self.device, message["outputs"], outputs)
        return {"attached": True}

    def prepare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Make the views through which the next call will see its inputs."""
        assert self.inputs is not None
        tensors = [TensorSpec.from_json(spec).view(self.inputs.base) for spec in message["specs"]]
        self.arguments = unflatten(message["skeleton"], tensors)
        return {"prepared": True}

    def survey(self, message: dict[str, Any]) -> dict[str, Any]:
        """Run once without delivering anything: how much room the outputs need."""
        with torch.no_grad(), self.autocast:
            tensors = self._stage("forward", lambda: flatten(self.module(*self.arguments))[1])
        return {"bytes": lay_out(tensors)[1], "tensors": len(tensors)}

    def play(self, nonce: int) -> None:
        """One call: run, copy the outputs into the referee's memory, say so; then describe them at leisure."""
        clock: Clock = EventClock() if self.device != "cpu" else HostClock()
        try:
            with torch.no_grad(), self.autocast:
                clock.start()
                result = self.module(*self.arguments)
                clock.stop()
            skeleton, specs = self._deliver(result)
            elapsed = clock.elapsed()
        except BaseException as error:
            self.channel.send({"done": nonce, "ns": 0, "failure": describe("forward", error, self.source_path)})
            return
        self.channel.send({"done": nonce, "ns": elapsed})
        self.channel.send({"outputs": skeleton, "specs": [spec.to_json() for spec in specs], "aliases": self._aliases(result)})

    def profile(self, message: dict[str, Any]) -> dict[str, Any]:
        """Device time by kernel name over a few calls, and the library operators that were dispatched."""
        calls = int(message["calls"])

        def run() -> None:
            with torch.no_grad(), self.autocast:
                for _ in range(calls):
                    self.module(*self.arguments)

        try:
            times = kernel_times(run, torch.cuda.synchronize)
        except ProfilerMissing as error:
            return {"kernels": [], "missing": str(error)}
        ranked = sorted(times.items(), key=lambda item: -item[1][0])[:64]
        return {"kernels": [[name[:300], total / calls, count / calls] for name, (total, count) in ranked]}

    def _stage(self, stage: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:
            raise StageFailed(stage, error) from error

    def _deliver(self, result: Any) -> tuple[Any, list[TensorSpec]]:
        assert self.outputs is not None
        skeleton, tensors = flatten(result)
        specs, end = lay_out(tensors)
        if end > self.outputs.capacity:
            raise ValueError(f"the outputs take {end} bytes; the reference's take far less")
        for tensor, spec in zip(tensors, specs):
            target = spec.view(self.outputs.base)
            if self.device == "cpu" and tensor.device.type == "cpu" and tensor.stride() == spec.stride:
                ctypes.memmove(
                    target.data_ptr(), tensor.data_ptr(), spec.extent
                )  # no library operator of torch's in the timed path
            else:
                target.copy_(tensor)
        if self.device != "cpu":
            torch.cuda.synchronize()
        return skeleton, specs

    def _aliases(self, result: Any) -> bool:
        """Whether an output lies in the memory of the inputs."""
        assert self.inputs is not None
        start = self.inputs.base.data_ptr()
        end = start + self.inputs.capacity
        try:
            return any(start <= tensor.data_ptr() < end for tensor in flatten(result)[1] if tensor.numel())
        except Exception:
            return False


class Clock:
    """Times one call as this process sees it: precise, and forgeable by whoever shares the process."""

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    def elapsed(self) -> int:
        """Nanoseconds between start and stop."""
        raise NotImplementedError


class HostClock(Clock):
    def start(self) -> None:
        self.begun = time.perf_counter_ns()

    def stop(self) -> None:
        self.ended = time.perf_counter_ns()

    def elapsed(self) -> int:
        return self.ended - self.begun


class EventClock(Clock):
    def __init__(self) -> None:
        self.begun = torch.cuda.Event(enable_timing=True)
        self.ended = torch.cuda.Event(enable_timing=True)

    def start(self) -> None:
        self.begun.record()

    def stop(self) -> None:
        self.ended.record()

    def elapsed(self) -> int:
        return int(self.begun.elapsed_time(self.ended) * 1e6)


def import_source(source: str, name: str) -> ModuleType:
    """Import source text from a real file, so that inspect, Triton and torch.compile can read it."""
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), "work")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    linecache.checkcache(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_state(module: torch.nn.Module, state: bytes) -> str:
    """Load the reference's state; when the names or shapes differ, leave the module as it was built and say how they differ."""
    wanted = torch.load(io.BytesIO(state), weights_only=True)
    own = module.state_dict()
    if {name: tuple(value.shape) for name, value in own.items()} != {
        name: tuple(value.shape) for name, value in wanted.items()
    }:
        missing = sorted(set(wanted) - set(own))
        extra = sorted(set(own) - set(wanted))
        shapes = sorted(name for name in set(own) & set(wanted) if own[name].shape != wanted[name].shape)
        parts = [("lacks", missing), ("adds", extra), ("has other shapes for", shapes)]
        return "; ".join(f"{word} {', '.join(names[:5])}" for word, names in parts if names)
    module.load_state_dict(wanted, strict=True)
    return ""


def set_precision(precision: str) -> None:
    """fp32 stays fp32 unless the user asked for less; the same flags for both sides."""
    lower = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = lower
    torch.backends.cudnn.allow_tf32 = lower
    torch.set_float32_matmul_precision("high" if lower else "highest")


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    dtypes = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return torch.autocast("cpu" if device == "cpu" else "cuda", dtypes[precision]) if precision in dtypes else nullcontext()


_COMPILE_ERRORS = (
    "CompileError",
    "CompilationError",
    "SyntaxError",
    "IndentationError",
    "TabError",
    "PTXASError",
    "NvrtcError",
)


def describe(stage: str, error: BaseException, source_path: str) -> dict[str, Any]:
    """An exception as bounded plain data, whatever its own methods do."""
    kind = type(error).__name__
    try:
        text = str(error)[:TEXT_LIMIT]
    except BaseException:
        text = "(the exception could not be printed)"
    where: list[str] = []
    try:
        for frame in traceback.extract_tb(error.__traceback__):
            if (source_path and frame.filename == source_path) or frame.filename.endswith(("candidate.py", "task.py")):
                where.append(f"line {frame.lineno}, in {frame.name}: {(frame.line or '').strip()[:160]}")
    except BaseException:
        where = []
    compiling = kind in _COMPILE_ERRORS or "Error building extension" in text or "nvcc" in text[:200]
    return {"stage": stage, "type": kind[:80], "text": text, "where": where[-6:], "compiling": compiling}
