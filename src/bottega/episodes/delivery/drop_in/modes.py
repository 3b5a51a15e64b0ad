"""What torch was told for every call of the process or the thread: under it a kernel would do something else than the original."""

from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

_transform = getattr(getattr(torch._C, "_functorch", None), "maybe_current_level", lambda: None)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_function_modes = getattr(torch._C, "_len_torch_function_stack", lambda: 0)
_modules: Any = nn.modules.module


def told_to_torch(device: str) -> str:
    """Why the original must run, whatever the call; nothing when the kernel may. `device`: the type of the kernel's."""
    if _transform() is not None or _dispatch_modes() or forward_ad._current_level >= 0:
        return "a transform or mode of torch's is on"
    if _function_modes() and not _only_default_device(device):
        return "a transform or mode of torch's is on"
    if torch.are_deterministic_algorithms_enabled():
        return "deterministic algorithms are wanted"
    if _modules._global_forward_hooks or _modules._global_forward_pre_hooks:
        return "all modules have hooks"
    return ""


def _only_default_device(device: str) -> bool:
    """Whether `torch.set_default_device` with this device is all that stands between a call and torch's functions."""
    from torch.overrides import _get_current_function_mode_stack
    from torch.utils._device import DeviceContext

    return all(isinstance(mode, DeviceContext) and mode.device.type == device for mode in _get_current_function_mode_stack())
