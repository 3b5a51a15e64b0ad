"""Bringing a module to life in a process: import its source, load its state, set the precision it may use."""

from __future__ import annotations

import importlib.util
import io
import linecache
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any

import torch


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


def keep_compiled() -> None:
    """Have torch.compile find again what it made, whatever the environment said when torch was imported: the folder is the task's own."""
    inductor, functorch = import_module("torch._inductor.config"), import_module("torch._functorch.config")
    for config, name, value in (
        (inductor, "fx_graph_cache", True),  # generated code, by the graph
        (inductor, "autotune_local_cache", True),  # which configuration of a kernel was fastest
        (functorch, "enable_autograd_cache", True),  # the graph, by what was traced
        # Headers go into the private /tmp of each process: made anew every time, and with them what includes them.
        (inductor, "cpp_cache_precompile_headers", False),
        # A pool of processes is sized for the whole machine: sixteen sandboxes with one each run into every limit.
        (inductor, "compile_threads", int(os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", "1"))),
    ):
        if hasattr(config, name):
            setattr(config, name, value)
