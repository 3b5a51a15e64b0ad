"""How much memory a task's call takes, found without taking it: the task is run on fake tensors, which have shapes and no contents.

It runs in a fork of the estimator's process (`estimator`): what the task's code does there (patches, registrations, an endless loop) is gone
with the child. The child tells what it knows as it learns it, so one that stops half way still leaves an estimate.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bottega.core.arguments import read_arguments
from bottega.judge.loading import import_source
from bottega.judge.memory_need import GUESS, LARGEST_QUESTION, MemoryEstimate
from bottega.sandbox.channel import Channel, Message
from bottega.sandbox.forked_answers import answer_in_forks

PATIENCE_SECONDS = 20.0
"""For fake tensors a network of a thousand layers takes a few seconds."""
SMALL_BYTES = 64 << 20
"""Inputs and parameters of a task that is run on the host in earnest where fake tensors do not carry it."""
LIBRARY_BYTES = 256 << 20
"""What libraries may take as workspace of their own for matrix products and convolutions."""
UNSEEN_FACTOR = 2
"""Where only the inputs are known: so many times their size for the workspace, and once for the outputs."""
WITH_LIBRARY = ("mm", "convolution", "linear", "attention", "rnn", "lstm", "gru", "conv")
COPYING = {
    "sort": 3,
    "topk": 2,
    "kthvalue": 2,
    "median": 2,
    "mode": 3,
    "unique": 4,
    "cumsum": 1,
    "cumprod": 1,
    "fft": 2,
    "linalg": 2,
}
"""Operators that take room for themselves while they run, by a part of their name, in sizes of their arguments."""


def main(descriptors: list[int], arguments: dict[str, Any]) -> None:
    """Serve the judge until it closes the channel."""
    warm()

    def answer(asked: Message) -> Message:
        return {"estimate": estimate(asked["source"], asked["training"]).to_json()}

    answer_in_forks(Channel.from_descriptor(descriptors[0], takes_descriptors=False, largest=LARGEST_QUESTION), answer)


def warm() -> None:
    """Making the first fake tensor of a process reads nine hundred modules, 1.5 s."""
    with _no_gpu_seen(), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        torch.nn.Linear(2, 2)(torch.randn(2, 2)).relu()


@contextlib.contextmanager
def _no_gpu_seen() -> Iterator[None]:
    """Fake tensors ask whether there is a GPU; none is needed for them, and a context would take memory that nobody has claimed."""
    kept = torch.cuda.is_available
    torch.cuda.is_available = lambda: False
    try:
        yield
    finally:
        torch.cuda.is_available = kept


def estimate(source: str, training: bool | None = None, patience: float = PATIENCE_SECONDS) -> MemoryEstimate:
    """Never raises for what a task does, and comes back when `patience` is over."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _in_child(source, training, writing)
    os.close(writing)
    try:
        return _heard(reading, time.monotonic() + patience)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)


def _heard(descriptor: int, deadline: float) -> MemoryEstimate:
    """The last whole line that says something, by `deadline` or by the child's end."""
    text = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0 and len(text) < 1 << 16 and poll.poll(left * 1000):
        piece = os.read(descriptor, 1 << 12)
        if not piece:
            break
        text += piece
    found = GUESS
    for line in text.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError, RecursionError):
            found = MemoryEstimate.from_json(json.loads(line)) or found
    return found


def _in_child(source: str, training: bool | None, writing: int) -> None:
    """Never returns: whatever happens, the estimator's own code must not go on in two processes."""
    try:
        os.environ["CUDA_VISIBLE_DEVICES"] = (
            ""  # fake tensors of a GPU would make a context, and no memory is claimed for it yet
        )
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        torch.set_num_threads(1)
        with _no_gpu_seen():
            in_process(source, training, lambda found: _tell(writing, found))
    except BaseException:
        pass
    finally:
        os._exit(0)


def _tell(descriptor: int, found: MemoryEstimate) -> None:
    os.write(descriptor, json.dumps(found.to_json()).encode() + b"\n")


def in_process(source: str, training: bool | None, tell: Callable[[MemoryEstimate], None]) -> None:
    """Tell estimates, each better than the one before it."""
    known = GUESS

    def better(found: MemoryEstimate) -> None:
        nonlocal known
        known = found
        tell(found)

    try:
        with torch.no_grad():
            _run(source, training, lambda: FakeTensorMode(allow_non_fake_inputs=True), "fake tensors", better)
        return
    except Exception:  # control flow that depends on data, an operator without shapes of its own, a file that is not there …
        pass
    small = known is not GUESS and known.inputs + known.parameters <= SMALL_BYTES
    if small:
        with torch.no_grad():
            _run(source, training, nullcontext, "a run on the host", better)


def _run(
    source: str,
    training: bool | None,
    mode: Callable[[], AbstractContextManager[Any]],
    name: str,
    tell: Callable[[MemoryEstimate], None],
) -> None:
    with mode(), FirstGpu(), StorageCounter() as live:
        module = import_source(source, "task")
        model_class: Any = module.Model
        inputs = module.get_inputs()
        taken = sum(_nbytes(leaf) for leaf in tree_leaves(inputs))
        found = MemoryEstimate(taken, 0, taken, UNSEEN_FACTOR * taken, "the inputs alone")
        tell(found)
        with live.counted() as building:
            initial = read_arguments(module.get_init_inputs(), model_class)
            model = model_class(*initial.positional, **initial.keywords)
            if training is not None:
                model.train(training)
        found = replace(found, parameters=max(building.left, _state_bytes(model)), estimated_by="inputs and parameters")
        tell(found)
        with live.counted() as calling:
            called = read_arguments(inputs, model.forward)
            outputs = model(*called.positional, **called.keywords)
        given = sum(_nbytes(leaf) for leaf in tree_leaves(outputs))
        made = max(given, calling.left)
        workspace = max(0, calling.peak - made) + (LIBRARY_BYTES if live.uses_library else 0)
        tell(replace(found, outputs=made, workspace=workspace, estimated_by=name))


class FirstGpu(TorchFunctionMode):
    """Takes `cuda` for `cuda:0`: which GPU is the current one, torch asks of the driver even for a fake tensor, and there is none here."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if function is torch.Tensor.cuda:
            return arguments[0].to("cuda:0")
        named = {name: _numbered(value) for name, value in (keywords or {}).items()}
        return function(*map(_numbered, arguments), **named)


def _numbered(value: Any) -> Any:
    unnumbered = (
        value == "cuda" if isinstance(value, str) else isinstance(value, torch.device) and value == torch.device("cuda")
    )
    return torch.device("cuda:0") if unnumbered else value


class StorageCount:
    """Bytes of the storages that came up in a stretch: most at a time, and what is left of them at its end."""

    def __init__(self) -> None:
        self.now = self.peak = self.left = 0

    def take(self, size: int, beyond: int = 0) -> None:
        self.now += size
        self.peak = max(self.peak, self.now + beyond)

    def give_back(self, size: int) -> None:
        self.now -= size


class StorageCounter(TorchDispatchMode):
    """Sees every operator, and counts the storages that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.uses_library = False
        self._counted: list[StorageCount] = []
        self._known: set[int] = set()

    @contextlib.contextmanager
    def counted(self) -> Iterator[StorageCount]:
        stretch = StorageCount()
        self._counted.append(stretch)
        try:
            yield stretch
        finally:
            self._counted.remove(stretch)
            stretch.left = stretch.now

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        result = function(*arguments, **(keywords or {}))
        name = str(getattr(function, "_schema", None) and function._schema.name)
        if any(part in name for part in WITH_LIBRARY):
            self.uses_library = True
        own = max((factor for part, factor in COPYING.items() if part in name), default=0)
        beyond = own * sum(_nbytes(leaf) for leaf in tree_leaves((arguments, keywords or {}))) if own else 0
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._note(leaf, beyond)
        return result

    def _note(self, tensor: torch.Tensor, beyond: int) -> None:
        try:
            storage = tensor.untyped_storage()
            size = int(storage.nbytes())
        except (RuntimeError, NotImplementedError, TypeError):
            return
        key = storage._cdata
        if key in self._known:
            return
        self._known.add(key)
        stretch = self._counted[-1] if self._counted else None
        if stretch is not None:
            stretch.take(size, beyond)
        weakref.finalize(storage, self._forget, key, size, stretch)

    def _forget(self, key: int, size: int, stretch: StorageCount | None) -> None:
        self._known.discard(key)
        if stretch is not None:
            stretch.give_back(size)


def _nbytes(value: Any) -> int:
    """As if it were dense: a draw is copied so."""
    if not isinstance(value, torch.Tensor):
        return 0
    return math.prod(int(size) for size in value.shape) * value.dtype.itemsize


def _state_bytes(model: Any) -> int:
    held = {id(tensor): _nbytes(tensor) for tensor in [*model.parameters(), *model.buffers()]}
    return sum(held.values())
