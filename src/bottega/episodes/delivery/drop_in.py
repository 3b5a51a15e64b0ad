"""The module around a kernel in every delivered file. Its text is copied there, so it knows torch and the standard library only.

The kernel runs where a call looks like those that it was judged on. Everywhere else (other shapes, gradients wanted, another layout) the
original module runs, as it would without Bottega. Both use one set of parameters, so that an update of the weights reaches both.
"""

import contextlib
import copy
import inspect
import warnings
from collections import Counter
from typing import Any

import torch
from torch import nn

MOST_REASONS = 32
ALIGNMENT = 64
"""Bytes. Tensors of torch's own lie so, and so did the judged ones: kernels with vector loads rely on it."""


NOTHING_BOUND: dict[str, Any] = {"_bound": (), "_buffers_bound": (), "_watched": (), "_parts": ()}


class DropIn(nn.Module):
    """A faster form of one module. `calls` counts calls of the kernel, `fallbacks` those of the original, by reason."""

    KERNEL: Any = None
    """The class of the kernel's module."""
    FACTS: dict[str, Any] = {}  # noqa: RUF012 (a subclass sets it)
    """What it was judged on."""

    def __init__(self, original: nn.Module, init: Any = None, ignore: Any = (), warn: bool = False) -> None:
        super().__init__()
        if not isinstance(original, nn.Module):
            raise TypeError(f"an instance of the original module is wanted, not {type(original).__name__}")
        init = self.FACTS["init"] if init is None else init
        if init is None:
            raise ValueError(
                "give init=[…], the arguments that the original was built with: they could not be written down here"
            )
        differing = difference(original, self.FACTS["built"], ignore)
        if differing:
            raise ValueError(
                f"this kernel was made for another {self.FACTS['class']}: {differing}. "
                "Optimize the module as you build it, or name attributes that do not matter in ignore=(…)"
            )
        # The same dictionaries for both: parameters, names, checkpoints and .to() are the original's own.
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[name] = original.__dict__[name]
        # Neither is a child: the original's parameters would have two names, and the kernel's would be new ones.
        self.__dict__.update(original=original, _kernel=None, _refusal="", _device=None, **NOTHING_BOUND)
        self.init, self.warn, self.forms = init, warn, [prepared(form) for form in self.FACTS["calls"]]
        self.calls, self.fallbacks = 0, Counter[str]()
        self._most = max(len(content) for _, content in self.forms)
        self._names, self._ignored, self._hooks = named_places(original), tuple(ignore), hooks_of(original)
        self._build(next(iter(tensors(original)), torch.empty(0)).device, refuse=True)

    def forward(self, *arguments: Any, **options: Any) -> Any:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined]
            return self.original(*arguments, **options)
        placed: Any = arguments
        if options or len(arguments) < self._most:
            placed = in_place(arguments, options, self._names, self._most)
        reason = "keyword arguments" if placed is None else self._reason(placed)
        if reason:
            if self.warn and not self.fallbacks:
                warnings.warn(f"{self.FACTS['class']}: the original runs in place of the kernel: {reason}", stacklevel=4)
            if reason not in self.fallbacks and len(self.fallbacks) >= MOST_REASONS:
                reason = "other reasons"
            self.fallbacks[reason] += 1
            return self.original(*arguments, **options)
        self.__dict__["calls"] += 1  # not through nn.Module, which looks long at what is set
        outputs = self._kernel(*placed)
        for place in self._buffers_bound:  # what the kernel itself did to a buffer is no news to it
            place.look()
        return outputs

    def refresh(self) -> None:
        """Let the kernel forget what it may have kept of the weights. Needed only after changes through `.data`, which leave no trace."""
        self.__dict__.update(_kernel=None, **NOTHING_BOUND)

    def _reason(self, arguments: Any) -> str:
        """Why the original must run; nothing when the kernel may."""
        facts = self.FACTS
        if facts["training"] is not None and self.training is not facts["training"]:
            return f"the module is in {'training' if self.training else 'evaluation'} mode"
        seen: list[torch.Tensor] = []
        reason = "other arguments"
        for form in self.forms:
            seen.clear()
            reason = misfit(arguments, form, seen)
            if not reason:
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
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*seen, *self.parameters())):
            return "gradients are wanted; call it under torch.no_grad()"
        if facts["mutates"] and len({tensor.untyped_storage().data_ptr() for tensor in seen}) < len(seen):
            return "inputs that share memory"
        autocast = str(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else None
        if autocast != facts["autocast"]:
            return f"autocast is {'on' if autocast else 'off'}"
        if torch.get_default_dtype() is not torch.float32:
            return "the default data type is not float32"
        if self.original._forward_hooks or self.original._forward_pre_hooks:
            return "the original has hooks"
        if self._kernel is None or self._device != device:
            self._build(device)
        else:
            for part, count in self._parts:
                if len(part._forward_hooks) + len(part._forward_pre_hooks) != count:
                    return "a part of it has hooks"
            for held, name, value in self._watched:
                now = held.get(name)
                if now is not value and now != value:
                    return f"{name} was changed after the module was loaded"
            for place in self._bound:
                if place.changed():
                    self._build(device)
                    break
        return str(self._refusal)

    def _build(self, device: torch.device, refuse: bool = False) -> None:
        """A kernel that uses the parameters as they are now. After an update it is a new one: the last may have kept something of them."""
        with torch.inference_mode(False), torch.no_grad(), torch.random.fork_rng(devices=[]):
            kernel = self.KERNEL(*copy.deepcopy(self.init)).to(device)
        if self.FACTS["kernel_training"] is not None:
            kernel.train(self.FACTS["kernel_training"])
        wanted, own = places(self.original), places(kernel)
        refusal = mismatch(own, wanted)
        if refusal and refuse:
            raise ValueError(
                f"the kernel cannot use the parameters of this {self.FACTS['class']}: it {refusal}. It was judged with parameters "
                "of its own; share them by hand, or ask for a kernel that keeps the names"
            )
        kept = keepsake(kernel, own)
        if kept and refuse:
            raise ValueError(
                f"the kernel keeps {kept} from its construction, beside its parameters: it would miss updates of them"
            )
        refusal = f"the parameters have changed: the kernel {refusal}" if refusal else kept or unlike(own, wanted, device)
        if not refusal:
            share(kernel, own, wanted)
        bound = list(wanted.values())
        buffers = [place for place in bound if not isinstance(place.known, nn.Parameter)]
        refusal = refusal or self._otherwise()
        self.__dict__.update(_kernel=kernel, _bound=bound, _buffers_bound=buffers, _refusal=refusal, _device=device)
        parts = [(part, self._hooks.get(path, 0)) for path, part in self.original.named_modules() if path]
        self.__dict__.update(_parts=parts, _watched=watched(self.original, self._ignored))

    def _otherwise(self) -> str:
        """What else than its weights is no longer as it was when the module was loaded."""
        if hooks_of(self.original) != self._hooks:
            return "a part of it has hooks"
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
        original = self.__dict__.get("original")
        if original is not None and name in original.__dict__ and name not in self.__dict__:
            setattr(original, name, value)
        else:
            super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """A copy builds a kernel of its own when it is first called: compiled code and its buffers cannot be copied."""
        return {**self.__dict__, "_kernel": None, **NOTHING_BOUND}

    def extra_repr(self) -> str:
        return f"a kernel for {self.FACTS['class']}: {self.calls} calls of it, {sum(self.fallbacks.values())} of the original"


class Place:
    """Where a module holds one tensor of its state, and what the tensor was like when last looked at."""

    def __init__(self, owner: nn.Module, held: dict[str, Any], leaf: str) -> None:
        self.owner, self.held, self.leaf = owner, held, leaf
        self.look()

    @property
    def tensor(self) -> Any:
        return self.held.get(self.leaf)

    def look(self) -> None:
        self.known: Any = self.held[self.leaf]
        self.counted = not self.known.is_inference()
        self.version, self.address = self.known._version if self.counted else -1, self.known.data_ptr()

    def changed(self) -> bool:
        now: Any = self.held.get(self.leaf)
        if now is not self.known:
            return True
        return bool(now.data_ptr() != self.address or (self.counted and now._version != self.version))


def places(module: nn.Module) -> dict[str, Place]:
    """The tensors of a module's state by name."""
    kept = module.state_dict(keep_vars=True).keys()
    found = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for held in (owner._parameters, owner._buffers):
            for leaf, tensor in held.items():
                name = f"{path}.{leaf}" if path else leaf
                if tensor is not None and name in kept:
                    found[name] = Place(owner, held, leaf)
    return found


def tensors(module: nn.Module) -> list[Any]:
    return [place.tensor for place in places(module).values()]


def hooks_of(module: nn.Module) -> dict[str, int]:
    """How many hooks each part has. Some come with a module (as weight_norm's do); one that is added later must be heard."""
    counts = {path: len(part._forward_hooks) + len(part._forward_pre_hooks) for path, part in module.named_modules() if path}
    return {path: count for path, count in counts.items() if count}


def watched(module: nn.Module, ignore: Any) -> list[Any]:
    """Where a module's parts and their plain attributes are kept, by name, and what is there now."""
    found: list[Any] = []
    for owner in module.modules():
        found += [(owner._modules, name, part) for name, part in owner._modules.items()]
        found += [(owner.__dict__, name, owner.__dict__[name]) for name in plain_names(owner) if name not in ignore]
    return found


def named_places(module: nn.Module) -> list[Any]:
    """The places of a call: each argument's name with its default in a list, or an empty list where it has none."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (ValueError, TypeError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [(each.name, [] if each.default is each.empty else [each.default]) for each in parameters if each.kind in kinds]


def in_place(arguments: Any, options: Any, names: list[Any], most: int) -> Any:
    """A call as it would be without keywords and with its defaults written out; None where a keyword has no place among those judged."""
    row, used = list(arguments), 0
    for name, default in names[len(row) : most]:
        if name in options:
            row.append(options[name])
            used += 1
        elif default:
            row.append(default[0])
        else:
            break
    return tuple(row) if used == len(options) else None


def prepared(form: Any) -> Any:
    """A form as pairs of kind and content, with data types as torch has them: what is looked at in every call must be quick."""
    ((kind, content),) = form.items()
    if kind == "tensor":
        dtype, shape, stride = content
        return kind, (getattr(torch, dtype.removeprefix("torch.")), shape, stride)
    if kind in ("tuple", "list"):
        return kind, tuple(prepared(item) for item in content)
    if kind == "dict":
        return kind, tuple((key, prepared(item)) for key, item in content)
    return kind, content


def misfit(value: Any, form: Any, seen: list[torch.Tensor]) -> str:
    """How a value differs from the form that it had when the kernel was judged; its tensors are put into `seen`."""
    kind, wanted = form
    if kind == "tensor":
        return misfit_tensor(value, wanted, seen)
    if kind in ("tuple", "list"):
        if not isinstance(value, tuple if kind == "tuple" else list) or len(value) != len(wanted):
            return "other arguments" if isinstance(value, tuple | list) else f"a {type(value).__name__} where a {kind} was"
        for item, part in zip(value, wanted):
            reason = misfit(item, part, seen)
            if reason:
                return reason
        return ""
    if kind == "dict":
        if not isinstance(value, dict) or list(value) != [key for key, _ in wanted]:
            return "another dictionary"
        return next((reason for key, part in wanted if (reason := misfit(value[key], part, seen))), "")
    if kind == "type":
        return "" if type(value).__name__ == wanted else f"a {type(value).__name__} where a {wanted} was"
    return "" if type(value) is type(wanted) and value == wanted else f"{value!r} where {wanted!r} was"


def misfit_tensor(value: Any, wanted: Any, seen: list[torch.Tensor]) -> str:
    if type(value) is not torch.Tensor and type(value) is not nn.Parameter:
        return f"a {type(value).__name__} where a tensor was"
    dtype, shape, stride = wanted
    if value.shape != shape:
        return f"shape {tuple(value.shape)} where {shape} was"
    if value.dtype is not dtype:
        return f"{value.dtype} where {dtype} was"
    if value.layout is not torch.strided or value.is_conj() or value.is_neg():
        return "another memory layout"
    if value.stride() != stride and any(size > 1 and a != b for size, a, b in zip(shape, value.stride(), stride)):
        return "another memory layout"
    try:
        if value.numel() and value.data_ptr() % ALIGNMENT:
            return "a tensor that is not aligned"
    except RuntimeError:  # a tensor that stands for something else, as in functorch
        return "a tensor without memory of its own"
    seen.append(value)
    return ""


def mismatch(own: dict[str, Place], wanted: dict[str, Place]) -> str:
    """How the names or shapes of two modules' states differ; nothing when they do not."""
    shapes = [name for name in own.keys() & wanted.keys() if own[name].tensor.shape != wanted[name].tensor.shape]
    parts = (("lacks", wanted.keys() - own.keys()), ("adds", own.keys() - wanted.keys()), ("has other shapes for", shapes))
    return "; ".join(f"{word} {', '.join(sorted(names)[:5])}" for word, names in parts if names)


def unlike(own: dict[str, Place], wanted: dict[str, Place], device: torch.device) -> str:
    """Why the original's tensors cannot stand in for the kernel's as they lie in memory now."""
    for name, place in own.items():
        mine, theirs = place.tensor, wanted[name].tensor
        if theirs.device != device:
            return f"parameter {name} is on {theirs.device}"
        if theirs.dtype != mine.dtype:
            return f"parameter {name} is {theirs.dtype} where {mine.dtype} was"
        if theirs.layout != mine.layout or any(n > 1 and a != b for n, a, b in zip(mine.shape, mine.stride(), theirs.stride())):
            return f"parameter {name} has another memory layout"
        if theirs.numel() and theirs.data_ptr() % ALIGNMENT:
            return f"parameter {name} is not aligned"
    return ""


def share(kernel: nn.Module, own: dict[str, Place], wanted: dict[str, Place]) -> None:
    """Put the original's tensors, not copies of them, in the place of the kernel's."""
    for name, place in own.items():
        mine, theirs = place.tensor, wanted[name].tensor
        place.owner._parameters.pop(place.leaf, None)
        place.owner._buffers.pop(place.leaf, None)
        held: Any = place.owner._parameters if isinstance(theirs, nn.Parameter) else place.owner._buffers
        held[place.leaf] = theirs
        if mine.is_floating_point() and mine is not theirs:
            # Whoever still looks at the old one, in a way that `keepsake` cannot see, shall not find plausible values there.
            with torch.no_grad(), contextlib.suppress(RuntimeError):
                mine.fill_(float("nan"))


def keepsake(kernel: nn.Module, own: dict[str, Place]) -> str:
    """The name of an attribute that holds a parameter, or a view of one, a second time."""
    storages = {place.tensor.untyped_storage().data_ptr() for place in own.values() if place.tensor.numel()}

    def held(value: Any, depth: int = 0) -> bool:
        if isinstance(value, torch.Tensor):
            return value.layout is torch.strided and value.untyped_storage().data_ptr() in storages
        if isinstance(value, dict):
            value = list(value.values())
        return depth < 4 and isinstance(value, list | tuple | set) and any(held(item, depth + 1) for item in value)

    for path, owner in kernel.named_modules():
        registered = ("_parameters", "_buffers", "_modules")
        attributes = {name: value for name, value in owner.__dict__.items() if name not in registered}
        extra = {name: value for name, value in owner._buffers.items() if (f"{path}.{name}" if path else name) not in own}
        for name, value in (*attributes.items(), *extra.items()):
            if held(value):
                return f"{path}.{name}" if path else name
    return ""


def difference(original: nn.Module, built: dict[str, Any], ignore: Any) -> str:
    """What about a module is not as it was when the kernel was made: its parts, and their plain attributes."""
    found = attributes_of(original)
    for path in [*built, *found]:
        where = f"its part {path}" if path else "it"
        if path not in found or path not in built:
            return f"{where} is {'missing' if path not in found else 'new'}"
        (was, wanted), (kind, own) = built[path], found[path]
        if kind != was:
            return f"{where} is a {kind}, and was a {was}"
        for name in [*wanted, *own]:
            if name not in ignore and own.get(name) != wanted.get(name):
                shown = f"{path}.{name}" if path else name
                return f"{shown} is {own.get(name, 'missing')}, and was {wanted.get(name, 'missing')}"
    return ""


def attributes_of(module: nn.Module) -> dict[str, Any]:
    """By part: its class and its plain attributes, as they print."""
    found = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        plain = {}
        for name in plain_names(owner):
            text = repr(owner.__dict__[name])
            if len(text) <= 200:
                plain[name] = text
        found[path] = (type(owner).__name__, plain)
    return found


def plain_names(owner: nn.Module) -> list[str]:
    return [
        name for name, value in owner.__dict__.items() if not name.startswith("_") and name != "training" and is_plain(value)
    ]


def is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, tuple | list):
        return depth < 3 and all(is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, bool | int | float | str)
