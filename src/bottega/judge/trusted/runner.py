"""A runner without a process of its own: it answers as the judge's `Runner` does, so that the judge's trials take it.

What belongs to hostile code is left out: no second clock, no poisoned inputs, no frozen process. What belongs to wrong code is there: inputs
are copies that are compared afterwards, memory that was never written reads as NaN, and outputs in an input's memory are noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bottega.judge.call_options import CallOptions
from bottega.judge.call_record import CallRecord
from bottega.judge.dtypes import NUMBERS
from bottega.judge.failure import describe
from bottega.judge.inputs import InputSet, flat_bytes, same_bytes
from bottega.judge.invalid_task import out_of_memory
from bottega.judge.tensor_transport import TensorSpec, flatten, is_dense, lay_out
from bottega.judge.worker_link import RunnerFailed

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


class OutOfDeviceMemory(Exception):
    """The device's memory is full. It is shared with other workers, so this says nothing about the candidate."""


class InProcessRunner:
    """A module in this process."""

    retained = None
    """No outputs are retained over calls: trusted code returns memory of its own."""

    def __init__(
        self, name: str, module: Any, device: str, path: str = "", context: AbstractContextManager[Any] | None = None
    ) -> None:
        self.name, self.module, self.device, self.path = name, module, device, path
        self.context = context or nullcontext()
        self.outputs: list[torch.Tensor] = []
        self.inputs: list[torch.Tensor] = []

    def run_call(
        self,
        inputs: InputSet,
        options: CallOptions,
        keep: bool = False,
        look: Callable[[], Sequence[torch.Tensor]] | None = None,
    ) -> CallRecord:
        """One call on copies of the inputs. `keep` and `look` are for runners that are not trusted."""
        options.yield_to_timer()
        self.outputs = []
        self.inputs = [tensor.clone() for tensor in inputs.tensors]
        watching: AbstractContextManager[Any] = FillAllocations() if self.name == "candidate" else nullcontext()
        try:
            with torch.no_grad(), self.context, watching:
                result = inputs.call(self.module, self.inputs)
            self.synchronize()
            skeleton, tensors = flatten(result, NUMBERS)
            specs = lay_out(tensors, 0, options.strides)[0]
            aliases = _aliases(tensors, self.inputs)
            self.outputs = [_readable(tensor, spec, self.device) for tensor, spec in zip(tensors, specs)]
            restrided = any(tensor.stride() != spec.stride for tensor, spec in zip(tensors, specs))
        except torch.OutOfMemoryError:
            raise OutOfDeviceMemory from None
        except Exception as error:
            if self.name != "candidate" and out_of_memory(str(error)):  # libraries raise a plain RuntimeError for it
                raise OutOfDeviceMemory from None
            raise RunnerFailed("failure", describe("forward", error, self.path)) from None
        return CallRecord(0, 0, 0, skeleton, specs, aliases, restrided, 0, False)

    def call(self, inputs: InputSet, copied: bool) -> Any:
        """One call whose outputs are not read. Inputs are copied only where a call changes them."""
        tensors = [tensor.clone() for tensor in inputs.tensors] if copied else inputs.tensors
        with torch.no_grad(), self.context:
            return inputs.call(self.module, tensors)

    def output_views(self, specs: list[TensorSpec]) -> list[torch.Tensor]:
        return self.outputs

    def input_views(self, record: CallRecord) -> list[torch.Tensor]:
        return self.inputs

    def mutated(self, record: CallRecord, inputs: InputSet) -> list[int]:
        pairs = enumerate(zip(self.inputs, inputs.tensors))
        return [
            number for number, (after, before) in pairs if after.stride() == before.stride() and not same_bytes(after, before)
        ]

    def forget(self) -> None:
        """Release the last call's tensors."""
        self.outputs, self.inputs = [], []

    def synchronize(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


class FillAllocations(TorchFunctionMode):
    """Memory that a candidate allocates reads as NaN until it is written, as in the judge's own output memory. Candidates share an allocator:
    what one does not write may hold the correct output of the one before it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in _ALLOCATING and _fillable(made):
            flat_bytes(made).fill_(255)
        return made


def _fillable(made: Any) -> bool:
    if not isinstance(made, torch.Tensor) or not made.numel() or not is_dense(made.shape, made.stride()):
        return False
    return not (made.is_cuda and torch.cuda.is_current_stream_capturing())  # a graph would repeat it in every call


def _readable(tensor: torch.Tensor, spec: TensorSpec, device: str) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg().to(device)
    if tensor.stride() == spec.stride:
        return tensor
    return torch.empty_strided(spec.shape, spec.stride, dtype=tensor.dtype, device=device).copy_(tensor)


def _aliases(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> frozenset[int]:
    spans = [(tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in inputs if tensor.numel()]
    return frozenset(
        number
        for number, tensor in enumerate(outputs)
        if tensor.numel() and any(low <= tensor.data_ptr() < high for low, high in spans)
    )
