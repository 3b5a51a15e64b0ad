"""The module around a kernel in every delivered file. Its text is copied there, so it knows torch and the standard library only.

The kernel runs where a call looks like those that it was judged on. Everywhere else (other shapes, gradients wanted, another layout) the
original module runs, as it would without Bottega. Both use one set of parameters, so that an update of the weights reaches both.

What stands for the original may be another such module, with a kernel for calls of another shape; and so may the original's parts, which then
run where the original does. To all of them a module is what stands behind its kernels.
"""

import base64
import copy
import io
import itertools
import pickle
import sys
import threading
import types
import warnings
import weakref
from collections import Counter
from typing import Any

import torch
from torch import nn

from bottega.episodes.delivery.drop_in.attributes import CODE, is_same, original_of, standing_for, storage_of
from bottega.episodes.delivery.drop_in.calls import (
    as_laid_out,
    classes_of,
    filled,
    fitting,
    form_mismatch,
    in_place,
    leaves_of,
    named_places,
    prepared,
    side_by_side,
    specs_of,
    without_place,
)
from bottega.episodes.delivery.drop_in.modes import told_to_torch
from bottega.episodes.delivery.drop_in.state import (
    align,
    contents_of,
    difference,
    hook_count,
    hooks_of,
    keepsake,
    mismatch,
    places,
    share,
    sizes,
    tensors,
    unlike,
    unshared,
    untied,
    watched,
)
from bottega.episodes.delivery.drop_in.unchanged import unchanged_check

MOST_REASONS = 32
NOTHING_BOUND: dict[str, Any] = {
    "_unchanged": None, "_bound": (), "_buffers_bound": (), "_watched": (), "_sizes": (), "_parts": (), "_modes": ()
}  # fmt: skip
_is_tracing = getattr(torch._C, "_is_tracing", torch.jit.is_tracing)  # type: ignore[attr-defined]


class DropIn(nn.Module):
    """A faster form of one module. `calls` counts calls of the kernel, `fallbacks` those of the original, by reason."""

    IS_DROP_IN = True
    KERNEL: Any = None
    """The class of the kernel's module."""
    FACTS: dict[str, Any] = {}  # noqa: RUF012 (a subclass sets it)
    """What it was judged on."""

    def __init__(self, original: Any, init: Any = None, ignore: Any = (), warn: bool = False) -> None:
        super().__init__()
        if isinstance(original, types.FunctionType):  # it was judged as a module that calls it, which is other code
            original, ignore = type(self.FACTS["class"], (nn.Module,), {"forward": staticmethod(original)})(), (*ignore, CODE)
        if not isinstance(original, nn.Module):
            raise TypeError(f"an instance of the original module is wanted, not {type(original).__name__}")
        own = original_of(original)
        init = read_init(self.FACTS["init"] if init is None else init, own)
        if init is None:
            raise ValueError(
                "give init=[…], the arguments that the original was built with: they could not be written down here"
            )
        differing = difference(original, self.FACTS["built"], ignore) or untied(places(original), self.FACTS["ties"])
        if differing:
            raise ValueError(
                f"this kernel was made for another {self.FACTS['class']}: {differing}. "
                "Optimize the module as you build it, or name attributes that do not matter in ignore=(…)"
            )
        # The same dictionaries for both: parameters, names, checkpoints and .to() are the original's own.
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[name] = original.__dict__[name]
        # Neither is a child: the original's parameters would have two names, and the kernel's would be new ones.
        self.__dict__.update(
            original=original, _kernel=None, _refusal="", _device=None, _inference=None, _stream=None, **NOTHING_BOUND
        )
        self.__dict__["_behind"] = standing_for(original)
        self.__dict__["_turn"] = threading.Lock()  # kernels were judged one call at a time, and may have a buffer for all
        self.init, self.warn, self.forms = init, warn, [prepared(form) for form in self.FACTS["calls"]]
        self.returns = [form and prepared(form) for form in self.FACTS["returns"]]
        self.specs = [form and specs_of(form) for form in self.returns]
        self.classes = {name: each for form in self.returns if form for name, each in classes_of(form, own).items()}
        self.calls, self.fallbacks, self._matched = 0, Counter[str](), 0
        self._most = max(len(content) for _, content in self.forms) - len(self.FACTS["keywords"])
        self._names, self._keywords = named_places(own, self.FACTS["keywords"])
        self._gaps = self.FACTS["gaps"]
        first = self.returns[0]
        self._stride = first[1][2] if first and first[0] == "tensor" else None
        self._ignored, self._hooks, self._contents = tuple(ignore), hooks_of(original), contents_of(original, ignore)
        self.number = numbered(self)
        self._build(next(iter(tensors(original)), torch.empty(0)).device, refuse=True)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling() or _is_tracing():
            return self._traced(arguments, options)
        own = self.__dict__  # attributes of a module are found slowly, and a kernel for one token takes a few microseconds
        unchanged = own["_unchanged"]
        if unchanged is not None and not options and len(arguments) == own["_most"] and own["_turn"].acquire(False):
            try:
                if unchanged(arguments) and torch.is_inference_mode_enabled() is own["_inference"]:
                    own["calls"] += 1
                    if own["_device"].type == "cuda":
                        self._follow(own["_device"])
                    result = own["_function"](*arguments)
                    as_is = result.__class__ is torch.Tensor and result.stride() == own["_stride"]
                    return result if as_is else self._laid_out(result)
            finally:
                own["_turn"].release()
        placed: Any = arguments
        if options or own["_keywords"] or len(arguments) != own["_most"]:
            placed = in_place(arguments, options, own["_names"], own["_keywords"], own["_most"])
        if own["_gaps"] and placed is not None:
            placed = side_by_side(placed)
        if placed is None:
            reason = f"keyword arguments {without_place(options, self._names, self._keywords, self._most)}".rstrip()
        elif not own["_turn"].acquire(False):
            reason = "another thread is in a call"
        else:
            try:
                reason = self._reason(placed)
                if not reason:
                    return self._answer(placed)
            finally:
                own["_turn"].release()
        fallbacks = own["fallbacks"]
        if self.warn and not fallbacks:
            warnings.warn(f"{self.FACTS['class']}: the original runs in place of the kernel: {reason}", stacklevel=4)
        if reason not in fallbacks and len(fallbacks) >= MOST_REASONS:
            reason = "other reasons"
        fallbacks[reason] += 1
        return own["original"](*arguments, **options)

    def _answer(self, placed: Any) -> Any:
        """The kernel's."""
        own = self.__dict__
        own["calls"] += 1
        if own["_device"].type == "cuda":
            self._follow(own["_device"])
        if own["_inference"] is None:
            own["_inference"] = torch.is_inference_mode_enabled()
        if own["_keywords"]:
            most = own["_most"]
            outputs = own["_function"](*placed[:most], **dict(zip(self.FACTS["keywords"], placed[most:])))
        else:
            outputs = own["_function"](*placed)
        for place in own["_buffers_bound"]:  # what the kernel itself did to a buffer is no news to it
            place.look()
        return self._laid_out(outputs)

    def _laid_out(self, outputs: Any) -> Any:
        form = self.returns[self._matched]
        return as_laid_out(outputs, form, self.specs[self._matched], self.classes) if form else outputs

    def _follow(self, device: torch.device) -> None:
        """Calls on several streams come one after the other, as threads' do: they may share a buffer of the kernel's."""
        now = torch.cuda.current_stream(device)
        if now != self._stream and not torch.cuda.is_current_stream_capturing():
            if self._stream is not None:
                now.wait_stream(self._stream)
            self.__dict__["_stream"] = now

    def _traced(self, arguments: Any, options: Any) -> Any:
        """A compiler sees one operator in place of the module, which does at run time what a call outside of compiled code does. An exported
        graph, a traced one and one with gradients hold the original, and so does any of a module that changes its inputs or buffers: calls of an
        operator may be left out, or come in another order."""
        exported = torch.jit.is_tracing() or torch.compiler.is_exporting()  # type: ignore[attr-defined]
        if not exported and not torch.is_grad_enabled() and not self.FACTS["mutates"] and not self.FACTS["changes"]:
            placed = in_place(arguments, options, self._names, self._keywords, self._most)
            for place, form in enumerate(self.forms):
                seen: list[torch.Tensor] = []
                returned = self.returns[place]
                if placed is not None and returned is not None and fitting(placed, form, seen) and seen:
                    results = torch.ops.bottega.drop_in(seen, self.number, place)
                    return filled(returned, iter(results), self.classes)
        return self.original(*arguments, **options)

    def run(self, given: list[torch.Tensor], place: int) -> list[torch.Tensor]:
        """The operator: a call of the form at this place, with tensors of their own as results."""
        row = filled(self.forms[place], iter(given), {})
        form: Any = self.returns[place]
        with torch.no_grad():
            outputs = self(*row[: self._most], **dict(zip(self.FACTS["keywords"], row[self._most :])))
            results = leaves_of(outputs, form)
            for at, (result, (_, shape, stride)) in enumerate(zip(results, self.specs[place] or ())):
                if result.stride() != stride or any(result is each for each in given):
                    results[at] = torch.empty_strided(shape, stride, dtype=result.dtype, device=result.device).copy_(result)
        return results

    def like(self, given: list[torch.Tensor], place: int) -> list[torch.Tensor]:
        """Tensors like the operator's results, for a compiler."""
        device = given[0].device
        specs = self.specs[place] or ()
        return [torch.empty_strided(shape, stride, dtype=dtype, device=device) for dtype, shape, stride in specs]

    def refresh(self) -> None:
        """Let the kernel forget what it may have kept of the weights. Needed only after changes through `.data`, which leave no trace."""
        self.__dict__.update(_kernel=None, _function=None, **NOTHING_BOUND)

    def _reason(self, arguments: Any) -> str:
        """Why the original must run; nothing when the kernel may."""
        own, facts = self.__dict__, self.FACTS
        told = told_to_torch(facts["device"])
        if told:
            return told
        if facts["training"] is not None and self.training is not facts["training"]:
            return f"the module is in {'training' if self.training else 'evaluation'} mode"
        seen: list[torch.Tensor] = []
        reason = "other arguments"
        for place, form in enumerate(own["forms"]):
            seen.clear()
            reason = form_mismatch(arguments, form, seen)
            if not reason:
                own["_matched"] = place
                break
        if reason:
            return reason
        device = seen[0].device if seen else torch.device(facts["device"])
        kind = device.type
        if kind != facts["device"]:
            return f"a tensor on {kind}"
        if len(seen) > 1 and any(tensor.device != device for tensor in seen):
            return "tensors on several devices"
        if kind == "cuda" and device.index != torch.cuda.current_device():
            return "another device is the current one"
        if kind == "cuda" and facts["own_stream"] and torch.cuda.current_stream() != torch.cuda.default_stream():
            return "another stream is the current one"
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*seen, *self.parameters(), *self._others())):
            return "gradients are wanted; call it under torch.no_grad()"
        if facts["mutates"] or facts["changes"]:
            owned = [storage_of(place.tensor) for place in self._bound]
            if len({tensor.untyped_storage().data_ptr() for tensor in seen}.difference(owned)) < len(seen):
                return "inputs that share memory"
        autocast = str(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else None
        if autocast != facts["autocast"]:
            return f"autocast is {'on' if autocast else 'off'}"
        if torch.get_default_dtype() is not torch.float32:
            return "the default data type is not float32"
        for each in own["_behind"]:
            if each._forward_hooks or each._forward_pre_hooks:
                return "the original has hooks"
        later = own["_inference"] and not torch.is_inference_mode_enabled()
        if own["_kernel"] is None or own["_device"] != device or later:
            self._build(device)  # what it made in its first call, in inference mode, cannot be written elsewhere
        else:
            reason = self._changed(own, device)
            if reason:
                return reason
        for part, mode in own["_modes"]:
            if part.training is not mode:
                return f"a part of it is in {'evaluation' if mode else 'training'} mode"
        return str(own["_refusal"])

    def _changed(self, own: dict[str, Any], device: torch.device) -> str:
        """What is no longer as it was; where that is only the weights, the kernel is built anew."""
        for part, kind, held, count in own["_parts"]:
            if type(part) is not kind:
                return "a part of it was given another class"
            if len(held["_forward_hooks"]) + len(held["_forward_pre_hooks"]) != count:
                return "a part of it has hooks"
        for held, size in own["_sizes"]:
            if len(held) != size:
                return "parts or weights were added after the module was loaded, or taken away"
        anew = False
        for held, name, value in own["_watched"]:
            now = held.get(name)
            if now is not value and not is_same(now, value):
                if not isinstance(value, nn.Module) or original_of(now) is not original_of(value):
                    return f"{name} was changed after the module was loaded"
                anew = True  # a kernel was put in its place, or taken away
        for place in own["_bound"]:
            if place.changed():
                anew = True
                break
        if anew:
            self._build(device)
        return ""

    def _build(self, device: torch.device, refuse: bool = False) -> None:
        """A kernel that uses the parameters as they are now. After an update it is a new one: the last may have kept something of them."""
        with torch.inference_mode(False), torch.no_grad(), torch.random.fork_rng(devices=[]):
            positional, keywords = copy.deepcopy(self.init)
            kernel = self.KERNEL(*positional, **keywords).to(device)
        if self.FACTS["kernel_training"] is not None:
            kernel.train(self.FACTS["kernel_training"])
        wanted, own = places(self.original), places(kernel)
        refusal = mismatch(own, wanted)
        if refusal and refuse:
            raise ValueError(
                f"the kernel cannot use the parameters of this {self.FACTS['class']}: it {refusal}. It was judged with parameters "
                "of its own; share them by hand, or ask for a kernel that keeps the names"
            )
        align(wanted)
        kept = keepsake(kernel, own)
        if kept and refuse:
            raise ValueError(
                f"the kernel keeps {kept} from its construction, beside its parameters: it would miss updates of them"
            )
        refusal = f"the parameters have changed: the kernel {refusal}" if refusal else kept or unlike(own, wanted, device)
        if not refusal:
            share(kernel, own, wanted)
        bound = [*wanted.values(), *unshared(self.original, self._ignored)]
        buffers = [place for place in wanted.values() if not isinstance(place.known, nn.Parameter)]
        refusal = refusal or self._otherwise() or untied(wanted, self.FACTS["ties"])
        self.__dict__.update(
            _kernel=kernel,
            _function=called_of(kernel),
            _bound=bound,
            _buffers_bound=buffers,
            _refusal=refusal,
            _device=device,
            _inference=None,
        )
        named = [(path, each) for path, part in self.original.named_modules() if path for each in standing_for(part)]
        mode, modes = self.FACTS["training"], self.FACTS["modes"]
        self.__dict__.update(
            _unchanged=None,
            _parts=[(part, type(part), part.__dict__, hook_count(part)) for _, part in named],
            _modes=[] if mode is None else [(part, modes.get(path, mode)) for path, part in named],
            _watched=watched(self.original, self._ignored),
            _sizes=sizes(self.original),
        )
        if not refusal and not buffers and len(self.forms) == 1 and not self._keywords and not self._gaps:
            self.__dict__["_unchanged"] = self._unchanged_check(device)

    def _unchanged_check(self, device: torch.device) -> Any:
        facts = self.FACTS
        if facts["mutates"] or facts["autocast"] is not None or (device.type == "cuda" and facts["own_stream"]):
            return None
        hooks = [*self._parts, *((each, type(each), each.__dict__, 0) for each in self._behind)]
        modes = [(original_of(part).__dict__, mode) for part, mode in self._modes]
        if self.FACTS["training"] is not None:
            modes.append((original_of(self).__dict__, self.FACTS["training"]))
        return unchanged_check(self.forms[0], device, self._bound, self._watched, self._sizes, hooks, modes)

    def _others(self) -> Any:
        """Tensors that it has beside its parameters."""
        return (place.tensor for place in self._bound if place.tensor is not None)

    def _otherwise(self) -> str:
        """What else than its weights is no longer as it was when the module was loaded."""
        if hooks_of(self.original) != self._hooks:
            return "a part of it has hooks"
        if contents_of(self.original, self._ignored) != self._contents:
            return "a table of it was changed after the module was loaded"
        return difference(self.original, self.FACTS["built"], self._ignored)

    @property
    def training(self) -> bool:  # type: ignore[override]
        return bool(self.__dict__["original"].training) if "original" in self.__dict__ else True

    @training.setter
    def training(self, mode: bool) -> None:
        if "original" in self.__dict__:
            self.__dict__["original"].training = mode

    def state_dict(self, *arguments: Any, **options: Any) -> Any:
        return self.original.state_dict(*arguments, **options)

    def load_state_dict(self, *arguments: Any, **options: Any) -> Any:
        return self.original.load_state_dict(*arguments, **options)

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> Any:
        return self.original._load_from_state_dict(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if "original" not in self.__dict__:
                raise
            return getattr(self.__dict__["original"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """An attribute of the original's is set there, where its code will look for it."""
        original = original_of(self) if "original" in self.__dict__ else None
        if original is not None and name in original.__dict__ and name not in self.__dict__:
            setattr(original, name, value)
        else:
            super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """A copy builds a kernel of its own when it is first called: compiled code and its buffers cannot be copied."""
        return {**self.__dict__, "_kernel": None, "_function": None, "_turn": None, "_stream": None, **NOTHING_BOUND}

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self.__dict__.update(number=numbered(self), _turn=threading.Lock())

    def __prepare_scriptable__(self) -> Any:
        """What TorchScript takes in its place."""
        return self.original

    def extra_repr(self) -> str:
        return f"a kernel for {self.FACTS['class']}: {self.calls} calls of it, {sum(self.fallbacks.values())} of the original"


def called_of(kernel: nn.Module) -> Any:
    """What a call of it runs: its `forward`, where nothing is done around that."""
    plain = type(kernel).__call__ is nn.Module.__call__ and not hook_count(kernel) and kernel._compiled_call_impl is None
    return kernel.forward if plain else kernel


def numbered(module: Any) -> int:
    """A number by which compiled code finds a module. All delivered files of a process share one operator and one count."""
    home: Any = sys.modules.get("_bottega_drop_in")
    if home is None:
        home = sys.modules["_bottega_drop_in"] = types.ModuleType("_bottega_drop_in")
        home.modules, home.count = weakref.WeakValueDictionary(), itertools.count()
        schema = "(Tensor[] given, int number, int place) -> Tensor[]"

        def run(given: list[torch.Tensor], number: int, place: int) -> list[torch.Tensor]:
            return home.modules[number].run(given, place)  # type: ignore[no-any-return]

        def like(given: list[torch.Tensor], number: int, place: int) -> list[torch.Tensor]:
            return home.modules[number].like(given, place)  # type: ignore[no-any-return]

        # It looks at its arguments and weights in every call, and may replay a CUDA graph of its own: a compiler's graphs go around it.
        unsafe: Any = getattr(torch.Tag, "cudagraph_unsafe", None)
        tags = {"tags": [unsafe]} if unsafe is not None else {}
        home.operator = torch.library.custom_op("bottega::drop_in", run, mutates_args=(), schema=schema, **tags)
        home.operator.register_fake(like)
    number: int = next(home.count)
    home.modules[number] = module
    return number


def read_init(init: Any, original: Any) -> Any:
    """Constructor arguments as a pair: positional ones, and by name. Text is a pickle of that pair."""
    if isinstance(init, str):
        return InitReader(original, base64.b64decode(init)).load()
    if isinstance(init, dict):
        return (), init
    if isinstance(init, tuple) and len(init) == 2 and isinstance(init[0], tuple | list) and isinstance(init[1], dict):
        return init
    return init if init is None else (tuple(init), {})


class InitReader(pickle.Unpickler):
    """Finds classes of the module's own file where the original's class is."""

    def __init__(self, original: Any, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.home = type(original).__module__

    def find_class(self, module_name: str, global_name: str) -> Any:
        return super().find_class(self.home if module_name == "task" else module_name, global_name)
