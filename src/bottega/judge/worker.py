"""The process that runs a module on command: the candidate's, and in the same way each baseline's.

Candidate code shares this process and may rewrite anything in it. Nothing said here is believed: the referee reads
the outputs from its own memory, keeps its own clock, and takes the reports below only as hints for the diagnosis.
Both sides of a comparison run this same file, so that what it costs cancels out.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import secrets
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from bottega.core.arguments import read_arguments
from bottega.judge.arena import Arena
from bottega.judge.build_cache import pack, unpack
from bottega.judge.compiling import Compiling
from bottega.judge.cupti import ProfilerMissing, kernel_times
from bottega.judge.device import THREADS_BESIDE_A_GPU, wake
from bottega.judge.early_read import EarlyLook
from bottega.judge.failure import describe
from bottega.judge.heap import steady_heap
from bottega.judge.layout import TensorSpec, flatten, lay_out, must_have_plain_memory, unflatten
from bottega.judge.loading import autocast, import_source, keep_compiled, load_state, read_initial, set_precision
from bottega.judge.stopwatch import EventStopwatch, HostStopwatch, Stopwatch
from bottega.judge.widening import NUMBERS
from bottega.sandbox.wire import SPINS, Channel, Departed, read_payload, word

VECTORISED = (
    *(
        "exp",
        "expm1",
        "exp2",
        "log",
        "log1p",
        "log2",
        "log10",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
    ),
    *("sqrt", "rsqrt", "erf", "erfc", "erfinv", "sigmoid", "lgamma", "trunc", "ceil", "floor", "round", "abs", "reciprocal"),
)
LOOK_ONE_IN = 4
"""A look takes a few microseconds of the device, which hostile code could save; a module that leaves work behind does so often."""
SMALLEST_RESERVE, LARGEST_RESERVE = 64 << 20, 512 << 20


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the referee until it closes the channel."""
    device = str(arguments["device"])
    torch.set_num_threads((os.cpu_count() or 1) if device == "cpu" else THREADS_BESIDE_A_GPU)
    warm_libraries()
    player = Player(Channel.from_descriptor(descriptors[0], spins=0 if device == "cpu" else SPINS), device)
    try:
        player.serve()
    except Departed:
        return


def warm_libraries() -> None:
    """Call the vectorised functions once, alone. MKL sets itself up on the first call, and when several threads make that call
    at the same time, one of them may get values of a lower accuracy."""
    for dtype in (torch.float32, torch.float64):
        ones = torch.ones(4, dtype=dtype)
        for name in VECTORISED:
            getattr(torch, name)(ones / 2)
        torch.mm(ones.view(2, 2), ones.view(2, 2))


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
        self.keywords: dict[str, Any] = {}
        self.inputs: Arena | None = None
        self.outputs: Arena | None = None
        self.word: Arena | None = None
        self.steady = False
        self.compiling = Compiling(channel.send, channel.receive)
        self.autocast: AbstractContextManager[Any] = nullcontext()
        self.kept: list[tuple[Any, list[torch.Tensor]]] = []
        """What an earlier call returned and is to be held."""
        self.last: Any = None
        """What the last call returned, until the next one: a caller has it meanwhile."""

    def serve(self) -> None:
        handlers = {
            "wake": self.wake,
            "load": self.load,
            "state": self.state,
            "arenas": self.arenas,
            "prepare": self.prepare,
            "survey": self.survey,
            "restore": self.restore,
            "harvest": self.harvest,
            "profile": self.profile,
            "again": self.again,
            "trim": self.trim,
        }
        self.channel.send({"up": True})
        while True:
            message = self.channel.receive()
            if "go" in message:
                if "specs" in message:
                    self.prepare(message)
                self.play(message["go"])
                continue
            try:
                reply = handlers[message["do"]](message)
            except StageFailed as failure:
                reply = {"failure": describe(failure.stage, failure.cause, self.source_path)}
            except BaseException as error:
                reply = {"failure": describe(str(message.get("do")), error, self.source_path)}
            self.channel.send(reply)

    def wake(self, message: dict[str, Any]) -> dict[str, Any]:
        """Make the device's context: apart from everything else, before the clock of any stage runs."""
        wake(self.device)
        if self.device != "cpu":
            self.compiling.watch_triton()
        return {"ready": True}

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
        initial = self._stage("construct", read_initial, payload["initial"], module)
        built = self._stage("construct", lambda: factory(*initial.positional, **initial.keywords))
        if not isinstance(built, torch.nn.Module):
            raise StageFailed("construct", TypeError(f"{payload['class_name']} is not a torch.nn.Module"))
        mismatch = self._stage("state", load_state, built, payload["state"], payload["by_order"])
        if payload["training"] is not None:
            built.train(payload["training"])
        self.module = self._stage("construct", lambda: built.to(self.device))
        if payload["compile"]:
            self._stage("compile", self._compile, payload["compile"], module.get_inputs)
        return {"loaded": True, "mismatch": mismatch}

    def _compile(self, mode: str, get_inputs: Any) -> None:
        """Compile a baseline now, by a first call on inputs of the task's own that lie as they will: nothing is left for the calls that count."""
        keep_compiled()
        self.module = torch.compile(self.module, mode=mode)
        with torch.device(self.device):
            drawn = get_inputs()
        skeleton, tensors = flatten(tuple(read_arguments(drawn, self.module.forward)))
        specs, end = lay_out(tensors)
        memory = torch.empty(max(end, 1), dtype=torch.uint8, device=self.device)
        for spec, tensor in zip(specs, tensors):
            spec.view(memory).copy_(tensor)
        with torch.no_grad(), self.autocast:
            positional, keywords = unflatten(skeleton, [spec.view(memory) for spec in specs])
            self.module(*positional, **keywords)
        self._finish()
        if self.device != "cpu":
            del memory, drawn, tensors, tensor, positional, keywords
            torch.cuda.empty_cache()  # also what the tuning took

    def state(self, message: dict[str, Any]) -> dict[str, Any]:
        state = torch.load(io.BytesIO(read_payload(self.channel.claim_descriptors(1)[0])), weights_only=True)
        getattr(self.module, "_orig_mod", self.module).load_state_dict(state, strict=True)
        return {"loaded": True}

    def arenas(self, message: dict[str, Any]) -> dict[str, Any]:
        inputs, outputs, *third = self.channel.claim_descriptors(3 if "word" in message else 2)
        self.arguments, self.keywords = (), {}
        for arena in (self.inputs, self.outputs, self.word):
            if arena is not None:
                arena.close()
        self.inputs = Arena.attach(self.device, message["inputs"], inputs)
        self.outputs = Arena.attach(self.device, message["outputs"], outputs)
        self.word = Arena.attach(self.device, message["word"], third[0]) if third else None
        if self.device == "cpu" and not self.steady:
            steady_heap(min(LARGEST_RESERVE, max(SMALLEST_RESERVE, 16 * (message["inputs"] + message["outputs"]))))
            self.steady = True
        return {"attached": True}

    def prepare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Make the views through which the next call will see its inputs."""
        assert self.inputs is not None
        tensors = [TensorSpec.from_json(spec).view(self.inputs.base) for spec in message["specs"]]
        self.arguments, self.keywords = unflatten(message["skeleton"], tensors)
        return {"prepared": True}

    def restore(self, message: dict[str, Any]) -> dict[str, Any]:
        """Put back what the extension builder made for this very source before."""
        unpack(read_payload(self.channel.claim_descriptors(1)[0]), os.environ["TORCH_EXTENSIONS_DIR"])
        return {"restored": True}

    def harvest(self, message: dict[str, Any]) -> dict[str, Any]:
        """Hand over what the extension builder made."""
        (descriptor,) = self.channel.claim_descriptors(1)
        data = pack(os.environ["TORCH_EXTENSIONS_DIR"])
        with mmap.mmap(descriptor, message["room"], mmap.MAP_SHARED) as memory:
            memory[: len(data)] = data
        os.close(descriptor)
        return {"bytes": len(data)}

    def survey(self, message: dict[str, Any]) -> dict[str, Any]:
        """Run once without delivering anything: how much room the outputs need."""
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if self.device != "cpu" else 0
        with torch.no_grad(), self.autocast:
            tensors = self._stage("forward", lambda: flatten(self.module(*self.arguments, **self.keywords), NUMBERS)[1])
        room = lay_out(tensors)[1]
        taken = torch.cuda.max_memory_allocated() - before if self.device != "cpu" else room
        return {"bytes": room, "tensors": len(tensors), "workspace": max(0, taken - room)}

    def play(self, nonce: int) -> None:
        """One call: run, say when it is over, learn where the outputs go, copy them there, say so; then describe them at leisure.

        It is over when the device has done its part: what is said before that is answered by spoiled inputs. A device says it itself,
        in the order of the stream, and the player once more when it has waited for all streams.
        """
        clock: Stopwatch = EventStopwatch() if self.device != "cpu" else HostStopwatch()
        self.last = None
        try:
            with torch.no_grad(), self.autocast:
                self.compiling.begin(nonce)
                clock.start()
                result = self.module(*self.arguments, **self.keywords)
                clock.stop()
                self.compiling.end()
                early = EarlyLook(self._on_device(result) if secrets.randbelow(LOOK_ONE_IN) == 0 else [])
                self._write_word("returned", nonce)
            self._finish()
            parts = _parts(result)
            where = [[tensor.data_ptr(), list(tensor.stride())] for tensor in parts[1]] if self.device == "cpu" else []
        except BaseException as error:
            self.compiling.end()
            self.channel.send({"returned": nonce, "failure": describe("forward", error, self.source_path)})
            return
        self.channel.send({"returned": nonce, "where": where})
        told = self.channel.receive()
        try:
            report = self._deliver(parts, told["deliver"], told["strides"], nonce)
            report |= {"done": nonce, "ns": clock.elapsed(), "worked": clock.worked(), "aliases": self._aliases(result)}
            report["unjoined"] = not report["aliases"] and early.changed()  # an alias of the inputs was spoiled with them
        except BaseException as error:
            self.channel.send({"done": nonce, "ns": 0, "failure": describe("forward", error, self.source_path)})
            return
        self.kept = [parts] if told["keep"] else self.kept
        self.last = parts if self.device == "cpu" else None
        self.channel.send(report)  # the last word of a turn: what follows is done in nobody's time, and the side is stopped

    def again(self, message: dict[str, Any]) -> dict[str, Any]:
        """Hand over once more what an earlier call returned."""
        return self._deliver(self.kept.pop(), message["shift"], message["strides"], None)

    def trim(self, message: dict[str, Any]) -> dict[str, Any]:
        """Let go of whatever is held for the next call: memory that somebody else needs meanwhile."""
        self.arguments, self.keywords, self.kept, self.last = (), {}, [], None
        if self.device == "cpu":
            return {"peak": 0}
        peak = torch.cuda.max_memory_reserved()
        torch.cuda.empty_cache()
        return {"peak": peak}

    def profile(self, message: dict[str, Any]) -> dict[str, Any]:
        """Device time by kernel name over a few calls, and the library operators that were dispatched."""
        calls = int(message["calls"])

        def run() -> None:
            with torch.no_grad(), self.autocast:
                for _ in range(calls):
                    self.module(*self.arguments, **self.keywords)

        try:
            times = kernel_times(run, torch.cuda.synchronize, calls)
        except ProfilerMissing as error:
            return {"kernels": [], "missing": str(error)}
        ranked = sorted(times.items(), key=lambda item: -item[1][0])[:64]
        return {"kernels": [[name[:300], total / calls, count / calls] for name, (total, count) in ranked]}

    def _stage(self, stage: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:
            raise StageFailed(stage, error) from error

    def _deliver(
        self, parts: tuple[Any, list[torch.Tensor]], shift: int, strides: list[list[int]], nonce: int | None
    ) -> dict[str, Any]:
        """Copy the outputs to where they belong, in the reference's layout, and describe them."""
        assert self.outputs is not None
        skeleton, tensors = parts
        specs, end = lay_out(tensors, shift, strides)
        fits = end <= self.outputs.capacity  # else it is more than the reference returns: the shapes or data types tell
        addresses = []
        for tensor, spec in zip(tensors, specs) if fits else ():
            target = spec.view(self.outputs.base)
            straight = tensor.device.type == "cpu" and tensor.stride() == spec.stride
            addresses.append(tensor.data_ptr() if self.device == "cpu" and straight else 0)
            if addresses[-1]:  # no library operator of torch's in the timed path
                ctypes.memmove(target.data_ptr(), tensor.data_ptr(), spec.extent)
            else:
                target.copy_(tensor)
        if nonce is not None:
            self._write_word("done", nonce)
        self._finish()
        own = [list(tensor.stride()) for tensor in tensors]
        return {"outputs": skeleton, "specs": [spec.to_json() for spec in specs], "own": own, "addresses": addresses}

    def _finish(self) -> None:
        """Wait for all streams of the device, whichever the module used."""
        if self.device != "cpu":
            torch.cuda.synchronize()

    def _write_word(self, what: str, nonce: int) -> None:
        """Have the device say it, when it has come to this point of the stream."""
        if self.word is not None:
            self.word.base[:8].view(torch.int64).fill_(word(what, nonce))

    def _on_device(self, result: Any) -> list[torch.Tensor]:
        """Outputs whose work may still be under way when the call returns: none on a CPU."""
        return [] if self.device == "cpu" else [tensor for tensor in flatten(result)[1] if tensor.is_cuda]

    def _aliases(self, result: Any) -> bool:
        """Whether an output lies in the memory of the inputs."""
        assert self.inputs is not None
        start = self.inputs.base.data_ptr()
        end = start + self.inputs.capacity
        try:
            return any(start <= tensor.data_ptr() < end for tensor in flatten(result)[1] if tensor.numel())
        except Exception:
            return False


def _parts(result: Any) -> tuple[Any, list[torch.Tensor]]:
    """The outputs with nothing left to be done to them, and what they are parts of."""
    skeleton, tensors = flatten(result, NUMBERS)
    resolved = [each.resolve_conj().resolve_neg() if each.is_conj() or each.is_neg() else each for each in tensors]
    for each in resolved:
        must_have_plain_memory(each)
    return skeleton, resolved
