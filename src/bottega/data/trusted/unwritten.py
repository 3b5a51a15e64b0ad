"""Memory that a kernel allocates and never writes reads as NaN here, as it does in the judge's own output memory.

Kernels share a process, and with it an allocator: what one forgets to write may hold the right answer of the one before it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bottega.judge.inputs import flat_bytes
from bottega.judge.layout import is_dense

_ALLOCATING = frozenset(
    {
        torch.empty,
        torch.empty_like,
        torch.empty_strided,
        torch.empty_permuted,
        torch.Tensor.new_empty,
        torch.Tensor.new_empty_strided,
    }
)


class Unwritten(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in _ALLOCATING and _fillable(made):
            flat_bytes(made).fill_(255)
        return made


def _fillable(made: Any) -> bool:
    if not isinstance(made, torch.Tensor) or not made.numel() or not is_dense(made.shape, made.stride()):
        return False
    return not (made.is_cuda and torch.cuda.is_current_stream_capturing())  # a graph would repeat it in every call
