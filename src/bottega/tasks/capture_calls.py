"""Records which modules of a running program are called, with which arguments and for how long, by torch's own global forward hooks.

Results do not change: the hooks look and return nothing, and what goes wrong in them ends the capture, not the program. Every kind of call (a class
with the shapes of its weights and arguments) is written as a task when it is first seen, and counts follow every second, so that a program which is
killed loses one second at most. What `report` says is on disk.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import multiprocessing.util
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks

from bottega.core.device import slow_types
from bottega.core.errors import TaskError, UsageError
from bottega.core.files import encoded, write_atomic
from bottega.tasks.capture import WRITTEN_DOWN, task_of_call

FILE = "calls-{process}.jsonl"
FLUSH_S = 1.0
MOST_KINDS = 1000
SHAPES_OF_CLASS = 8
"""Tasks of one class and weights; further shapes, as a cache that grows gives them, are counted under the first."""
HEAVY = (nn.Linear, nn.Bilinear, nn.Embedding, nn.EmbeddingBag, nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase)
"""What the vendor's library does well: time in these leaves little to gain."""
CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def _is_heavy(module: nn.Module) -> bool:
    """Products of a type that the CPU's library has none of leave all to gain."""
    weight = next(module.parameters(), None) if isinstance(module, HEAVY) else None
    if weight is None or weight.device.type != "cpu" or isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return isinstance(module, HEAVY)
    return str(weight.dtype).removeprefix("torch.") not in slow_types()


@dataclass
class CapturedCall:
    """One kind of call."""

    key: str
    name: str
    """The class's."""
    shapes: str
    parts: int
    """Modules in it, itself included."""
    task: str = ""
    """The task's file, in the capture's folder."""
    reason: str = ""
    """Why no kernel can be searched for it: it is no task, or no judge can compare what it returns."""
    count: int = 0
    seconds: float = 0.0
    """With what it calls."""
    heavy_seconds: float = 0.0
    """Of these, in products, convolutions and lookups of the vendor's library."""
    inside: list[str] = field(default_factory=list)
    """Keys of the kinds that called it."""
    places: list[str] = field(default_factory=list)
    """Names of the modules, in the outermost one that was called; of that itself it is empty."""

    @property
    def searchable(self) -> bool:
        return bool(self.task and not self.reason)

    @property
    def light_seconds(self) -> float:
        """What a kernel may gain most of: the time share times what can be expected of it."""
        return max(0.0, self.seconds - self.heavy_seconds)


@dataclass
class _Open:
    """A call that is under way."""

    module: int
    owner: nn.Module
    begun: float
    event: Any = None
    written: float = 0.0
    """Seconds in which tasks were written inside of it, and the GPU had nothing to do."""
    heavy: float = 0.0
    children: list[str] = field(default_factory=list)
    above: _Open | None = None
    key: str = ""
    """From its end on."""


class Capture:
    """Use it as a context manager, or `start` it and let it end with the program."""

    def __init__(self, folder: str | Path, model: nn.Module | None = None, resume: bool = False) -> None:
        self.folder, self.model = Path(folder), model
        self.resume = resume
        """Tasks of an earlier capture stay as they are: random weights would make them others."""
        self.calls: dict[str, CapturedCall] = {}
        self.modules: dict[str, dict[int, nn.Module]] = {}
        """Of each kind, where a model is given: its modules that were called."""
        self._parts = {id(part) for part in model.modules()} if model is not None else None
        self._signatures: dict[int, str] = {}
        self._places: dict[int, dict[int, str]] = {}
        """Of each outermost module: names of those in it."""
        self._handles: list[Any] = []
        self._local = threading.local()
        self._lock = threading.RLock()
        self._changed: set[str] = set()
        self._flushed = time.monotonic()
        self._timed: list[tuple[_Open, Any, bool]] = []

    def start(self) -> Capture:
        try:
            (self.folder / "tasks").mkdir(parents=True, exist_ok=True)
            self._begin_file()
        except OSError as error:
            raise UsageError(f"{self.folder}: nothing can be captured there: {error.strerror}") from None
        self._handles = [
            hooks.register_module_forward_pre_hook(self._before),
            hooks.register_module_forward_hook(self._after, with_kwargs=True, always_call=True),
        ]
        atexit.register(self.stop)
        return self

    def _begin_file(self) -> None:
        """One of this process and this capture alone: numbers of processes come again, and lines of two would be taken for one's."""
        self._process = os.getpid()
        name = FILE.format(process=f"{self._process}-{time.time_ns()}")
        self._file = (self.folder / name).open("x", encoding="utf-8")

    def stop(self) -> None:
        if self._handles:
            self._remove_hooks()
            try:
                with contextlib.suppress(RuntimeError):  # a device that has failed
                    for _, end, _ in self._timed:
                        end.synchronize()
                self.flush()
            finally:
                self._file.close()

    def _remove_hooks(self) -> None:
        for handle in self._handles:
            handle.remove()
            hooks._global_forward_hooks_with_kwargs.pop(handle.id, None)  # which torch leaves there, and torch.compile warns of
        self._handles = []
        atexit.unregister(self.stop)

    def _end_here(self, error: Exception) -> None:
        self._remove_hooks()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        sys.stderr.write(f"bottega: the capture ends here, the program goes on: {reason}\n")

    def __enter__(self) -> Capture:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __iter__(self) -> Iterator[CapturedCall]:
        return iter(costliest(self.calls.values()))

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def report(self) -> str:
        if self._handles:
            self.flush()
        return report(self.calls.values())

    def _skipped(self, module: nn.Module) -> bool:
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return True  # nothing runs, and nothing may be looked at
        if getattr(self._local, "busy", False) or torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined]
            return True
        return self._parts is not None and id(module) not in self._parts

    def _before(self, module: nn.Module, arguments: Any) -> None:
        try:
            self._enter(module)
        except Exception as error:
            self._end_here(error)

    def _after(self, module: nn.Module, arguments: Any, *rest: Any) -> None:
        try:
            self._leave(module, arguments, *rest)
        except Exception as error:
            self._end_here(error)

    def _enter(self, module: nn.Module) -> None:
        if self._skipped(module):
            return
        if self._process != os.getpid():  # a fork: what was counted is its parent's
            self.calls, self._changed, self._timed = {}, set(), []
            self._local.stack, self._lock = [], threading.RLock()
            self._begin_file()
            multiprocessing.util.Finalize(None, self.flush, exitpriority=0)  # its processes end without atexit
        stack: list[_Open] = self._local.__dict__.setdefault("stack", [])
        event = None
        if torch.cuda.is_initialized():
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        stack.append(_Open(id(module), module, time.perf_counter(), event, above=stack[-1] if stack else None))

    def _leave(self, module: nn.Module, arguments: Any, *rest: Any) -> None:
        options, output = rest if len(rest) == 2 else ({}, None)  # torch leaves keywords out where forward has raised
        stack: list[_Open] = self._local.__dict__.get("stack", [])
        if self._skipped(module) or not any(call.module == id(module) for call in stack):
            return
        while stack[-1].module != id(module):
            stack.pop()
        call = stack.pop()
        ended, end = time.perf_counter(), None
        if call.event is not None:
            end = torch.cuda.Event(enable_timing=True)
            end.record()
        seconds = ended - call.begun
        if output is None or isinstance(module, CONTAINERS) or not _has_tensor((arguments, options)):
            return
        with self._lock:
            key = call.key = self._key(module, arguments, options, output)
            found = self.calls[key]
            heavy = _is_heavy(module)
            found.count += 1
            if end is not None:
                self._timed.append((call, end, heavy))
                found.heavy_seconds += call.heavy
            else:
                found.seconds += seconds
                found.heavy_seconds += seconds if heavy else call.heavy
            if stack:
                if end is None:
                    stack[-1].heavy += seconds if heavy else call.heavy
                stack[-1].children.append(key)
            for child in dict.fromkeys(call.children):
                if key not in self.calls[child].inside:
                    self.calls[child].inside.append(key)
            place = self._place(module, stack[0].owner if stack else module)
            if place not in found.places:
                found.places.append(place)
            if self.model is not None:
                self.modules.setdefault(key, {})[id(module)] = module
            self._changed.add(key)
            if found.count == 1:
                self._write(found)  # a program that waits from here on, and is killed, has called it
            if time.monotonic() - self._flushed > FLUSH_S:
                self.flush()
        for above in stack:  # what is written here, or waited for, is no time of theirs
            above.begun += time.perf_counter() - ended

    def _place(self, module: nn.Module, outermost: nn.Module) -> str:
        names = self._places.get(id(outermost))
        if names is None or id(module) not in names:
            names = {id(part): name for name, part in outermost.named_modules()}
            self._places[id(outermost)] = names
        return names.setdefault(id(module), "")

    def _key(self, module: nn.Module, arguments: Any, options: Any, output: Any) -> str:
        signature = self._signatures.get(id(module))
        if signature is None:
            own = [f"{name}:{tuple(value.shape)}:{value.dtype}" for name, value in module.state_dict(keep_vars=True).items()]
            # Words and flags say what sort of layer it is (of an encoder, of a decoder); numbers may only count the layers.
            sorts = [
                {name: each for name, each in vars(part).items() if name[:1] != "_" and isinstance(each, bool | str)}
                for part in module.modules()
            ]
            plain = (
                f"{type(module).__module__}.{type(module).__qualname__} {module.training} {module.extra_repr()} {own} {sorts}"
            )
            signature = self._signatures[id(module)] = plain
        shapes = shapes_of(arguments, options)
        group = hashlib.sha256(signature.encode()).hexdigest()[:8]
        key = group + hashlib.sha256(shapes.encode()).hexdigest()[:8]
        if key in self.calls:
            return key
        alike = [known for known in self.calls if known.startswith(group)]
        if len(alike) >= SHAPES_OF_CLASS or (alike and len(self.calls) >= MOST_KINDS):
            return alike[0]
        found = CapturedCall(key, type(module).__name__, shapes, sum(1 for _ in module.modules()))
        self.calls[key] = found
        self._local.busy = True  # other threads go on to be counted
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()  # or what still runs would be taken for time of writing
        begun = time.perf_counter()
        path = self.folder / "tasks" / f"{key}.py"
        try:
            if not (self.resume and path.exists()):
                task = task_of_call(module, arguments, options, f"{found.name}_{key}").task
                write_atomic(path, encoded(task.source))
            found.task = f"tasks/{key}.py"
            if foreign := _foreign(output):
                found.reason = f"a result with a {foreign} in it"
        except OSError:
            raise
        except Exception as error:  # a module may do anything when it is asked for its state
            found.reason = str(error) if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
        finally:
            self._local.busy = False
            for call in self._local.stack:
                call.written += time.perf_counter() - begun
        return key

    def flush(self) -> None:
        """Everything so far is on disk after this."""
        with self._lock:
            rest = []
            for call, end, heavy in self._timed:
                if not end.query():
                    rest.append((call, end, heavy))
                    continue
                seconds = max(0.0, call.event.elapsed_time(end) / 1000 - call.written)
                self.calls[call.key].seconds += seconds
                self._changed.add(call.key)
                above: _Open | None = call if heavy else None
                while above is not None:
                    if above.key:
                        self.calls[above.key].heavy_seconds += seconds
                        self._changed.add(above.key)
                    else:  # it is under way
                        above.heavy += seconds
                    above = above.above
            self._timed = rest
            for key in self._changed:
                self._write(self.calls[key])
            self._changed.clear()
            with contextlib.suppress(OSError):
                os.fsync(self._file.fileno())
            self._flushed = time.monotonic()

    def _write(self, call: CapturedCall) -> None:
        self._file.write(json.dumps(asdict(call)) + "\n")
        self._file.flush()


def read_capture(folder: Path) -> list[CapturedCall]:
    """The kinds of calls of a capture, of all its processes, the costliest first. A line that a kill cut off is left out."""
    found: dict[str, CapturedCall] = {}
    files = sorted(folder.glob(FILE.format(process="*")))
    if not files:
        raise UsageError(f"{folder}: holds no capture; make one with: bottega capture -- python PROGRAM.py")
    for path in files:
        of_process: dict[str, CapturedCall] = {}
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, TypeError):
                call = CapturedCall(**json.loads(line))
                of_process[call.key] = call
        for key, call in of_process.items():
            if key in found:
                call.places = list(dict.fromkeys([*found[key].places, *call.places]))
                call.count += found[key].count
                call.seconds += found[key].seconds
                call.heavy_seconds += found[key].heavy_seconds
            found[key] = call
    return costliest(found.values())


def costliest(calls: Any) -> list[CapturedCall]:
    return sorted(calls, key=lambda call: -call.light_seconds)


def report(calls: Any, most: int = 20) -> str:
    """A table of the costliest kinds."""
    ranked = costliest(calls)
    lines = [f"{'class':28} {'calls':>7} {'total ms':>10} {'light ms':>10}  arguments"]
    for call in ranked[:most]:
        row = f"{call.name:28.28} {call.count:7} {call.seconds * 1e3:10.2f} {call.light_seconds * 1e3:10.2f}  "
        row += shortened(call.shapes)
        lines.append(
            row + ("" if call.searchable else f"  [not searched: {shortened(call.reason.rpartition(WRITTEN_DOWN)[2])}]")
        )
    more = [f"… and {len(ranked) - most} more"] if len(ranked) > most else []
    return "\n".join([*lines, *more, "light: outside of products, convolutions and lookups of the vendor's library"])


def shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def capture(folder: str | Path = "bottega-capture", model: nn.Module | None = None, resume: bool = False) -> Capture:
    """`with bottega.capture() as calls:` records every module that is called inside; with `model`, only that model's."""
    return Capture(folder, model, resume)


def start_from_environment() -> None:
    """In a program that `bottega capture` started. Nothing that goes wrong here may reach the program."""
    try:
        Capture(os.environ["BOTTEGA_CAPTURE"]).start()
    except Exception as error:
        sys.stderr.write(f"bottega: nothing is captured: {error}\n")


def shapes_of(arguments: Any, options: Any) -> str:
    """What a call is given, as one reads it: `float32[4, 16], scale=2.0`."""
    return ", ".join([*map(_shown, arguments), *(f"{name}={_shown(value)}" for name, value in options.items())])


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        plain = value.layout is not torch.strided or value.is_contiguous()
        dense = "" if plain else f" strides {tuple(value.stride())}"
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{dense}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else type(value).__name__


def _foreign(value: Any) -> str:
    """The type of what no judge could compare, such as a cache."""
    if isinstance(value, Mapping):
        return next(filter(None, map(_foreign, value.values())), "")
    if isinstance(value, list | tuple):
        return next(filter(None, map(_foreign, value)), "")
    known = value is None or isinstance(value, torch.Tensor | bool | int | float | complex | str | torch.dtype | torch.device)
    return "" if known or is_dataclass(value) else type(value).__name__


def _has_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_tensor, value))
    return any(map(_has_tensor, value.values())) if isinstance(value, dict) else isinstance(value, torch.Tensor)
