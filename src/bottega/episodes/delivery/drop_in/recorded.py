"""A whole model's calls as CUDA graphs. Its text is copied into delivered files, so it knows torch and the standard library only.

A model with fast kernels is often slower than its host: Python launches them one by one. So a call of each kind (shapes, types, plain values) is
recorded, and replayed from then on: inputs are copied to where the recording reads them, results from where it writes them. What cannot be
recorded, or looks otherwise than when it was recorded, runs as it would without this.
"""

import copy
import dataclasses
import random
import sys
import threading
import warnings
import weakref
from collections import Counter, OrderedDict
from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.drop_in.modes import told_to_torch
from bottega.episodes.delivery.drop_in.snapshot import Snapshot

MOST_KINDS = 8
"""Of calls that are recorded: each keeps memory of its own for inputs and results."""
MOST_CHANGES = 16
"""Of a model, more often than calls of it were replayed. Then nothing is recorded any more."""
MOST_TRIES = 3
"""To record calls of a kind: another thread may have drawn numbers meanwhile, or had the memory."""
PRODUCTS = [(backend, operator) for backend in ("cuda", "mkldnn") for operator in ("matmul", "conv", "rnn")]
KERNELS = (
    "_get_cudnn_allow_tf32",
    "_get_flash_sdp_enabled",
    "_get_mem_efficient_sdp_enabled",
    "_get_math_sdp_enabled",
    "_get_cudnn_sdp_enabled",
    "_get_cudnn_enabled",
    "_get_cudnn_benchmark",
    "_get_cudnn_deterministic",
    "_get_cublas_allow_fp16_reduced_precision_reduction",
    "_get_cublas_allow_bf16_reduced_precision_reduction",
)
WAITS = "synchronizing CUDA operation"
"""Of what torch says then."""
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

    def is_current(self, device: torch.device) -> bool:
        """Launches on another device would not be in the recording."""
        return device.index == torch.cuda.current_device()

    def place(self) -> Any:
        """Where launches go now."""
        return torch.cuda.current_stream()

    def record(self, work: Any) -> Any:
        """What does the same again, with the same memory, and what `work` returned."""
        self.pool = self.pool or torch.cuda.graph_pool_handle()
        self.stream = self.stream or torch.cuda.Stream()
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        drawn = generator.get_state()
        self.stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(self.stream):
                work()  # kernels are built, libraries take their memory
                before, asked = torch.cuda.get_sync_debug_mode(), torch.cuda.is_current_stream_capturing
                # A recording that breaks off leaves torch's generator unusable, so what it would do is tried before. Models that look at values
                # only outside of recordings (at a mask, as those of transformers do) must not look now. The mode is the whole process's: other
                # threads get a warning, and no error.
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    torch.cuda.set_sync_debug_mode("warn")
                    torch.cuda.is_current_stream_capturing = lambda: True
                    try:
                        work()
                    finally:
                        torch.cuda.is_current_stream_capturing = asked
                        torch.cuda.set_sync_debug_mode(before)
                if any(WAITS in str(each.message) for each in heard):
                    raise RuntimeError("it waits for values on the host")
        finally:
            torch.cuda.current_stream().wait_stream(self.stream)
            generator.set_state(drawn)  # the caller sees one call
        graph = torch.cuda.CUDAGraph()
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

    def finish(self) -> None:
        """The last replay is over: its memory may be given back."""
        if self.done is not None:
            self.done[1].synchronize()


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
        stood: Any = model._compiled_call_impl
        self.compiled = stood.compiled if hasattr(stood, "replays") else stood
        self.graphs = graphs or CudaGraphs()
        self.model: Any = weakref.ref(model)  # which holds this: its memory is free when the last one lets go of it
        weakref.finalize(model, self.clear)
        self.turn = threading.Lock()
        self.replays, self.changes, self.others = 0, 0, Counter[str]()
        self.kinds: dict[Any, Any] = {}
        """By kind of call: None after the first one, then a recording, or why there is none."""
        self.tries = Counter[Any]()
        self.looked: Any = None
        self.never = ""
        """Why it is not recorded, whatever the call."""

    def run(self, *arguments: Any, **options: Any) -> Any:
        return (self.compiled or self.model()._call_impl)(*arguments, **options)

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
        if torch.is_grad_enabled() or self.model().training:
            raise NotRecorded("gradients are wanted" if torch.is_grad_enabled() else "the model is in training mode")
        told = self.never or told_to_torch(self.graphs.kind)
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
        if not self.graphs.is_current(given[0].device):
            raise NotRecorded("another device is the current one")
        if self.kinds and self.looked.moved():
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
            if self.looked.changed():
                self.forget()
                raise NotRecorded("the model was changed")
            if any(self.looked.hooks):
                raise NotRecorded("it has hooks, which a replay would not call")
            found = self.recorded(arguments, options, given)
            if isinstance(found, str):
                self.tries[key] += 1
                if self.tries[key] >= MOST_TRIES:
                    self.kinds[key] = found
                raise NotRecorded(found)
            self.kinds[key] = found
        place = self.graphs.place()
        self.graphs.after(place)
        with torch.no_grad():
            for mine, theirs in zip(found.given, given):
                unexpanded(mine).copy_(unexpanded(theirs))
            found.replay()
            copies: dict[int, Any] = {}
            results = rebuilt(found.results, lambda each: copied(each, copies))
        self.graphs.replayed(place)
        if self.looked.changed():  # looked at while the device works; what it did is thrown away
            self.forget()
            raise NotRecorded("the model was changed")
        self.replays += 1
        return results

    def recorded(self, arguments: Any, options: Any, given: list[torch.Tensor]) -> Any:
        """A recording, or why there is none."""
        with torch.inference_mode(False), torch.no_grad():
            mine = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=each.device) for each in given]
            for new, old in zip(mine, given):
                unexpanded(new).copy_(unexpanded(old))
            stand, drawn = {id(old): new for old, new in zip(given, mine)}, drawn_on_host()
            row, names = rebuilt((arguments, options), lambda each: stand[id(each)])
            before, cached = [each._version for each in mine], torch.is_autocast_cache_enabled()
            torch.clear_autocast_cache()  # what it keeps lies in other memory, and not for ever
            torch.set_autocast_cache_enabled(False)
            try:
                replay, results = self.graphs.record(lambda: self.run(*row, **names))
                held = {storage(each) for each in (*mine, *(place.known for place in self.looked.places))}
                rebuilt(results, lambda each: fit(each, self.graphs.kind, held))
            except (
                Exception
            ) as error:  # what a model does that no recording can hold: it reads values, or calls another library
                return f"it cannot be recorded: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            finally:
                torch.set_autocast_cache_enabled(cached)
            if [each._version for each in mine] != before:
                return "it changes its inputs"
            if self.looked.changed():
                return "it changes itself in a call"
            if drawn_on_host()[: len(drawn)] != drawn:
                return "it draws numbers on the host"
        return Recording(replay, mine, results)

    def look(self) -> None:
        try:
            self.looked = Snapshot(self.model())
        except Exception as error:  # whatever it holds
            self.never = f"it cannot be looked at: {type(error).__name__}"
        else:
            self.never = "it holds too much to be looked at in each call" if self.looked.full else ""
        if self.never:
            self.clear()
            raise NotRecorded(self.never)

    def forget(self) -> None:
        """Calls are recorded anew."""
        self.graphs.finish()
        self.clear()
        self.changes += 1

    def clear(self) -> None:
        self.kinds, self.looked = {}, None
        self.tries.clear()


def drawn_on_host() -> list[Any]:
    """Where the generators of Python, torch and numpy are; of the last only if it was imported."""
    numpy: Any = sys.modules.get("numpy.random")
    return [random.getstate(), torch.random.get_rng_state().tolist(), *([repr_of(numpy.get_state())] if numpy else [])]


def repr_of(state: Any) -> Any:
    return [each.tobytes() if hasattr(each, "tobytes") else each for each in state]


def kind_of(value: Any, given: list[torch.Tensor], device: str) -> Any:
    """What of a call a recording depends on; its tensors are put into `given`."""
    if type(value) is torch.Tensor or type(value) is nn.Parameter:
        for place, each in enumerate(given):
            if value is each:
                return "again", place
        given.append(value)
        if value.device.type != device or value.layout is not torch.strided or value.is_conj() or value.is_neg():
            raise NotRecorded(f"a tensor on {value.device.type}, or in another layout")
        if overlaps(value):
            raise NotRecorded("a tensor whose elements share memory")
        if value.__dict__:
            raise NotRecorded("a tensor with attributes")
        return value.dtype, tuple(value.shape), value.stride(), value.device.index
    if value is None or type(value) in PLAIN:
        return type(value), repr(value)
    if type(value) in (tuple, list):
        return type(value), tuple([kind_of(each, given, device) for each in value])
    if type(value) is dict:
        return dict, tuple([(kind_of(key, given, device), kind_of(each, given, device)) for key, each in value.items()])
    raise NotRecorded(f"a {type(value).__name__} is given")


def overlaps(tensor: torch.Tensor) -> bool:
    """Other than by expansion."""
    extent = 1
    if not tensor.is_contiguous():
        for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
            if size > 1 and stride:
                if stride < extent:
                    return True
                extent += stride * (size - 1)
    return False


def unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """Each of its elements once."""
    if 0 in tensor.stride():
        for axis, (stride, size) in enumerate(zip(tensor.stride(), tensor.shape)):
            if stride == 0 and size > 1:
                tensor = tensor.narrow(axis, 0, 1)
    return tensor


def modes_of(device: str) -> Any:
    """What torch was told that a call's kernels may follow."""
    return (
        str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else None,
        torch.get_default_dtype(),
        told_of_kernels(),
        torch.is_inference_mode_enabled(),
        torch._C._len_torch_function_stack() and str(torch.get_default_device()),
    )


def told_of_kernels() -> Any:
    """How exact products are, and which attentions may run. `get_float32_matmul_precision` raises where both of torch's ways to say it were used."""
    core: Any = torch._C
    precision = getattr(core, "_get_fp32_precision_getter", None)
    exact = [precision(*each) for each in PRODUCTS] if precision else [torch.get_float32_matmul_precision()]
    return (*exact, *(getattr(core, name)() for name in KERNELS if hasattr(core, name)))


def rebuilt(value: Any, change: Any) -> Any:
    """The same with other tensors."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if value is None or type(value) in PLAIN:
        return value
    if type(value) in (tuple, list):
        return type(value)([rebuilt(each, change) for each in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)._make([rebuilt(each, change) for each in value])  # type: ignore[attr-defined]
    if type(value) is dict:
        return {key: rebuilt(each, change) for key, each in value.items()}
    if isinstance(value, dict) and dataclasses.is_dataclass(value):  # as models of transformers return
        return type(value)(**{key: rebuilt(each, change) for key, each in value.items()})
    if type(value) is OrderedDict:
        return OrderedDict((key, rebuilt(each, change)) for key, each in value.items())
    if dataclasses.is_dataclass(value) and list(vars(value)) == [each.name for each in dataclasses.fields(value)]:
        made = copy.copy(value)
        vars(made).update({name: rebuilt(each, change) for name, each in vars(value).items()})  # it may be frozen
        return made
    raise NotRecorded(f"it returns a {type(value).__name__}")


def copied(tensor: torch.Tensor, copies: dict[int, Any]) -> Any:
    """One that is returned twice is one tensor."""
    if id(tensor) not in copies:
        copies[id(tensor)] = new = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        unexpanded(new).copy_(unexpanded(tensor))
    return copies[id(tensor)]


def storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def fit(result: torch.Tensor, device: str, held: set[int]) -> None:
    if type(result) is not torch.Tensor or result.device.type != device or result.layout is not torch.strided:
        raise NotRecorded(f"it returns a {type(result).__name__} on {result.device.type}")
    if storage(result) in held and result.numel():
        raise NotRecorded("it returns what it was given, or a weight")
    if overlaps(result) or result.is_conj() or result.is_neg():
        raise NotRecorded("it returns a tensor whose elements share memory, or are conjugated")


def recorded(model: nn.Module, graphs: Any = None) -> nn.Module:
    """The model, whose calls are recorded and replayed. A copy of it, or one that is loaded from a file, is not."""
    model._compiled_call_impl = Recorded(model, graphs)
    return model
