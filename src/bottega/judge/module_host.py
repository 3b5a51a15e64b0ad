"""The part of a worker that builds a module: import its source, load its state, compile it, exchange build caches."""

from __future__ import annotations

import io
import mmap
import os
import pickle
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from bottega.core.arguments import read_arguments
from bottega.judge.build_cache import pack, unpack
from bottega.judge.compile_notice import CompileNotice
from bottega.judge.device import initialise_device
from bottega.judge.loading import autocast, import_source, keep_compiled, load_state, read_initial, set_precision
from bottega.judge.tensor_transport import flatten, lay_out, unflatten
from bottega.sandbox.channel import Channel, read_payload


class StageFailed(Exception):
    """The module failed in a stage that has a name; the original exception is the cause."""

    def __init__(self, stage: str, cause: BaseException, path: str = ""):
        super().__init__(stage)
        self.stage = stage
        self.cause = cause
        self.path = path
        """The file of the module, where it got that far."""


@dataclass(frozen=True)
class BuiltModule:
    module: torch.nn.Module
    mismatch: str
    """How its parameters differ from the given state, which then was not loaded; empty where it was."""
    file: ModuleType


def build_module(payload: dict[str, Any], device: str) -> BuiltModule:
    """Import the source, build the class with the given seed, load the state if its names fit. Raises `StageFailed`."""
    file = run_stage("import", "", import_source, payload["source"], payload["name"])
    path = file.__file__ or ""
    factory = getattr(file, payload["class_name"], None)
    if factory is None:
        raise StageFailed("import", NameError(f"the file defines no {payload['class_name']}"), path)
    torch.manual_seed(payload["seed"])
    initial = run_stage("construct", path, read_initial, payload["initial"], file)
    built = run_stage("construct", path, lambda: factory(*initial.positional, **initial.keywords))
    if not isinstance(built, torch.nn.Module):
        raise StageFailed("construct", TypeError(f"{payload['class_name']} is not a torch.nn.Module"), path)
    mismatch = run_stage("state", path, load_state, built, payload["state"], payload["by_order"])
    if payload["training"] is not None:
        built.train(payload["training"])
    return BuiltModule(run_stage("construct", path, lambda: built.to(device)), mismatch, file)


def run_stage(stage: str, path: str, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except BaseException as error:
        raise StageFailed(stage, error, path) from error


class ModuleHost:
    def __init__(self, channel: Channel, device: str):
        self.channel = channel
        self.device = device
        self.module: Any = None
        self.source_path = ""
        self.compiling = CompileNotice(channel.send, channel.receive)
        self.autocast: AbstractContextManager[Any] = nullcontext()

    def initialise(self, message: dict[str, Any]) -> dict[str, Any]:
        """Create the device's context, before the time of any stage is counted."""
        initialise_device(self.device)
        if self.device != "cpu":
            self.compiling.watch()
        return {"ready": True}

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        payload = pickle.loads(read_payload(self.channel.claim_descriptors(1)[0]))
        set_precision(payload["precision"])
        self.autocast = autocast(self.device, payload["precision"]) if payload["autocast"] else nullcontext()
        built = build_module(payload, self.device)
        self.module, self.source_path = built.module, built.file.__file__ or ""
        if payload["compile"]:
            self._stage("compile", self._compile, payload["compile"], built.file.get_inputs)
        return {"loaded": True, "mismatch": built.mismatch}

    def _compile(self, mode: str, get_inputs: Any) -> None:
        """Compile a baseline now, by a first call on the task's own inputs in their final layout, so that no timed call compiles."""
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
        self._synchronize()
        if self.device != "cpu":
            del memory, drawn, tensors, tensor, positional, keywords
            torch.cuda.empty_cache()  # also what autotuning took

    def state(self, message: dict[str, Any]) -> dict[str, Any]:
        state = torch.load(io.BytesIO(read_payload(self.channel.claim_descriptors(1)[0])), weights_only=True)
        getattr(self.module, "_orig_mod", self.module).load_state_dict(state, strict=True)
        return {"loaded": True}

    def restore(self, message: dict[str, Any]) -> dict[str, Any]:
        """Unpack what torch's extension builder made for the same source before."""
        unpack(read_payload(self.channel.claim_descriptors(1)[0]), os.environ["TORCH_EXTENSIONS_DIR"])
        return {"restored": True}

    def harvest(self, message: dict[str, Any]) -> dict[str, Any]:
        """Pack what torch's extension builder made into shared memory."""
        (descriptor,) = self.channel.claim_descriptors(1)
        data = pack(os.environ["TORCH_EXTENSIONS_DIR"])
        with mmap.mmap(descriptor, message["capacity"], mmap.MAP_SHARED) as memory:
            memory[: len(data)] = data
        os.close(descriptor)
        return {"bytes": len(data)}

    def _stage(self, stage: str, function: Any, *arguments: Any) -> Any:
        return run_stage(stage, self.source_path, function, *arguments)

    def _synchronize(self) -> None:
        """Wait for all streams of the device, whichever the module used."""
        if self.device != "cpu":
            torch.cuda.synchronize()
