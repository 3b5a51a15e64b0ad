"""The first look at a call: whether all is as in the last one that was looked at in full. It stands for the long way, which says what differs.

In a model that generates text a kernel takes a few microseconds, and most of what is looked at has gone from the processor's caches since the last
token: one function over few objects costs a third of the long way.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from bottega.episodes.delivery.drop_in.modes import told_to_torch
from bottega.episodes.delivery.drop_in.state import ALIGNMENT, Place

Check = Callable[[Sequence[Any]], bool]


def unchanged_check(
    form: Any, device: torch.device, bound: Sequence[Place], watched: Any, sizes: Any, hooks: Any, modes: Any
) -> Check | None:
    """None for calls of another kind than tensors alone. `hooks`: modules, with class, dictionary and number of hooks; `modes`: those of modules
    that must be in training or in evaluation mode."""
    kind, content = form
    if kind != "tuple" or any(part[0] != "tensor" for part in content):
        return None
    tensors = tuple((dtype, shape, stride) for _, (dtype, shape, stride) in content)
    weights = tuple((each.held, each.leaf, each.known, each.version, each.address, each.word, each.content) for each in bound)
    on_gpu, name = device.type == "cuda", device.type
    grad, autocast, default, current = (
        torch.is_grad_enabled,
        torch.is_autocast_enabled,
        torch.get_default_dtype,
        torch.cuda.current_device,
    )
    plain, strided, single = torch.Tensor, torch.strided, torch.float32

    def unchanged(arguments: Sequence[Any]) -> bool:
        if told_to_torch(name):
            return False
        if grad() or autocast(name) or default() is not single or (on_gpu and current() != device.index):
            return False
        try:
            for value, (dtype, shape, stride) in zip(arguments, tensors):
                if type(value) is not plain or value.shape != shape or value.dtype is not dtype or value.layout is not strided:
                    return False
                if value.device != device or value.stride() != stride or value.data_ptr() % ALIGNMENT:
                    return False
                if value.is_neg() or value.is_conj():
                    return False
            for held, leaf, known, version, address, word, content in weights:
                now = held.get(leaf)
                if now is not known or (version >= 0 and now._version != version) or now.data_ptr() != address:
                    return False
                if word is not None and word.value != content:
                    return False
        except RuntimeError:  # a tensor that stands for something else
            return False
        for held, leaf, value in watched:
            if held.get(leaf) is not value:
                return False
        for held, size in sizes:
            if len(held) != size:
                return False
        for part, kind, held, count in hooks:
            if part.__class__ is not kind or len(held["_forward_hooks"]) + len(held["_forward_pre_hooks"]) != count:
                return False
        return all(held["training"] is mode for held, mode in modes) if modes else True

    return unchanged
