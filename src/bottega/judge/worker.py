"""The worker process: runs a module on request, the candidate's or a baseline's.

Candidate code shares this process and may rewrite anything in it. Nothing reported here is trusted: the controller reads the outputs from its
own memory, keeps its own clock, and takes the reports below only as hints for the diagnosis. Candidate and baseline run this same file, so
that its overhead cancels out.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import time
from typing import Any

import torch

from bottega.judge import hardware_counters
from bottega.judge.arena import Arena
from bottega.judge.barrier import flag_value
from bottega.judge.call_timer import CallTimer, DeviceTimer, HostTimer
from bottega.judge.cupti import ProfilerMissing, kernel_rows, launch_rows
from bottega.judge.device import THREADS_BESIDE_A_GPU
from bottega.judge.dtypes import NUMBERS
from bottega.judge.early_read import EarlyRead
from bottega.judge.failure import describe
from bottega.judge.heap import reserve_for, steady_heap
from bottega.judge.library_operators import operator_rows
from bottega.judge.machine_code import vector_instructions
from bottega.judge.math_libraries import warm_libraries
from bottega.judge.module_host import ModuleHost, StageFailed
from bottega.judge.output_overlap import TensorPlace, any_overlap
from bottega.judge.tensor_transport import TensorSpec, flatten, lay_out, must_have_plain_memory, unflatten
from bottega.sandbox.channel import SPINS, Channel, ChannelClosed
from bottega.sandbox.core_places import FirstCore

READ_ONE_IN = 4
"""An early read takes a few microseconds of the device, which hostile code could save; a module that leaves work behind does so often."""


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the controller until it closes the channel."""
    device = str(arguments["device"])
    torch.set_num_threads((os.cpu_count() or 1) if device == "cpu" else THREADS_BESIDE_A_GPU)
    warm_libraries()
    worker = Worker(Channel.from_descriptor(descriptors[0], spins=0 if device == "cpu" else SPINS), device)
    try:
        worker.serve()
    except ChannelClosed:
        return


class Worker(ModuleHost):
    def __init__(self, channel: Channel, device: str):
        super().__init__(channel, device)
        self.arguments: tuple[Any, ...] = ()
        self.keywords: dict[str, Any] = {}
        self.inputs: Arena | None = None
        self.outputs: Arena | None = None
        self.flag: Arena | None = None
        self.steady = False
        self.core = FirstCore()
        self.retained: list[tuple[Any, list[torch.Tensor]]] = []
        """Outputs of an earlier call that the controller asked to keep."""
        self.last: Any = None
        """Outputs of the last call, until the next one: a caller would have them meanwhile."""

    def serve(self) -> None:
        handlers = {
            "initialise": self.initialise,
            "load": self.load,
            "state": self.state,
            "arenas": self.arenas,
            "prepare": self.prepare,
            "survey": self.survey,
            "restore": self.restore,
            "harvest": self.harvest,
            "profile": self.profile,
            "operations": self.operations,
            "operators": self.operators,
            "again": self.again,
            "trim": self.trim,
        }
        self.channel.send({"up": True})
        while True:
            message = self.channel.receive()
            if "go" in message:
                if "specs" in message:
                    self.prepare(message)
                self.run_call(message["go"])
                continue
            try:
                reply = handlers[message["do"]](message)
            except StageFailed as failure:
                reply = {"failure": describe(failure.stage, failure.cause, failure.path)}
            except BaseException as error:
                reply = {"failure": describe(str(message.get("do")), error, self.source_path)}
            self.channel.send(reply)

    def arenas(self, message: dict[str, Any]) -> dict[str, Any]:
        inputs, outputs, *third = self.channel.claim_descriptors(3 if "flag" in message else 2)
        self.arguments, self.keywords = (), {}
        for arena in (self.inputs, self.outputs, self.flag):
            if arena is not None:
                arena.close()
        self.inputs = Arena.attach(self.device, message["inputs"], inputs)
        self.outputs = Arena.attach(self.device, message["outputs"], outputs)
        self.flag = Arena.attach(self.device, message["flag"], third[0]) if third else None
        if self.device == "cpu" and not self.steady:
            steady_heap(reserve_for(message["inputs"] + message["outputs"]))
            self.steady = True
        return {"attached": True}

    def prepare(self, message: dict[str, Any]) -> dict[str, Any]:
        """Make the views through which the next call will see its inputs."""
        assert self.inputs is not None
        tensors = [TensorSpec.from_json(spec).view(self.inputs.base) for spec in message["specs"]]
        self.arguments, self.keywords = unflatten(message["skeleton"], tensors)
        return {"prepared": True}

    def survey(self, message: dict[str, Any]) -> dict[str, Any]:
        """Run once without delivering outputs. Returns how much memory they need."""
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if self.device != "cpu" else 0
        with torch.no_grad(), self.autocast:
            tensors = self._stage("forward", lambda: flatten(self.module(*self.arguments, **self.keywords), NUMBERS)[1])
        room = lay_out(tensors)[1]
        taken = torch.cuda.max_memory_allocated() - before if self.device != "cpu" else room
        return {"bytes": room, "tensors": len(tensors), "workspace": max(0, taken - room)}

    def run_call(self, nonce: int) -> None:
        """One call: run the module, report its return, receive the outputs' place, copy them there, report that; then describe them.

        The call has returned when the device has done its work; an earlier report meets poisoned inputs. The device itself writes a flag, in
        stream order, and the worker sends a message when it has waited for all streams.
        """
        begun = self.channel.received_ns
        clock: CallTimer = DeviceTimer() if self.device != "cpu" else HostTimer()
        self.last = None
        try:
            with torch.no_grad(), self.autocast:
                self.compiling.begin(nonce)
                if self.device == "cpu":
                    self.core.take()
                clock.start()
                result = self.module(*self.arguments, **self.keywords)
                clock.stop()
                self.compiling.end()
                early = EarlyRead(self._on_device(result))
                self._write_flag("returned", nonce)
            self._synchronize()
            parts = _parts(result)
            where = [[tensor.data_ptr(), list(tensor.stride())] for tensor in parts[1]] if self.device == "cpu" else []
        except BaseException as error:
            self.compiling.end()
            self.channel.send({"returned": nonce, "failure": describe("forward", error, self.source_path)})
            return
        self.channel.send({"returned": nonce, "where": where})
        avoidable = clock.outside(begun, time.perf_counter_ns())
        told = self.channel.receive()
        try:
            early.read_again()
            report = self._deliver(parts, told["deliver"], told["strides"], nonce)
            report |= {"done": nonce, "ns": clock.elapsed(), "worked": clock.worked(), "aliases": self._aliases(result)}
            report |= {"avoidable": avoidable, "enqueued": clock.enqueued()}
            if self.device != "cpu":
                report["overlaps"] = _share_memory(parts[1])  # on a CPU the controller knows their places
            report["unjoined"] = not report["aliases"] and early.changed()  # an alias of the inputs was poisoned with them
        except BaseException as error:
            self.channel.send({"done": nonce, "ns": 0, "failure": describe("forward", error, self.source_path)})
            return
        self.retained = [parts] if told["keep"] else self.retained
        self.last = parts if self.device == "cpu" else None
        self.channel.send(report)  # the last message of a call: the worker is frozen after it

    def again(self, message: dict[str, Any]) -> dict[str, Any]:
        """Deliver the retained outputs of an earlier call again."""
        return self._deliver(self.retained.pop(), message["shift"], message["strides"], None)

    def trim(self, message: dict[str, Any]) -> dict[str, Any]:
        """Release memory that is held for the next call. Returns the peak."""
        self.arguments, self.keywords, self.retained, self.last = (), {}, [], None
        if self.device == "cpu":
            return {"peak": 0}
        peak = torch.cuda.max_memory_reserved()
        torch.cuda.empty_cache()
        return {"peak": peak}

    def profile(self, message: dict[str, Any]) -> dict[str, Any]:
        """Device time by kernel name over a few calls, with `launches` each kernel's shape too, with `counters` hardware counters in their place; on
        a CPU what the own machine code is made of."""
        if self.device == "cpu":
            return {"instructions": vector_instructions()}
        calls = int(message["calls"])

        def run() -> None:
            with torch.no_grad(), self.autocast:
                for _ in range(calls):
                    self.module(*self.arguments, **self.keywords)

        try:
            if message.get("launches"):
                rows, gaps = launch_rows(run, torch.cuda.synchronize, calls)
                return {"launches": rows, "gaps_us": gaps}
            if message.get("counters"):
                return {"counters": hardware_counters.counted(run, torch.cuda.synchronize, torch.cuda.current_device())}
            return {"kernels": kernel_rows(run, torch.cuda.synchronize, calls)}
        except ProfilerMissing as error:
            return {"kernels": [], "missing": str(error)}

    def operations(self, message: dict[str, Any]) -> dict[str, Any]:
        """Floating-point operations of one call, as torch counts them: products, convolutions, attention."""
        from torch.utils.flop_counter import FlopCounterMode

        with torch.no_grad(), self.autocast, FlopCounterMode(display=False) as counter:
            self.module(*self.arguments, **self.keywords)
        return {"operations": int(counter.get_total_flops())}

    def operators(self, message: dict[str, Any]) -> dict[str, Any]:
        """The operators of torch's that a call uses, on a CPU."""
        with torch.no_grad(), self.autocast:
            return {"operators": operator_rows(lambda: self.module(*self.arguments, **self.keywords))}

    def _deliver(
        self, parts: tuple[Any, list[torch.Tensor]], shift: int, strides: list[list[int]], nonce: int | None
    ) -> dict[str, Any]:
        """Copy the outputs to their place in the controller's memory, in the reference's layout, and describe them."""
        assert self.outputs is not None
        skeleton, tensors = parts
        specs, end = lay_out(tensors, shift, strides)
        fits = (
            end <= self.outputs.capacity
        )  # else it is more than the reference returns: the check of shapes and data types reports it
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
            self._write_flag("done", nonce)
        self._synchronize()
        own = [list(tensor.stride()) for tensor in tensors]
        return {"outputs": skeleton, "specs": [spec.to_json() for spec in specs], "own": own, "addresses": addresses}

    def _write_flag(self, event: str, nonce: int) -> None:
        """Have the device write the flag when it reaches this point of the stream."""
        if self.flag is not None:
            self.flag.base[:8].view(torch.int64).fill_(flag_value(event, nonce))

    def _on_device(self, result: Any) -> list[torch.Tensor]:
        """Now and then, outputs whose work may still be under way when the call returns: none on a CPU."""
        if self.device == "cpu" or secrets.randbelow(READ_ONE_IN):
            return []
        return [tensor for tensor in flatten(result)[1] if tensor.is_cuda]

    def _aliases(self, result: Any) -> list[int]:
        """Which outputs lie in the memory of the inputs."""
        assert self.inputs is not None
        start = self.inputs.base.data_ptr()
        end = start + self.inputs.capacity
        try:
            tensors = enumerate(flatten(result, NUMBERS)[1])
            return [number for number, tensor in tensors if tensor.numel() and start <= tensor.data_ptr() < end]
        except Exception:
            return []


def _share_memory(tensors: list[torch.Tensor]) -> bool:
    return any_overlap([TensorPlace(t.data_ptr(), tuple(t.shape), tuple(t.stride()), t.dtype.itemsize) for t in tensors])


def _parts(result: Any) -> tuple[Any, list[torch.Tensor]]:
    """The skeleton of the result, and its tensors with conjugation and negation resolved."""
    skeleton, tensors = flatten(result, NUMBERS)
    resolved = [each.resolve_conj().resolve_neg() if each.is_conj() or each.is_neg() else each for each in tensors]
    for each in resolved:
        must_have_plain_memory(each)
    return skeleton, resolved
