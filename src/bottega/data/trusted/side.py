"""One side of a comparison without a process of its own: it answers as the judge's `Side` does, so that the judge's trials take it.

What belongs to hostile code is left out: no second clock, no spoiled inputs, no frozen process. What belongs to wrong code is there:
inputs are copies that are looked at afterwards, unwritten outputs read as NaN, and outputs in an input's memory are noticed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from bottega.data.trusted.unwritten import Unwritten
from bottega.judge.failure import describe
from bottega.judge.inputs import Drawn, same_bytes
from bottega.judge.layout import TensorSpec, flatten, lay_out
from bottega.judge.runner import SideFailed, Turn
from bottega.judge.terms import Terms
from bottega.judge.widening import NUMBERS


class Crowded(Exception):
    """The device's memory is full. It is shared with others who are at work, so this says nothing about the kernel."""


class OwnSide:
    """A module in this process."""

    def __init__(
        self, name: str, module: Any, device: str, path: str = "", context: AbstractContextManager[Any] | None = None
    ) -> None:
        self.name, self.module, self.device, self.path = name, module, device, path
        self.context = context or nullcontext()
        self.outputs: list[torch.Tensor] = []
        self.inputs: list[torch.Tensor] = []
        self.kept = None
        """Nothing is held over calls here: whoever is trusted returns memory of its own."""

    def play(self, drawn: Drawn, terms: Terms, sampled: bool = False, keep: bool = False) -> Turn:
        terms.breathe()
        self.outputs = []
        self.inputs = [tensor.clone() for tensor in drawn.tensors]
        watching: AbstractContextManager[Any] = Unwritten() if self.name == "candidate" else nullcontext()
        try:
            with torch.no_grad(), self.context, watching:
                result = drawn.call(self.module, self.inputs)
            self.wait()
            skeleton, tensors = flatten(result, NUMBERS)
            specs = lay_out(tensors, 0, terms.strides)[0]
            aliases = _aliases(tensors, self.inputs)
            self.outputs = [_readable(tensor, spec, self.device) for tensor, spec in zip(tensors, specs)]
            restrided = any(tensor.stride() != spec.stride for tensor, spec in zip(tensors, specs))
        except torch.OutOfMemoryError:
            raise Crowded from None
        except Exception as error:
            raise SideFailed("failure", describe("forward", error, self.path)) from None
        return Turn(0, 0, 0, skeleton, specs, aliases, restrided, 0, False)

    def output_views(self, specs: Sequence[TensorSpec]) -> list[torch.Tensor]:
        return self.outputs

    def input_views(self, turn: Turn) -> list[torch.Tensor]:
        return self.inputs

    def mutated(self, turn: Turn, drawn: Drawn) -> list[int]:
        pairs = enumerate(zip(self.inputs, drawn.tensors))
        return [
            number for number, (after, before) in pairs if after.stride() == before.stride() and not same_bytes(after, before)
        ]

    def forget(self) -> None:
        """Let go of the last call's tensors."""
        self.outputs, self.inputs = [], []

    def wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


def _readable(tensor: torch.Tensor, spec: TensorSpec, device: str) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg().to(device)
    if tensor.stride() == spec.stride:
        return tensor
    return torch.empty_strided(spec.shape, spec.stride, dtype=tensor.dtype, device=device).copy_(tensor)


def _aliases(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> bool:
    spans = [(tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in inputs if tensor.numel()]
    return any(low <= tensor.data_ptr() < high for tensor in outputs if tensor.numel() for low, high in spans)
