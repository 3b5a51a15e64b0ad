"""Bringing a module to life in a process: import its source, load its state, set the precision it may use."""

from __future__ import annotations

import importlib.util
import io
import linecache
import os
import pickle
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import torch

from bottega.core.arguments import Arguments
from bottega.judge.invalid_task import InvalidTask

TASK_MODULE = "task"
"""The name under which a task's own source is imported."""


def import_source(source: str, name: str, folder: str = "") -> ModuleType:
    """Import source text from a real file, so that inspect, Triton and torch.compile can read it. The text itself is compiled: Python's own
    cache knows a file by its size and the second of its writing, and would give one text the code of another. A sandbox has a /tmp of its own;
    outside of one, name a folder that no other process uses."""
    folder = folder or os.path.join(os.environ.get("TMPDIR", "/tmp"), "work")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    linecache.checkcache(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(source.encode(), path, "exec", dont_inherit=True), module.__dict__)
    return module


def read_initial(data: bytes, module: ModuleType) -> Arguments:
    """The pickled arguments of a constructor. What the task's own file defines, a configuration class say, is looked up in `module`: a
    candidate's arguments are then of the candidate's own classes."""
    reader = _InitialReader(io.BytesIO(data))
    reader.module = module
    return cast(Arguments, reader.load())


class _InitialReader(pickle.Unpickler):
    module: ModuleType

    def find_class(self, module_name: str, name: str) -> Any:
        if module_name != TASK_MODULE:
            return super().find_class(module_name, name)
        try:
            return reduce(getattr, name.split("."), self.module)
        except AttributeError:
            raise NameError(f"the file defines no {name}, which get_init_inputs() gives to the constructor") from None


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A copy of a task's parameters and buffers, or `InvalidTask` where there is more to a model than these."""
    state: dict[str, torch.Tensor] = {}
    for name, value in module.state_dict().items():
        if torch.nn.parameter.is_lazy(value):
            raise InvalidTask(f"{name} has no shape before the first call; build Model with layers whose sizes are given")
        if not isinstance(value, torch.Tensor):
            raise InvalidTask(f"the state of Model holds more than tensors: {name} is a {type(value).__name__}")
        state[name] = value.detach().clone()
    return state


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """What they hold; of a sparse one its values, and as much again for their places."""
    return sum(each.nbytes if each.layout is torch.strided else 2 * each.values().nbytes for each in map(_settled, tensors))


def _settled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.coalesce() if tensor.layout is torch.sparse_coo else tensor


def load_state(module: torch.nn.Module, state: bytes, by_order: bool) -> str:
    """Load the reference's state by name; what the module has beside it stays as it was built. Where names are missing and the shapes are
    the same one after the other, it is loaded `by_order`, if that is wanted. Else the module is left as it was built; returns how they differ."""
    wanted = torch.load(io.BytesIO(state), weights_only=True)
    own = {name: value for name, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
    missing = sorted(set(wanted) - set(own))
    shapes = sorted(name for name in set(own) & set(wanted) if own[name].shape != wanted[name].shape)
    if not missing and not shapes:
        module.load_state_dict(wanted, strict=False)
        return ""
    if by_order and [value.shape for value in own.values()] == [value.shape for value in wanted.values()]:
        module.load_state_dict(dict(zip(own, wanted.values())), strict=False)
        return ""
    parts = [("lacks", missing), ("adds", sorted(set(own) - set(wanted))), ("has other shapes for", shapes)]
    return "; ".join(f"{word} {', '.join(names[:5])}" for word, names in parts if names)


def set_precision(precision: str) -> None:
    """fp32 stays fp32 unless the user asked for less; the same flags for both runners."""
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
