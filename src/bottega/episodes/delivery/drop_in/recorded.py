"""A whole model's calls as CUDA graphs. Its text is copied into delivered files, so it knows torch and the standard library only.

A model with fast kernels is often slower than its host: Python launches them one by one. So a call of each kind (shapes, types, plain values) is
recorded, and replayed from then on: inputs are copied to where the recording reads them, results from where it writes them. What cannot be
recorded, or looks otherwise than when it was recorded, runs as it would without this.
"""

import dataclasses
import random
import threading
from collections import Counter
from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.drop_in.attributes import is_same, standing_for
from bottega.episodes.delivery.drop_in.modes import told_to_torch
from bottega.episodes.delivery.drop_in.state import address_of, hook_count, places, sizes, unshared, watched

MOST_KINDS = 8
"""Of calls that are recorded: each keeps memory of its own for inputs and results."""
MOST_CHANGES = 16
"""Of a model, more often than calls of it were replayed. Then nothing is recorded any more."""
PLAIN = (bool, int, float, str, torch.dtype, torch.device)


class NotRecorded(Exception):
    """Why a call is not replayed."""


class CudaGraphs:
    """Where recordings are made."""

    kind = "cuda"

    def __init__(self) -> None:
        self.pool: Any = None
        self.stream: Any = None
        self.done: Any = None

    def is_busy(self) -> bool:
        """Somebody else records."""
        return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()

    def place(self) -> Any:
        """Where launches go now."""
        return torch.cuda.current_stream()

    def record(self, work: Any) -> Any:
        """What does the same again, with the same memory, and what `work` returned."""
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        self.stream = self.stream or torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work()  # kernels are built, libraries take their memory
            before, asked = torch.cuda.get_sync_debug_mode(), torch.cuda.is_current_stream_capturing
            # A recording that breaks off leaves torch's generator unusable, so what it would do is tried before. Models that look at values only
            # outside of recordings (at a mask, as those of transformers do) must not look now.
            torch.cuda.set_sync_debug_mode("error")
            torch.cuda.is_current_stream_capturing = lambda: True
            try:
                work()
            finally:
                torch.cuda.is_current_stream_capturing = asked
                torch.cuda.set_sync_debug_mode(before)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph, generator = torch.cuda.CUDAGraph(), torch.cuda.default_generators[torch.cuda.current_device()]
        drawn = generator.get_state()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                results = work()
        except BaseException:
            self.pool, fresh = None, torch.Generator(generator.device)
            fresh.set_state(drawn)
            generator.graphsafe_set_state(fresh)
            raise
        return graph.replay, results

    def after(self, place: Any) -> None:
        """What is launched next waits for the last replay, if that was launched elsewhere."""
        if self.done is not None and place != self.done[0]:
            place.wait_event(self.done[1])

    def replayed(self, place: Any) -> None:
        event = torch.cuda.Event() if self.done is None else self.done[1]
        event.record(place)
        self.done = place, event


@dataclasses.dataclass
class Recording:
    replay: Any
    given: list[Any]
    """The memory that inputs are copied to."""
    results: Any


class Recorded:
    """Stands in the place of a module's `__call__`, as what torch compiled of it would. `replays` counts calls that were replayed, `others` the rest
    by reason."""

    def __init__(self, model: nn.Module, graphs: Any = None) -> None:
        self.model, self.graphs = model, graphs or CudaGraphs()
        self.run: Any = model._compiled_call_impl or model._call_impl
        self.turn = threading.Lock()
        self.replays, self.changes, self.others = 0, 0, Counter[str]()
        self.kinds: dict[Any, Any] = {}
        """By kind of call: None after the first one, then a recording, or why there is none."""
        self.looked: Any = None

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined]
            return self.run(*arguments, **options)
        if not self.turn.acquire(blocking=False):
            reason = "another thread is in a call"
        else:
            try:
                return self.answer(arguments, options)
            except NotRecorded as told:
                reason = str(told)
            finally:
                self.turn.release()
        self.others[reason] += 1
        return self.run(*arguments, **options)

    def answer(self, arguments: Any, options: Any) -> Any:
        if torch.is_grad_enabled() or self.model.training:
            raise NotRecorded("gradients are wanted" if torch.is_grad_enabled() else "the model is in training mode")
        told = told_to_torch(self.graphs.kind)
        if told:
            raise NotRecorded(told)
        if self.graphs.is_busy():
            raise NotRecorded("a graph is being captured")
        if self.changes > self.replays + MOST_CHANGES:
            raise NotRecorded("the model changes between its calls")
        given: list[torch.Tensor] = []
        key = (kind_of((arguments, options), given, self.graphs.kind), modes_of(self.graphs.kind))
        if not given or any(each.device != given[0].device for each in given):
            raise NotRecorded("no tensors, or tensors on several devices")
        if self.kinds and self.moved():
            self.forget()
        if key not in self.kinds:
            if len(self.kinds) >= MOST_KINDS:
                raise NotRecorded("too many kinds of calls")
            if not self.kinds:
                self.look()
            self.kinds[key] = None
            raise NotRecorded("the first call of its kind")
        found = self.kinds[key]
        if isinstance(found, str):
            raise NotRecorded(found)
        if found is None:
            if self.changed():
                self.forget()
                raise NotRecorded("the model was changed")
            if any(hooks for _, _, hooks in self.looked[4]):
                raise NotRecorded("it has hooks, which a replay would not call")
            found = self.kinds[key] = self.recorded(arguments, options, given)
            if isinstance(found, str):
                raise NotRecorded(found)
        place = self.graphs.place()
        self.graphs.after(place)
        with torch.no_grad():
            for mine, theirs in zip(found.given, given):
                mine.copy_(theirs)
            found.replay()
            copies: dict[int, Any] = {}
            results = rebuilt(found.results, lambda each: copied(each, copies))
        self.graphs.replayed(place)
        if self.changed():  # looked at while the device works; what it did is thrown away
            self.forget()
            raise NotRecorded("the model was changed")
        self.replays += 1
        return results

    def recorded(self, arguments: Any, options: Any, given: list[torch.Tensor]) -> Any:
        """A recording, or why there is none."""
        with torch.inference_mode(False), torch.no_grad():
            mine = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=each.device) for each in given]
            for new, old in zip(mine, given):
                new.copy_(old)
            left, drawn, picked = iter(mine), torch.random.get_rng_state(), random.getstate()
            row, names = rebuilt((arguments, options), lambda _: next(left))
            before, cached = [each._version for each in mine], torch.is_autocast_cache_enabled()
            torch.clear_autocast_cache()  # what it keeps lies in other memory, and not for ever
            torch.set_autocast_cache_enabled(False)
            try:
                replay, results = self.graphs.record(lambda: self.run(*row, **names))
                held = {storage(each) for each in (*mine, *(place.known for place in self.looked[0]))}
                rebuilt(results, lambda each: fit(each, self.graphs.kind, held))
            except (
                Exception
            ) as error:  # what a model does that no recording can hold: it reads values, or calls another library
                return f"it cannot be recorded: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            finally:
                torch.set_autocast_cache_enabled(cached)
            if [each._version for each in mine] != before:
                return "it changes its inputs"
            if self.changed():
                return "it changes itself in a call"
            if random.getstate() != picked or not torch.equal(torch.random.get_rng_state(), drawn):
                return "it draws numbers on the host"
        return Recording(replay, mine, results)

    def forget(self) -> None:
        """Calls are recorded anew."""
        self.kinds, self.looked = {}, None
        self.changes += 1

    def look(self) -> None:
        model = self.model
        parts = [each for part in model.modules() for each in standing_for(part)]
        held = [*places(model).values(), *unshared(model, ())]
        self.looked = (
            held,
            [(place.known, place.address) for place in held],
            watched(model, ()),
            sizes(model),
            [(part, part.training, hook_count(part)) for part in parts],
        )

    def moved(self) -> bool:
        """Memory that recordings read is somebody else's now."""
        return any(address_of(tensor) != address for tensor, address in self.looked[1])

    def changed(self) -> bool:
        held, _, watch, counts, parts = self.looked
        for part, mode, hooks in parts:
            if part.training is not mode or len(part._forward_hooks) + len(part._forward_pre_hooks) != hooks:
                return True
        for owner, name, value in watch:
            now = owner.get(name)
            if now is not value and not is_same(now, value):
                return True
        return any(len(each) != size for each, size in counts) or any(place.changed() for place in held)


def kind_of(value: Any, given: list[torch.Tensor], device: str) -> Any:
    """What of a call a recording depends on; its tensors are put into `given`."""
    if type(value) is torch.Tensor or type(value) is nn.Parameter:
        given.append(value)
        if value.device.type != device or value.layout is not torch.strided or value.is_conj() or value.is_neg():
            raise NotRecorded(f"a tensor on {value.device.type}, or in another layout")
        if not is_dense(value):
            raise NotRecorded("a tensor whose elements do not lie side by side")
        return value.dtype, tuple(value.shape), value.stride(), value.device.index
    if value is None or type(value) in PLAIN:
        return type(value), repr(value)
    if type(value) in (tuple, list):
        return type(value), tuple([kind_of(each, given, device) for each in value])
    if type(value) is dict:
        return dict, tuple([(key, kind_of(each, given, device)) for key, each in value.items()])
    raise NotRecorded(f"a {type(value).__name__} is given")


def is_dense(tensor: torch.Tensor) -> bool:
    if tensor.is_contiguous():
        return True
    extent = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1 and stride != extent:
            return False
        extent *= size
    return True


def modes_of(device: str) -> Any:
    """What torch was told that a call's kernels may follow."""
    return (
        str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else None,
        torch.get_default_dtype(),
        torch.get_float32_matmul_precision(),
        torch.is_inference_mode_enabled(),
        torch._C._len_torch_function_stack() and str(torch.get_default_device()),
    )


def rebuilt(value: Any, change: Any) -> Any:
    """The same with other tensors."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if value is None or type(value) in PLAIN:
        return value
    if type(value) in (tuple, list):
        return type(value)([rebuilt(each, change) for each in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[rebuilt(each, change) for each in value])
    if type(value) is dict:
        return {key: rebuilt(each, change) for key, each in value.items()}
    if isinstance(value, dict) and dataclasses.is_dataclass(value):  # as models of transformers return
        return type(value)(**{key: rebuilt(each, change) for key, each in value.items()})
    raise NotRecorded(f"it returns a {type(value).__name__}")


def copied(tensor: torch.Tensor, copies: dict[int, Any]) -> Any:
    """One that is returned twice is one tensor."""
    if id(tensor) not in copies:
        copies[id(tensor)] = tensor.clone()
    return copies[id(tensor)]


def storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def fit(result: torch.Tensor, device: str, held: set[int]) -> None:
    if type(result) is not torch.Tensor or result.device.type != device or result.layout is not torch.strided:
        raise NotRecorded(f"it returns a {type(result).__name__} on {result.device.type}")
    if storage(result) in held and result.numel():
        raise NotRecorded("it returns what it was given, or a weight")
    if not is_dense(result):
        raise NotRecorded("it returns a tensor whose elements do not lie side by side")


def recorded(model: nn.Module, graphs: Any = None) -> nn.Module:
    """The model, whose calls are recorded and replayed. A copy of it, or one that is loaded from a file, is not."""
    model._compiled_call_impl = Recorded(model, graphs)
    return model
